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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import ModelError, UsageError
from converter.inputs import InputSpec, parse_input
from converter.interpreter import interpreter
from converter.plugins import Identity, Progress
from converter.request import Request
from converter.worker import Worker, WorkerSession, tensor_specs
from parsers.worker import contents

if TYPE_CHECKING:
    from converter.ir import Model

_SPEC = re.compile(r"^(?P<where>.+?):(?P<attribute>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)$")
_DOTTED = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
_SUFFIXES = {".pth", ".pt", ".pt2", ".jit", ".bin", ".safetensors", ".ckpt"}
_MODELS = {contents.PROGRAM, contents.TORCHSCRIPT, contents.MODULE}


class PyTorchParser:
    """The plug-in."""

    name = "pytorch"
    extra = "torch"

    def sniff(self, source: str) -> bool:
        """``FILE.py:NAME``, ``package.module:NAME`` and PyTorch's files, whatever their names.

        A bare checkpoint is among them, to say what it lacks.
        """
        match = _SPEC.match(source)
        if match:
            where = match["where"]
            return where.endswith(".py") or bool(_DOTTED.match(where))
        path = Path(source)
        if not path.is_file():
            return False
        if path.suffix.lower() in _SUFFIXES:
            return True
        with suppress(OSError):
            return contents.kind_of(path) in _MODELS
        return False

    def identify(self, request: Request) -> Identity:
        """The source file and the weights; see :class:`converter.plugins.Parser`."""
        if _is_model_file(request.source):
            _refuse_options(request)
            path = Path(request.source)
            return Identity(_as_name(path.stem), self.name, {path.name: path}, _versions(request))
        where, attribute = _split(request.source)
        files = {}
        if where.endswith(".py"):
            files[Path(where).name] = _require_file(where, "the model's source file")
        if request.weights:
            files["weights"] = _require_file(request.weights, "the weights")
        stem = Path(where).stem if where.endswith(".py") else attribute.split(".")[0]
        return Identity(_as_name(stem), self.name, files, _versions(request))

    def open(self, request: Request, workdir: Path, progress: Progress) -> PyTorchSource:
        """Starts the child; the framework loads while the caller goes on."""
        return PyTorchSource(request, workdir, progress)


