"""PyTorch: a model class or factory with its weights, or a file that holds both, becomes a Model.

``FILE.py:CLASS``, ``package.module:factory`` and ``package.module:Class.classmethod`` name
what is built; naming it is the user's word that this code may run. Exported programs,
TorchScript and pickled modules are files that need ``--trust-source``. All of it runs in a
child process (``parsers/worker``), which hands back an ONNX file, the reference outputs
and the framework's own latency.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import ModelError, UsageError
from converter.files.pickles import HEAD, first_module
from converter.options.inputs import InputSpec, parse_inputs
from converter.options.request import Request
from converter.preparation.suggested import IMAGES, Suggested
from converter.protocols.parser import Identity, Parser
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import interpreter
from converter.runtime.session import Progress
from converter.runtime.worker import MakeChild, Worker
from parsers.pytorch.child import contents
from parsers.pytorch.mmdnn import MMDNN
from parsers.pytorch.pictures import of_size, told
from parsers.pytorch.request import pytorch
from parsers.pytorch.scripted import taken
from parsers.pytorch.source import TorchSource
from parsers.pytorch.spec import PYTORCH, SPECS

if TYPE_CHECKING:
    from converter.ir.model import Model

_SPEC = SPECS["pytorch"]

_NAMED = re.compile(r"^(?P<where>.+?):(?P<attribute>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)$")
_DOTTED = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
_SUFFIXES = {".pth", ".pt", ".pt2", ".jit", ".bin", ".safetensors", ".ckpt"}
_OTHERS = {"sklearn", "joblib", "imblearn", "xgboost", "lightgbm"}
"""Packages whose pickles are called like PyTorch's now and then."""
_MODELS = {contents.PROGRAM, contents.TORCHSCRIPT, contents.MODULE}


class PyTorchParser:
    name = "pytorch"
    extra: str | None = _SPEC.extra
    framework: Framework | None = _SPEC.framework
    marks = _SPEC.marks
    options = _SPEC.options
    mmdnn = MMDNN

    def sniff(self, source: str) -> bool:
        """``FILE.py:NAME``, ``package.module:NAME`` and PyTorch's files, whatever their names.

        A bare checkpoint is among them, to say what it lacks.
        """
        match = _NAMED.match(source)
        if match:
            where = match["where"]
            return where.endswith(".py") or bool(_DOTTED.match(where))
        path = Path(source)
        if not path.is_file():
            return False
        called = path.suffix.lower() in _SUFFIXES
        with suppress(OSError):
            if first_module(_head(path)) in _OTHERS:
                return False
            return called or contents.kind_of(path) in _MODELS
        return called

    def identify(self, request: Request) -> Identity:
        """The source file and the weights; see :class:`converter.protocols.parser.Parser`.

        Every source is code, files of whole models too: they are unpickled, or hold operators
        that read other files.
        """
        if _is_model_file(request.source):
            _refuse_options(request)
            path = Path(request.source)
            named = {path.name: path}
            name = _as_name(path.stem)
            return Identity(name, self.name, named, versions(request), runs_code=True)
        where, attribute = _split(request.source)
        files = {}
        if where.endswith(".py"):
            files[Path(where).name] = _require_file(where, request.source)
        if request.weights:
            files["weights"] = _require_file(request.weights, "--weights")
        # Of a class's own factory, the class: Net.from_pretrained is a Net.
        name = _as_name(attribute.split(".")[0])
        return Identity(name, self.name, files, versions(request), runs_code=True)

    def living(self, value: object, folder: Path) -> Parser | None:
        """A torch.nn.Module of this process; see :class:`converter.protocols.parser.Living`."""
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(value, torch.nn.Module):
            return None
        from parsers.pytorch.live import LiveTorch

        return LiveTorch(value)

    def open(self, request: Request, workdir: Path, progress: Progress) -> PyTorchSource:
        """Starts the child; the framework loads while the caller goes on."""
        return PyTorchSource(request, workdir, progress)


