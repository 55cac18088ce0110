"""An artifact that a parser opens: in its framework, in a process of its own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import UsageError
from converter.ir.model import Model, TensorSpec
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from converter.protocols.parser import Parser, Rerunning, Source
from converter.runtime.session import Session, Timing

if TYPE_CHECKING:
    from converter.runtime.session import Arrays

INTERFACE = "interface"
"""The detail of an artifact that has its inputs and outputs as the source was exported."""


def plain(specs: Sequence[TensorSpec]) -> list[list[Any]]:
    """Name, dtype and shape of each."""
    return [[spec.name, spec.dtype, list(spec.shape or ())] for spec in specs]


def interface(model: Model) -> dict[str, Any]:
    """The detail of that name."""
    return {INTERFACE: {"inputs": plain(model.inputs), "outputs": plain(model.outputs)}}


def interface_of(artifact: Artifact) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """An artifact's inputs and outputs: of its details, or of the package around it.

    Raises:
        UsageError: There is none.
    """
    told = artifact.details.get(INTERFACE) or packaged(artifact.path)
    return specs_of(told["inputs"]), specs_of(told["outputs"])


def specs_of(items: Sequence[Sequence[Any]]) -> tuple[TensorSpec, ...]:
    """What :func:`plain` wrote."""
    return tuple(TensorSpec(name, dtype, tuple(shape)) for name, dtype, shape in items)


def packaged(path: Path) -> Mapping[str, Any]:
    """The inputs and outputs of a file, as the package around it has them.

    Raises:
        UsageError: There is none.
    """
    facts = path.with_name("modelyard.json")
    if not facts.is_file():
        raise UsageError(
            f"{path.name} isn't in a package, so its inputs and outputs aren't known",
            code="not-an-artifact",
            hint="Name the folder that Modelyard made.",
        )
    told = json.loads(facts.read_text(encoding="utf-8"))
    return {
        side: [[item["name"], item["dtype"], item["shape"]] for item in told[side]]
        for side in ("inputs", "outputs")
    }


class Opened:
    """A session that has its process for itself.

    Args:
        parser: What opens the file.
        request: Its ``source`` is the file.
        interface: Its inputs and outputs as they were exported; None where they aren't known, and
            the file is exported anew to find them.
    """

    def __init__(
        self, parser: Parser, request: Request, interface: Mapping[str, Any] | None
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="modelyard-")
        self._source: Source = parser.open(request, Path(self._folder.name), lambda text: None)
        try:
            self._session = self._started(interface)
        except BaseException:  # Ctrl-C too must not leave its process and folder
            self.close()
            raise
        self.inputs, self.outputs = self._session.inputs, self._session.outputs

    def _started(self, interface: Mapping[str, Any] | None) -> Session:
        source = self._source
        if interface is not None and isinstance(source, Rerunning):
            return source.rerun(specs_of(interface["inputs"]), specs_of(interface["outputs"]))
        return source.reference()

    @property
    def runtime(self) -> dict[str, Any]:
        """The framework's."""
        return self._session.runtime

    def run(self, feeds: Arrays) -> dict[str, Any]:
        """Outputs by name; inputs go in the interface's order, by which the framework may know
        them."""
        return self._session.run({spec.name: feeds[spec.name] for spec in self.inputs})

    def time(self, feeds: Arrays, runs: int, concurrency: int = 1) -> Timing:
        """See :meth:`converter.runtime.session.Session.time`."""
        ordered = {spec.name: feeds[spec.name] for spec in self.inputs}
        return self._session.time(ordered, runs, concurrency)

    def close(self) -> None:
        """Ends the process."""
        self._source.close()
        self._folder.cleanup()