class PyTorchSource:
    """A PyTorch model alive in its child process."""

    def __init__(self, request: Request, workdir: Path, progress: Progress) -> None:
        self._request = request
        self._workdir = workdir
        self._warnings: list[str] = []
        self._dependencies: dict[str, Path] = {}
        self._versions = _versions(request)
        self._worker = Worker(
            "torch",
            what="the PyTorch process",
            extra="torch",
            source=request.source,
            interpreter=interpreter(request.python),
            progress=progress,
            trusting="If you trust whoever made it, pass --trust-source; "
            "better, ask for .safetensors or a plain state_dict.",
            exporter="torch.export",
        )
        self._loaded: dict[str, Any] = {}
        self._exported: dict[str, Any] = {}

    # -- Source --------------------------------------------------------------------

    def parse(self) -> Model:
        """Exports the model; see :class:`converter.plugins.Source`.

        Raises:
            UsageError: The code, its arguments, the weights or the inputs don't fit together.
            UnsupportedError: It can't be exported; all that the exporter says of it is listed.
        """
        from converter.ir import Model

        self._load()
        inputs = self._input_specs()
        answer = self._export(inputs)
        model = Model.load(Path(answer["out"]))
        model.source = self._description(answer)
        return model

    def reference(self) -> WorkerSession:
        """The module itself: in eager mode, or as its file has it."""
        self._load()
        if not self._exported:
            self._export(self._input_specs())
        runtime = {
            "name": "torch",
            "version": self._versions["torch"],
            "mode": self._loaded["mode"],
            "device": "cpu",
        }
        inputs, outputs = (tensor_specs(self._exported[side]) for side in ("inputs", "outputs"))
        threads = self._request.threads
        return WorkerSession(self._worker.call, self._workdir, inputs, outputs, runtime, threads)

    def dependencies(self) -> Mapping[str, Path]:
        """The user's modules that were imported, by dotted name."""
        return self._dependencies

    @property
    def warnings(self) -> Sequence[str]:
        """What the report has to say loudly."""
        return [*self._worker.warnings, *self._warnings]

    def close(self) -> None:
        """Ends the child."""
        self._worker.close()

    # -- the child -----------------------------------------------------------------

    def _load(self) -> None:
        if self._loaded:
            return
        request = self._request
        self._loaded = self._worker.call(
            "load",
            **(_whole(request) if _is_model_file(request.source) else _parts(request)),
            weights_key=request.weights_key,
            search_paths=[str(Path(path).absolute()) for path in request.search_paths],
            trust=request.trust_source,
        )
        self._warnings += self._loaded.get("warnings", ())
        if self._loaded["weights"] == "none" and self._loaded["parameters"]:
            self._warnings.append(
                "NO WEIGHTS WERE LOADED: the model's weights are random. Pass --weights FILE."
            )

    def _input_specs(self) -> list[InputSpec]:
        """The inputs to export with, and their batch as it was asked for.

        What an exported program declares is kept, unless the user says otherwise.
        """
        batch = self._request.batch
        if self._loaded["inputs"] and batch is None:
            batch = "keep"
        return _with_batch(self._given_inputs(), batch)

    def _given_inputs(self) -> list[InputSpec]:
        request = self._request
        declared = [
            InputSpec(item["name"], item["dtype"], tuple(item["shape"]))
            for item in self._loaded["inputs"]
        ]
        if not request.inputs and declared:
            return declared
        if not request.inputs:
            takes = ", ".join(_parameter(item) for item in self._loaded["signature"])
            raise UsageError(
                f"{request.source} needs --input: PyTorch code doesn't say what it takes",
                hint=f"Its forward takes ({takes}). For an image: --input x:batchx3x224x224",
            )
        return _typed_as([parse_input(text) for text in request.inputs], declared)

    def _export(self, inputs: list[InputSpec]) -> dict[str, Any]:
        from converter.ir import BATCH

        try:
            answer = self._call_export(inputs)
        except ModelError as error:
            free = any(BATCH in spec.shape for spec in inputs)
            if self._request.batch is not None or not free:
                raise
            answer = self._call_export([_fixed(spec, 1) for spec in self._given_inputs()])
            why = error.message.strip()
            self._warnings.append(f"THE BATCH IS FIXED: with a free one, {why}")
        self._exported = answer
        self._warnings += answer.get("warnings", ())
        self._dependencies = {item["name"]: Path(item["path"]) for item in answer["modules"]}
        return answer

    def _call_export(self, inputs: list[InputSpec]) -> dict[str, Any]:
        from converter.ir import OPSET

        return self._worker.call(
            "export",
            inputs=[
                {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
                for spec in inputs
            ],
            sizes=self._request.dims,
            opset=OPSET,
            out=str(self._workdir / "exported.onnx"),
            outputs=self._request.outputs or None,
        )

    def _description(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "format": "pytorch",
            "framework": f"torch {self._versions['torch']}",
            "class": self._loaded["class"],
            "parameters": self._loaded["parameters"],
            "weights": self._loaded["weights"],
            "exporter": answer["exporter"],
        }


def _is_model_file(source: str) -> bool:
    """Whether a file that holds a whole model is meant.

    Raises:
        ModelError: It is a damaged one.
    """
    path = Path(source)
    if _SPEC.match(source) or not path.is_file():
        return False
    kind = contents.kind_of(path)
    if kind == contents.DAMAGED:
        raise ModelError(
            f"{path.name} is {kind}", hint="Fetch or copy it again: its end is missing."
        )
    return kind in _MODELS


def _refuse_options(request: Request) -> None:
    """Refuses what means nothing for a file that holds a whole model."""
    given = {"--weights": request.weights, "--arg": request.args or request.kwargs}
    for option, value in given.items():
        if value:
            raise UsageError(
                f"{option} goes with a class: {Path(request.source).name} holds a whole model",
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
    return re.sub(r"\W+", "_", stem).lower()


def _split(source: str) -> tuple[str, str]:
    match = _SPEC.match(source)
    if not match:
        raise UsageError(
            f"{Path(source).name} holds weights, not a model",
            hint="Name the class they are for: "
            f"modelyard convert FILE.py:CLASS --weights {Path(source).name} --input ...",
        )
    return match["where"], match["attribute"]


def _require_file(path: str, what: str) -> Path:
    if not Path(path).is_file():
        raise UsageError(f"{what} isn't there: {path}")
    return Path(path)


def _versions(request: Request) -> dict[str, str]:
    packages = ("torch", "onnxscript")
    return interpreter(request.python).require(packages, "reading a PyTorch model", "torch")


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


def _with_batch(specs: list[InputSpec], batch: str | None) -> list[InputSpec]:
    """The inputs with the batch that was asked for: symbolic unless it is to be kept or fixed."""
    from converter.ir import BATCH

    if batch == "keep":
        return specs
    if batch not in (None, "dynamic"):
        return [_fixed(spec, int(batch)) for spec in specs]
    firsts = {spec.shape[0] for spec in specs if spec.shape}
    if BATCH in firsts or len(firsts) != 1 or not isinstance(next(iter(firsts)), int):
        return specs
    return [
        InputSpec(spec.name, spec.dtype, (BATCH, *spec.shape[1:])) if spec.shape else spec
        for spec in specs
    ]


def _typed_as(specs: list[InputSpec], declared: list[InputSpec]) -> list[InputSpec]:
    """The inputs, with the declared type, by position, for each that was given none."""
    if len(specs) != len(declared):
        return specs
    return [
        spec if spec.typed else InputSpec(spec.name, own.dtype, spec.shape)
        for spec, own in zip(specs, declared, strict=True)
    ]


def _fixed(spec: InputSpec, size: int) -> InputSpec:
    from converter.ir import BATCH

    shape = tuple(size if dim == BATCH else dim for dim in spec.shape)
    return InputSpec(spec.name, spec.dtype, shape)


def _parameter(item: Mapping[str, Any]) -> str:
    return str(item["name"]) + ("" if item.get("required", True) else "=...")
