"""A torch.nn.Module of the caller's process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from converter.errors import UsageError
from converter.files.signatures import Marks
from converter.ir.model import BATCH
from converter.options.inputs import InputSpec
from converter.options.request import Request
from converter.protocols.parser import Identity
from converter.runtime.frameworks import Framework
from converter.runtime.session import Progress
from parsers.live import InProcess, live_identity
from parsers.pytorch.parser import PyTorchSource, parameter, versions
from parsers.pytorch.request import pytorch
from parsers.pytorch.spec import PYTORCH


class LiveTorch:
    """In the parser's place, for one module."""

    name = "pytorch"
    framework: Framework | None = PYTORCH
    marks = Marks()
    extra: str | None = None
    """None: it is read anew always, so that nothing is kept of it."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def sniff(self, source: str) -> bool:
        """Never: it is asked for by the module alone."""
        return False

    def identify(self, request: Request) -> Identity:
        """Its class' name; see :class:`converter.protocols.parser.Parser`."""
        for option in ("weights", "weights_key", "args", "kwargs"):
            if getattr(request, option):
                raise UsageError(
                    f"{option}= is for a class, but this module exists already and has its weights",
                    code="option-not-applicable",
                    hint="Leave it out, or load the weights into the module first.",
                )
        return live_identity(self.name, type(self._module).__name__, versions(request))

    def open(self, request: Request, workdir: Path, progress: Progress) -> LiveTorchSource:
        """Nothing is started: the module is here."""
        return LiveTorchSource(self._module, request, workdir, progress)


class LiveTorchSource(PyTorchSource):
    """The module, run where it is.

    Args:
        module: The live module.
        request: What was asked for.
        workdir: Where files are written.
        progress: Is called with what is being done.
    """

    def __init__(self, module: Any, request: Request, workdir: Path, progress: Progress) -> None:
        here = partial(InProcess, "parsers.pytorch.child.live:LiveTorchBackend", module)
        super().__init__(request, workdir, progress, here)

    def dependencies(self) -> Mapping[str, Path]:
        """None: what it depends on is in this process."""
        return {}

    def _load_params(self) -> dict[str, Any]:
        return {"submodule": pytorch(self._request).submodule}

    def _undeclared(self) -> list[InputSpec]:
        """The inputs as the samples have them, where those are arrays by the inputs' names."""
        samples = Path(self._request.samples or "")
        taken = [item for item in self._loaded["signature"] if item.get("required", True)]
        headers = _headers(samples) if samples.suffix == ".npz" and samples.is_file() else {}
        if not taken or any(item["name"] not in headers for item in taken):
            takes = ", ".join(map(parameter, self._loaded["signature"]))
            raise UsageError(
                f"{self._loaded['class']} needs inputs=, because PyTorch code doesn't "
                "declare its inputs",
                code="inputs-unknown",
                hint=f"Its forward takes ({takes}): give inputs=['NAME:batchx3x224x224'], or "
                "samples= with an array for each name.",
            )
        names = [item["name"] for item in self._loaded["signature"] if item["name"] in headers]
        found = {name: headers[name] for name in names}
        return [InputSpec(name, str(h.dtype), (BATCH, *h.shape[1:])) for name, h in found.items()]


def _headers(path: Path) -> Mapping[str, Any]:
    from converter.samples.stored import StoredArrays

    return StoredArrays(path, path.name).headers
