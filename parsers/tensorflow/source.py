"""A TensorFlow or Keras model alive in its child process."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import UsageError
from converter.options.inputs import InputSpec, fixed_to_one, parse_inputs, with_batch
from converter.options.request import Request
from converter.options.resolved import keeps_layers
from converter.preparation.suggested import IMAGES, Suggested
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import interpreter
from converter.runtime.session import Progress
from converter.runtime.worker import MakeChild, Worker, WorkerSession, tensor_specs
from parsers.tensorflow.spec import TENSORFLOW, TENSORFLOWS

if TYPE_CHECKING:
    from converter.ir.model import Model, TensorSpec

_LAYOUTS = {
    "channels_last": {3: "NWC", 4: "NHWC", 5: "NDHWC"},
    "channels_first": {3: "NCW", 4: "NCHW", 5: "NCDHW"},
}


class TensorFlowSource:
    """A file that TensorFlow or Keras opens.

    Args:
        request: What was asked for.
        workdir: Where the exported file and arrays go.
        progress: Told what is being done.
        format: ``tensorflow`` or ``keras``, for the report.
        path: What to open; the request's source where left out.
        kind: How the child opens it: ``saved_model``, ``graph``, ``checkpoint`` or ``keras``.
        framework: What opens it in the child.
        child: Makes what answers in the child's place.
    """

    def __init__(
        self,
        request: Request,
        workdir: Path,
        progress: Progress,
        format: str,
        *,
        path: Path | None = None,
        kind: str = "keras",
        framework: Framework = TENSORFLOW,
        child: MakeChild | None = None,
    ) -> None:
        self._request = request
        self._workdir = workdir
        self._format = format
        self._path = path or Path(request.source)
        self._kind = kind
        self._interpreter = interpreter(request.python)
        self._warnings: list[str] = []
        self._worker = Worker(
            framework,
            what="the TensorFlow process",
            source=request.source,
            interpreter=self._interpreter,
            progress=progress,
            exporter="ONNX",
            env=_environment(request.threads),
            child=child,
        )
        self._loaded: dict[str, Any] = {}
        self._exported: dict[str, Any] = {}

    # -- Source --------------------------------------------------------------------

    def parse(self) -> Model:
        """Exports the model; see :class:`converter.protocols.parser.Source`.

        Raises:
            UsageError: What was asked of inputs, outputs or the signature doesn't fit the file.
            UnsupportedError: It can't be exported; all that can't is listed.
            ModelError: Reading it would run code of its own.
        """
        from converter.ir.model import Model

        answer = self._export()
        model = Model.load(Path(answer["out"]))
        if apart := self._no_batch(model):
            answer = self._export(apart)
            model = Model.load(Path(answer["out"]))
        model.source = self._description(answer)
        layouts = _LAYOUTS.get(self._loaded["layout"], {})
        for spec in model.inputs:
            if spec.rank == 4:
                model.describe(spec.name, layout=layouts.get(4))
        model.source |= self._pictures(model)
        return model

    def _pictures(self, model: Model) -> dict[str, Any]:
        """How pictures become the only input, for ``Model.source``, where the model says so."""
        said = self._loaded["pictures"]
        shape = model.inputs[0].shape or () if len(model.inputs) == 1 else ()
        if not said or len(shape) != 4:
            return {}
        if "image_mean" in said["images"] and 3 not in (shape[1], shape[3]):
            return {}
        origins = {"prepare (picture)": said["origin"]}
        told = " ".join(f"--{n.replace('_', '-')} {v}" for n, v in said["images"].items())
        self._warnings.append(
            f"images are prepared as {said['origin']} says, where no option says otherwise: {told}"
        )
        return {IMAGES: said["images"], **Suggested(origins=origins).told()}

    def reference(self) -> WorkerSession:
        """The model in TensorFlow, as its graph."""
        if not self._exported:
            self._export()
        inputs, outputs = (tensor_specs(self._exported[side]) for side in ("inputs", "outputs"))
        return self._session(inputs, outputs)

    def rerun(
        self, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]
    ) -> WorkerSession:
        """The model under an interface that is known, of its own names; see
        :class:`converter.protocols.parser.Rerunning`."""
        self._load()
        return self._session(inputs, outputs)

    def _session(
        self, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]
    ) -> WorkerSession:
        runtime = {
            "name": "tensorflow",
            "version": self._version(),
            "mode": self._loaded["mode"],
            "device": "cpu",
            "onednn": self._loaded["onednn"],
        }
        threads = self._request.threads
        return WorkerSession(self._worker.call, self._workdir, inputs, outputs, runtime, threads)

    def dependencies(self) -> Mapping[str, Path]:
        """None: all its files are known beforehand."""
        return {}

    @property
    def warnings(self) -> Sequence[str]:
        """What the report has to say loudly."""
        return [*self._worker.warnings, *self._warnings]

    def close(self) -> None:
        self._worker.close()

    # -- the child -----------------------------------------------------------------

    def _load(self) -> None:
        if self._loaded:
            return
        request = self._request
        given = parse_inputs(request.inputs)
        self._loaded = self._worker.call(
            "load",
            file=str(self._path.absolute()),
            kind=self._kind,
            signature=request.signature,
            inputs=[
                {
                    "name": spec.name,
                    "dtype": spec.dtype if spec.typed else None,
                    "shape": list(spec.shape),
                }
                for spec in given
            ],
            outputs=request.outputs,
            constants=self._constants(),
            weights=str(Path(request.weights).absolute()) if request.weights else None,
            trust=request.trust_source,
            search_paths=[str(Path(path).absolute()) for path in request.search_paths],
        )
        self._warnings += self._loaded.get("warnings", ())

    def _constants(self) -> dict[str, Any]:
        """Values of placeholders: ``--arg NAME=VALUE``.

        Raises:
            UsageError: One has no name.
        """
        import json

        found = dict(self._request.kwargs)
        for item in self._request.args:
            name, equals, value = str(item).partition("=")
            if not equals or not name:
                raise UsageError(
                    f"--arg {item}: for a graph, the form is NAME=VALUE",
                    code="option-value",
                    hint="NAME is the name of a placeholder, as in --arg is_training=false.",
                )
            try:
                found[name] = json.loads(value)
            except json.JSONDecodeError:
                found[name] = value
        return found

    def _no_batch(self, model: Model) -> dict[str, str]:
        """Names for the first dimensions of inputs that share no batch; see
        :mod:`converter.analysis.shared_batch`."""
        from converter.analysis.shared_batch import own_sizes, told

        request = self._request
        if request.inputs or request.batch not in (None, "keep"):
            return {}
        free = [item["name"] for item in self._loaded["inputs"] if item["shape"][:1] == [None]]
        apart = own_sizes(model, dict.fromkeys(free), request.dims)
        self._warnings += [told(apart)] if apart else []
        return apart

    def _export(self, firsts: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The worker's answer; ``firsts`` are names of first dimensions, by input."""
        from converter.ir.model import OPSET

        if self._exported and not firsts:
            return self._exported
        self._load()
        named = _renamed_firsts(self._named_inputs(), firsts or {})
        specs = with_batch(named, self._request.batch)
        if specs == named and self._request.inputs:
            self._warnings += fixed_to_one(_left_free(named, self._loaded["inputs"]))
        self._exported = self._worker.call(
            "export",
            inputs=[
                {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
                for spec in specs
            ],
            outputs=[item["name"] for item in self._loaded["outputs"]],
            opset=OPSET,
            out=str(self._workdir / "exported.onnx"),
            keeps_layers=keeps_layers(self._request),
        )
        self._warnings += self._exported.get("warnings", ())
        return self._exported

    def _named_inputs(self) -> list[InputSpec]:
        """The model's inputs, in its order, as the user wants them called and shaped.

        Raises:
            UsageError: ``--input`` doesn't fit them, or they need one.
        """
        declared: list[dict[str, Any]] = self._loaded["inputs"]
        given = {spec.name: spec for spec in parse_inputs(self._request.inputs)}
        if not given:
            return _free_dimensions_named(declared)
        names = [item["name"] for item in declared]
        if self._kind in ("graph", "checkpoint") or set(given) == set(names):
            chosen = [given.get(name) or given[f"{name}:0"] for name in names]
            chosen = [
                InputSpec(name, spec.dtype, spec.shape, spec.typed)
                for name, spec in zip(names, chosen, strict=True)
            ]
        elif len(given) == len(names):
            chosen = list(given.values())
        else:
            raise UsageError(
                f"--input {', '.join(given)}: the model takes {_described(declared)}",
                code="interface-mismatch",
                hint="Give all of them by their names or in their order, or give none.",
            )
        return [_fitting(spec, item) for spec, item in zip(chosen, declared, strict=True)]

    def _version(self) -> str:
        name = self._interpreter.first(TENSORFLOWS)
        return (self._interpreter.version(name) if name else None) or ""

    def _description(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        signature = self._loaded["signature"]
        return {
            "format": self._format,
            "framework": f"tensorflow {self._version()}",
            **({"signature": signature} if signature else {}),
            "class": self._loaded["class"],
            "parameters": self._loaded["parameters"],
            "exporter": answer["exporter"],
            **self._file(),
        }

    def _file(self) -> dict[str, Any]:
        """Of a SavedModel: what runs the folder has to know of it."""
        if self._kind != "saved_model":
            return {}
        shapes = {
            side: {item["name"]: item["shape"] for item in self._loaded[key]}
            for side, key in (("inputs", "inputs"), ("outputs", "own_outputs"))
        }
        tags = self._loaded["tags"]
        return {"file": {"kind": "saved_model", **shapes, "tags": tags}}


def _environment(threads: int | None) -> dict[str, str]:
    """TensorFlow's pools of threads are a process's, made with its first operator."""
    if threads is None:
        return {}
    return {"TF_NUM_INTRAOP_THREADS": str(threads), "TF_NUM_INTEROP_THREADS": str(threads)}


def _free_dimensions_named(declared: Sequence[Mapping[str, Any]]) -> list[InputSpec]:
    """Inputs as the file declares them: a free first dimension is the batch.

    Raises:
        UsageError: The rank of some isn't known.
    """
    from converter.ir.model import BATCH

    unknown = [item["name"] for item in declared if item["shape"] is None]
    if unknown:
        raise UsageError(
            f"the file doesn't declare the number of dimensions of {', '.join(unknown)}",
            code="inputs-unknown",
            hint="Pass --input NAME:DIMxDIM for each input, as in --input x:batchx224x224x3.",
        )
    specs = []
    for item in declared:
        symbol = re.sub(r"\W", "_", item["name"])
        symbol = symbol if symbol[:1].isalpha() else f"input_{symbol}"
        shape = tuple(
            size if size is not None else BATCH if place == 0 else f"{symbol}_dim{place}"
            for place, size in enumerate(item["shape"])
        )
        specs.append(InputSpec(item["name"], item["dtype"], shape))
    return specs


def _renamed_firsts(specs: Sequence[InputSpec], firsts: Mapping[str, str]) -> list[InputSpec]:
    return [
        replace(spec, shape=(firsts[spec.name], *spec.shape[1:])) if spec.name in firsts else spec
        for spec in specs
    ]


def _fitting(spec: InputSpec, declared: Mapping[str, Any]) -> InputSpec:
    """The user's input in the type of the model's.

    Raises:
        UsageError: It is of another type, or has other dimensions than the file fixes.
    """
    if spec.typed and spec.dtype != declared["dtype"]:
        raise UsageError(
            f"--input {spec.name}: the model takes {declared['dtype']}, not {spec.dtype}",
            code="interface-mismatch",
        )
    shape = declared["shape"]
    if shape is not None and len(shape) != len(spec.shape):
        raise UsageError(
            f"--input {spec.name}: the model takes {_described([declared])}, "
            f"{len(shape)} dimensions, not {len(spec.shape)}",
            code="interface-mismatch",
        )
    return InputSpec(spec.name, declared["dtype"], spec.shape)


def _left_free(
    specs: Sequence[InputSpec], declared: Sequence[Mapping[str, Any]]
) -> list[InputSpec]:
    """The inputs whose first dimension the file leaves free."""
    return [
        spec
        for spec, item in zip(specs, declared, strict=True)
        if item["shape"] is None or item["shape"][:1] == [None]
    ]


def _described(declared: Sequence[Mapping[str, Any]]) -> str:
    def dims(shape: Sequence[int | None] | None) -> str:
        return "?" if shape is None else ", ".join("?" if d is None else str(d) for d in shape)

    return ", ".join(f"{i['name']}: {i['dtype']}[{dims(i['shape'])}]" for i in declared)
