"""Files of frameworks in Triton, as they are: its pytorch and tensorflow backends.

The pytorch backend (LibTorch) knows a TorchScript file's inputs by the names of forward's
arguments, and its outputs by ``NAME__INDEX`` (``GetNamingConvention`` in its sources), so that the
package has ``OUTPUT__0``... whatever the model calls them. The tensorflow backend takes the
signature's own names, and parameters say which signature and tag are meant (its README).
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir

from converter import plugins
from converter.check.shipping import Item, Shipped
from converter.errors import Unsupported, UnsupportedError, UsageError
from converter.ir.lists import Rows
from converter.ir.model import Model, TensorSpec
from converter.protocols.emitter import Artifact
from converter.runtime.session import Session, Timing
from converter.samples import Sample, Samples
from emitters.serving.calling import call_problems
from emitters.serving.triton.request import TritonRequest

if TYPE_CHECKING:
    from converter.runtime.session import Arrays


@dataclass(frozen=True)
class Backend:
    """A backend of Triton's that has a framework.

    Attributes:
        name, platform: As configurations have it.
        file: The name that it looks for in a version's folder.
        runs: What it runs, for people.
        kind: As ``file.kind`` in the facts of a source has it.
        types: Of inputs and outputs that it takes.
    """

    name: str
    platform: str
    file: str
    runs: str
    kind: str
    types: frozenset[str]


_SIGNED = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")

BACKENDS = {
    "torchscript": Backend(
        *("pytorch", "pytorch_libtorch", "model.pt", "TorchScript file", "torchscript"),
        frozenset(_SIGNED),
    ),
    "savedmodel": Backend(
        *("tensorflow", "tensorflow_savedmodel", "model.savedmodel", "SavedModel", "saved_model"),
        frozenset((*_SIGNED, "uint16", "uint32", "uint64", "string")),
    ),
}
"""By target; types as ``ConvertDataType`` of the backends has them."""

_DEFAULT_SIGNATURE, _DEFAULT_TAG = "serving_default", "serve"
_INDEXED = re.compile(r".+__\d+")


def backend_of(config: Any) -> Backend | None:
    """The backend of a configuration; None for one that serves no file of a framework."""
    return next((item for item in BACKENDS.values() if item.name == config.backend), None)


def require_servable(model: Model, target: str, request: TritonRequest) -> None:
    """Refuses what the backend can't take.

    Args:
        model: What is to be served.
        target: ``torchscript`` or ``savedmodel``.
        request: Its ``optimization``, ``ragged``, ``sequence`` and ``states``, which are for ONNX
            files alone.

    Raises:
        UsageError: An option of another backend's.
        UnsupportedError: What forward takes or gives, or what a graph is called.
    """
    others = {
        f"--optimization {request.optimization}": request.optimization,
        "--ragged": request.ragged,
        "--sequence, --state": request.sequence or request.states,
    }
    for option, given in others.items():
        if given:
            raise UsageError(
                f"{option} only works with ONNX files; Triton runs a {BACKENDS[target].runs} "
                "unchanged",
                code="option-not-applicable",
            )
    file, scripted = model.source.get("file", {}), target == "torchscript"
    is_source = file.get("kind") == BACKENDS[target].kind
    if scripted and not is_source:
        return  # the target says why
    problems = list(call_problems(model, "the backend")) if scripted else []
    problems += _graph_problems(file) if is_source and not scripted else ()
    problems += _type_problems(model, BACKENDS[target])
    if problems:
        raise UnsupportedError(
            f"Triton's {BACKENDS[target].name} backend can't run this file as it is", problems
        )


def _type_problems(model: Model, backend: Backend) -> Iterator[Unsupported]:
    for kind, specs in (("input", model.inputs), ("output", model.outputs)):
        for spec in specs:
            if spec.dtype not in backend.types:
                why = f"the backend takes no {spec.dtype}"
                yield Unsupported(spec.name, kind, why, "serve the ONNX file: --to onnx")


def _graph_problems(file: Mapping[str, Any]) -> Iterator[Unsupported]:
    if len(file["tags"]) != 1:
        tags = ", ".join(file["tags"]) or "none"
        why = f"its graph has the tags {tags}, and the backend looks for one"
        yield Unsupported("saved_model.pb", "tags", why, "serve the ONNX file: --to onnx")


# -- names ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BackendNames:
    """What the backend calls the model's inputs and outputs, by the model's names."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]

    @classmethod
    def of(cls, model: Model, target: str) -> BackendNames:
        """Those of forward's arguments and of outputs by their places; a signature's own."""
        if target != "torchscript":
            return cls(
                {i.name: i.name for i in model.inputs}, {o.name: o.name for o in model.outputs}
            )
        places = {spec.name: f"OUTPUT__{at}" for at, spec in enumerate(model.outputs)}
        return cls(dict(model.source["file"]["arguments"]), places)

    @property
    def own(self) -> dict[str, str]:
        """The model's names by the backend's."""
        return {new: old for old, new in self._all()}

    def notes(self) -> list[str]:
        """What is called otherwise than in the model, a line."""
        other = [f"{new} is {old}" for old, new in self._all() if old != new]
        if not other:
            return []
        return [f"names as the pytorch backend takes them: {', '.join(other)}"]

    def _all(self) -> list[tuple[str, str]]:
        return [*self.inputs.items(), *self.outputs.items()]

    def model(self, model: Model) -> Model:
        """Its inputs and outputs under the backend's names, and nothing between them."""
        meanings = {
            names[old]: dict(model.meanings[old])
            for names in (self.inputs, self.outputs)
            for old in names
            if old in model.meanings
        }
        main = model.graph.graph
        inputs = [_value(value, self.inputs) for value in main.inputs if value.name in self.inputs]
        outputs = [_value(value, self.outputs) for value in main.outputs]
        graph = onnx_ir.Graph(inputs, outputs, nodes=[], opset_imports=main.opset_imports)
        return Model(onnx_ir.Model(graph, ir_version=model.graph.ir_version), meanings)

    def shipped(self, shipped: Shipped | None) -> Shipped | None:
        """The same samples under the backend's names."""
        if shipped is None:
            return None
        return replace(
            shipped,
            items=tuple(
                Item(item.name, _renamed(item.feeds, self.inputs),
                     _renamed(item.expected, self.outputs))
                for item in shipped.items
            ),
            outputs=tuple(_spec(spec, self.outputs) for spec in shipped.outputs),
            lists=tuple(
                Rows(tuple(self.outputs[name] for name in rows.outputs), rows.axis)
                for rows in shipped.lists
            ),
        )  # fmt: skip