class PyTorchSource(TorchSource):
    """A PyTorch model alive in its child process.

    Args:
        request: What was asked for: the source, the interpreter.
        workdir: Where the child writes.
        progress: Is called with what is being done.
        child: Makes what stands in the child's place; None: a process is started.
    """

    def __init__(
        self,
        request: Request,
        workdir: Path,
        progress: Progress,
        child: MakeChild | None = None,
    ) -> None:
        worker = Worker(
            PYTORCH,
            what="the PyTorch process",
            source=request.source,
            interpreter=interpreter(request.python),
            progress=progress,
            trusting="If you trust whoever made it, pass --trust-source; "
            "better, ask for .safetensors or a plain state_dict.",
            exporter="torch.export",
            child=child,
        )
        super().__init__(request, workdir, worker, versions(request))
        self._images: dict[str, Any] = {}

    def parse(self) -> Model:
        """Exports the model, and says what it says of pictures and of its classes."""
        model = super().parse()
        said = self._loaded["pictures"]
        notes = [f"{said['origin']}: no option says {said['unsaid']}"] if said["unsaid"] else []
        origins = {}
        if self._images:
            origins["prepare (picture)"] = said["origin"]
            model.source[IMAGES] = self._images
        first = model.outputs[0]
        if said["labels"] and first.shape and first.shape[-1] == len(said["labels"]):
            origins["answer (classes)"] = said["origin"]
            model.describe(first.name, meaning="scores", labels=said["labels"])
        if said["logits"] and len(first.shape or ()) == 2:
            model.describe(first.name, activation="softmax")
        model.source |= Suggested(origins=origins, notes=notes).told()
        return model

    def _load_params(self) -> dict[str, Any]:
        request = self._request
        return {
            **(_whole(request) if _is_model_file(request.source) else _parts(request)),
            "weights_key": request.weights_key,
            "search_paths": [str(Path(path).absolute()) for path in request.search_paths],
            "trust": request.trust_source,
            "submodule": pytorch(request).submodule,
        }

    def _after_load(self) -> None:
        if self._loaded["weights"] == "none" and self._loaded["parameters"]:
            self._warnings.append(
                "NO WEIGHTS WERE LOADED: the model's weights are random. Pass --weights FILE."
            )
        said = self._loaded["pictures"]
        shapes = [spec.shape for spec in parse_inputs(self._request.inputs)]
        if said["images"] and len(shapes) == 1 and len(shapes[0]) == 4:
            self._images = of_size(said["images"], shapes)
            self._warnings.append(told(self._images, f"{said['origin']} says"))

    def _undeclared(self) -> list[InputSpec]:
        takes = ", ".join(parameter(item) for item in self._loaded["signature"])
        raise UsageError(
            f"{self._request.source} needs --input, because PyTorch code doesn't declare its "
            "inputs",
            code="inputs-unknown",
            hint=f"Its forward takes ({takes}). For an image: --input x:batchx3x224x224",
        )

    def _description(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "format": "pytorch",
            "framework": f"torch {self._versions['torch']}",
            "class": self._loaded["class"],
            "parameters": self._loaded["parameters"],
            "weights": self._loaded["weights"],
            "exporter": answer["exporter"],
            **self._file(answer),
        }

    def _file(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Of TorchScript: what runs the file has to know of it."""
        if self._loaded["mode"] != "torchscript":
            return {}
        names = [item["name"] for item in answer["inputs"]]
        arguments = [(item["name"], item["annotation"]) for item in self._loaded["signature"]]
        told = taken(names, arguments)
        return {"file": {"kind": "torchscript", "returns": self._loaded["returns"], **told}}


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD)


def _is_model_file(source: str) -> bool:
    """Whether a file that holds a whole model is meant.

    Raises:
        ModelError: It is a damaged one.
    """
    path = Path(source)
    if _NAMED.match(source) or not path.is_file():
        return False
    kind = contents.kind_of(path)
    if kind in contents.BROKEN:
        raise ModelError(
            f"{path.name} is {kind}",
            code="model-damaged",
            hint="Fetch or copy it again, or write it again where it was made.",
        )
    return kind in _MODELS


def _refuse_options(request: Request) -> None:
    """Refuses what means nothing for a file that holds a whole model."""
    given = {"--weights": request.weights, "--arg": request.args or request.kwargs}
    for option, value in given.items():
        if value:
            raise UsageError(
                f"{option} only works with a class, and {Path(request.source).name} holds a "
                "whole model",
                code="option-not-applicable",
                hint=f"Leave {option} out, or name the class: modelyard convert FILE.py:CLASS ...",
            )


def _whole(request: Request) -> dict[str, Any]:
    """The child's parameters for a file that holds a whole model."""
    return {"file": str(Path(request.source).absolute())}


def _parts(request: Request) -> dict[str, Any]:
    """The child's parameters for code and weights."""
    where, attribute = _split(request.source)
    if where.endswith(".py"):
        where = str(Path(where).absolute())
    args, kwargs = _arguments(request)
    return {
        "source": f"{where}:{attribute}",
        "args": args,
        "kwargs": kwargs,
        "weights": str(Path(request.weights).absolute()) if request.weights else None,
    }


def _as_name(stem: str) -> str:
    return re.sub(r"\W+", "_", stem, flags=re.ASCII).strip("_").lower() or "model"


def _split(source: str) -> tuple[str, str]:
    match = _NAMED.match(source)
    if not match:
        path = Path(source)
        raise UsageError(
            f"{path.name} holds weights, not a model",
            code="not-a-model",
            hint=f"Name the Hugging Face folder that it is in: modelyard convert {path.parent}"
            if (path.parent / "config.json").is_file()
            else "Name the class that the weights are for: modelyard convert FILE.py:CLASS "
            f"--weights {path.name} --input ...",
        )
    return match["where"], match["attribute"]


def _require_file(path: str, what: str) -> Path:
    if not Path(path).is_file():
        raise UsageError(f"{what}: there is no file {path}", code="file-not-found")
    return Path(path)


def versions(request: Request) -> dict[str, str]:
    """The versions of what reads it; raises DependencyError for what isn't there."""
    return interpreter(request.python).require(PYTORCH.needs, "reading a PyTorch model", "torch")


def _arguments(request: Request) -> tuple[list[Any], dict[str, Any]]:
    """Constructor arguments: ``NAME=VALUE`` is a keyword; values are JSON where they can be."""
    args, kwargs = [], dict(request.kwargs)
    for item in request.args:
        match = (
            re.match(r"^([A-Za-z_]\w*)=(.*)$", item, re.DOTALL) if isinstance(item, str) else None
        )
        if match:
            kwargs[match[1]] = _value(match[2])
        else:
            args.append(_value(item))
    return args, kwargs


def _value(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def parameter(item: Mapping[str, Any]) -> str:
    """One of forward's parameters, as a message shows it."""
    return str(item["name"]) + ("" if item.get("required", True) else "=...")