def _renamed(arrays: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names[name]: array for name, array in arrays.items()}


def _value(value: onnx_ir.Value, names: Mapping[str, str]) -> onnx_ir.Value:
    return onnx_ir.Value(name=names[value.name or ""], type=value.type, shape=value.shape)


def _spec(spec: TensorSpec, names: Mapping[str, str]) -> TensorSpec:
    return replace(spec, name=names[spec.name])


class NamedSamples(Samples):
    """Samples under the backend's names."""

    def __init__(self, samples: Samples, names: BackendNames) -> None:
        self._samples, self._names = samples, names.inputs
        self.origin, self.random = samples.origin, samples.random
        self.of_images, self.label_names = samples.of_images, samples.label_names
        self.inputs = tuple(_spec(spec, names.inputs) for spec in samples.inputs)

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        for sample in self._samples:
            yield Sample(sample.name, _renamed(sample.feeds, self._names), sample.label)


class NamedSession:
    """A session under the backend's names."""

    def __init__(self, session: Session, names: BackendNames) -> None:
        self._session, self._names = session, names
        self._back = {new: old for old, new in names.inputs.items()}
        self.inputs = tuple(_spec(spec, names.inputs) for spec in session.inputs)
        self.outputs = tuple(_spec(spec, names.outputs) for spec in session.outputs)

    @property
    def runtime(self) -> dict[str, Any]:
        """The session's."""
        return self._session.runtime

    def run(self, feeds: Arrays) -> dict[str, Any]:
        """Outputs by the backend's names."""
        return _renamed(self._session.run(_renamed(feeds, self._back)), self._names.outputs)

    def time(self, feeds: Arrays, runs: int, concurrency: int = 1) -> Timing:
        """See :meth:`converter.runtime.session.Session.time`."""
        return self._session.time(_renamed(feeds, self._back), runs, concurrency)

    def close(self) -> None:
        self._session.close()


def open_session(artifact: Artifact, request: TritonRequest, names: BackendNames) -> Session:
    """The file in its framework, under the backend's names.

    Args:
        artifact: The file.
        request: As the target's ``open`` takes it.
        names: What the backend calls inputs and outputs.

    Raises:
        ModelError: The framework refuses it.
    """
    session: Session = plugins.load("emitters", artifact.target).open(artifact, request)
    return NamedSession(session, names)


# -- configuration ----------------------------------------------------------------------------


def fill_config(config: Any, target: str, source: Mapping[str, Any], batched: bool) -> None:
    """Turns a configuration into the backend's.

    An output's dims are the signature's: the tensorflow backend compares them exactly, also where
    the exported graph knows more.

    Args:
        config: The ``ModelConfig``, which is changed.
        target: ``torchscript`` or ``savedmodel``.
        source: Facts of the model's source, with the signature and the file's own shapes.
        batched: Whether Triton batches: dims then lack the batch.
    """
    backend = BACKENDS[target]
    config.backend, config.platform = backend.name, backend.platform
    threads = config.parameters.pop("intra_op_thread_count", None)
    if threads is not None:
        key = "INTRA_OP_THREAD_COUNT" if target == "torchscript" else "TF_NUM_INTRA_THREADS"
        config.parameters[key].string_value = threads.string_value
    if target == "torchscript":
        return
    file = source.get("file", {})
    if (signature := source.get("signature")) and signature != _DEFAULT_SIGNATURE:
        config.parameters["TF_SIGNATURE_DEF"].string_value = signature
    if file.get("kind") != backend.kind:
        return
    if file["tags"] != [_DEFAULT_TAG]:
        config.parameters["TF_GRAPH_TAG"].string_value = file["tags"][0]
    for entry in config.output:
        shape = file["outputs"][entry.name]
        if shape and not entry.HasField("reshape"):
            sizes = shape[1:] if batched else shape
            entry.dims[:] = [-1 if size is None else size for size in sizes]


# -- reading back -----------------------------------------------------------------------------


def version_problems(folder: Path, config: Any) -> Iterator[str]:
    """What is wrong with a version's folder and the configuration's names; the file isn't loaded,
    since loading one can run what its maker put there."""
    backend = backend_of(config)
    assert backend is not None
    where = f"version {folder.name}"
    path = folder / (config.default_model_filename or backend.file)
    if config.platform != backend.platform:
        yield f"{where}: the platform is {config.platform!r}, and it is {backend.platform}"
    if backend.name == "pytorch":
        if not _is_torchscript(path):
            yield f"{where} holds no TorchScript file {path.name}"
        yield from _indexed_problems(config.output)
    elif not any((path / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt")):
        yield f"{where} holds no SavedModel {path.name}"


def _is_torchscript(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def _indexed_problems(entries: Sequence[Any]) -> Iterator[str]:
    names = [entry.name for entry in entries]
    if not all(map(_INDEXED.fullmatch, names)):
        yield f"outputs {', '.join(names)}: the pytorch backend takes NAME__INDEX"
        return
    found = sorted(int(name.rpartition("__")[2]) for name in names)
    if found != list(range(len(names))):
        yield f"outputs {', '.join(names)}: their places aren't 0 to {len(names) - 1}"
