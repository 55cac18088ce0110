"""The intermediate representation: an ONNX model with its interface and its history.

A :class:`Model` is an ``onnx_ir.Model`` that is valid ONNX at every step, with what ONNX
alone does not say: what each input and output means, and where the model came from. That
is kept in the file's own metadata under one key, so that a ``model.onnx`` of ours read
back is the same Model.

Weights in a file of their own stay mapped, on the way in and on the way out. What a mapping
can't survive is somebody cutting that file short while it is used: the system then ends the
process (SIGBUS), and no program can turn that into an error. So the files' sizes are held
against the model when it is read, and files that were changed since are refused before
their contents are used to write another (:func:`check_weights`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx
import onnx_ir

from converter.errors import from_os_error
from converter.files.reading import reading
from converter.ir.batch_name import BATCH as BATCH
from converter.ir.external import (
    STAT,
    allow_links,
    appearing,
    check_external_data,
    check_weights,
    file_stat,
    lying_in,
    mapped_tensors,
    read_external_attributes,
    read_proto,
    replaced,
    same_file,
    write_weights,
)
from converter.ir.mapped import Mapped, copied
from converter.ir.serialized import as_proto, pieces, read_outline, size_of, write

LAYOUT_CHANGES = "layout"
"""The key in :attr:`Model.source` of what was changed: name -> permutation."""

OPSET = 20
"""The opset of the whole pipeline: the newest that ONNX Runtime 1.17 and the targets'
libraries take."""

IR_VERSION = 9
"""The file format version that goes with :data:`OPSET` (onnx's ``Versioning.md``)."""

METADATA_KEY = "modelyard"
EXTERNAL_ABOVE = 1_900_000_000
"""Bytes of weights above which they go to a file of their own (protobuf ends at 2 GiB)."""


_DTYPE_NAMES = {
    onnx_ir.DataType.FLOAT: "float32",
    onnx_ir.DataType.DOUBLE: "float64",
    onnx_ir.DataType.FLOAT16: "float16",
    onnx_ir.DataType.BFLOAT16: "bfloat16",
    onnx_ir.DataType.COMPLEX64: "complex64",
    onnx_ir.DataType.COMPLEX128: "complex128",
}
_DTYPES = {name: dtype for dtype, name in _DTYPE_NAMES.items()}


def dtype_name(dtype: onnx_ir.DataType | None) -> str:
    """The name of an ONNX type as users write it: ``float32``, ``int64``, ``bool``, ``string``."""
    if dtype is None:
        return "undefined"
    return _DTYPE_NAMES.get(dtype, dtype.name.lower())


def dtype_from_name(name: str) -> onnx_ir.DataType:
    """The ONNX type for ``float32``, ``int64``...; raises KeyError for an unknown name."""
    return _DTYPES.get(name) or onnx_ir.DataType[name.upper()]


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a model.

    Attributes:
        name: The user's name for it.
        dtype: ``float32``, ``int64``, ``string``...
        shape: A number or a symbol for each dimension; None where even the rank is unknown.
        layout: ``NCHW``, ``NHWC``, ``NC``... where known.
        meaning: ``image``, ``tokens``, ``scores``, ``state``... where known.
        value_range: Smallest and largest value that the model was made for, where known.
        labels: What each index of the last dimension stands for, where known.
        activation: What makes probabilities of its values, where that is known and they are none:
            ``softmax`` over the last dimension, ``sigmoid`` of each.
        scale, zero_point: Where integers stand for real numbers:
            ``real = (stored - zero_point) * scale``.
        columns: What each index of the last dimension is called in the table that the model was
            trained on, where known.
        missing: The indices of the last dimension where NaN is a value, of texts the empty one: it
            is missing.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    layout: str | None = None
    meaning: str | None = None
    value_range: tuple[float, float] | None = None
    labels: tuple[str, ...] | None = None
    scale: float | None = None
    zero_point: int | None = None
    columns: tuple[str, ...] | None = None
    missing: tuple[int, ...] | None = None
    activation: str | None = None

    @property
    def rank(self) -> int | None:
        """How many dimensions it has; None where unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def has_batch(self) -> bool:
        """Whether the first dimension is the symbolic batch."""
        return bool(self.shape) and self.shape[0] == BATCH  # type: ignore[index]

    @property
    def is_float(self) -> bool:
        """Whether its values are floating point."""
        return self.dtype.startswith(("float", "bfloat"))

    def sized(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape with every symbol replaced by its size; KeyError names a missing one."""
        return tuple(sizes[dim] if isinstance(dim, str) else dim for dim in self.shape or ())

    def describe(self) -> str:
        """``float32[batch, 3, 224, 224]``, for messages."""
        dims = "?" if self.shape is None else ", ".join(str(dim) for dim in self.shape)
        return f"{self.dtype}[{dims}]"


@dataclass(frozen=True)
class PassRecord:
    """One pass over a model, as the report tells it.

    Attributes:
        name: The pass.
        status: ``changed``, ``unchanged``, ``rolled-back`` or ``failed``.
        nodes_before, nodes_after: Nodes in the main graph and its subgraphs.
        detail: Why it was rolled back, or what it did.
        cosine, max_abs: How its outputs compare, over all probes, to the model before it and the
            passes that were compared together with it; None for these.
    """

    name: str
    status: str
    nodes_before: int
    nodes_after: int
    detail: str = ""
    cosine: float | None = None
    max_abs: float | None = None
    seconds: float = field(default=0.0, compare=False)

    def stable(self) -> dict[str, Any]:
        """What may be written into a file that has to be the same bytes every time."""
        return {"name": self.name, "status": self.status, "nodes": self.nodes_after}


@dataclass(frozen=True)
class Legalized:
    """A model in operators that one target has.

    Attributes:
        graph: The model in those.
        told: What it takes for given, in words, by the name of what told it.
        record: How it compares to the model that it was made from; None before it was compared.
    """

    graph: onnx_ir.Model
    told: Mapping[str, list[str]]
    record: PassRecord | None = None

    def noted(self) -> Legalized:
        """The same without the model: its weights go, or what is mapped of them."""
        return replace(self, graph=onnx_ir.Model(onnx_ir.Graph([], [], nodes=[]), ir_version=0))


@dataclass
class Model:
    """An ONNX model in memory, with its interface and its history.

    Attributes:
        graph: The ``onnx_ir.Model``; valid ONNX between any two passes.
        meanings: For each input or output by name, the fields of :class:`TensorSpec` that ONNX
            doesn't carry (layout, meaning, value_range, labels, columns, missing).
        source: Where it came from: format, framework and version, digest. Never a path.
        history: The passes that ran.
        legalized: The same for the target that it is emitted to; copies have none.
    """

    graph: onnx_ir.Model
    meanings: dict[str, dict[str, Any]] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    history: list[PassRecord] = field(default_factory=list)
    legalized: Legalized | None = None

    # -- interface -----------------------------------------------------------------

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs in order; initializers that double as inputs are not among them."""
        main = self.graph.graph
        return tuple(self._spec(v) for v in main.inputs if v.name not in main.initializers)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs in order."""
        return tuple(self._spec(value) for value in self.graph.graph.outputs)

    @property
    def has_batch(self) -> bool:
        """Whether every input and output starts with the symbolic batch dimension."""
        return all(spec.has_batch for spec in (*self.inputs, *self.outputs))

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbolic dimensions of the inputs, in order of appearance."""
        dims = (dim for spec in self.inputs for dim in spec.shape or ())
        return tuple(dict.fromkeys(dim for dim in dims if isinstance(dim, str)))

    def describe(self, name: str, **meaning: Any) -> None:
        """Sets what ONNX doesn't carry of the input or output ``name``."""
        self.meanings.setdefault(name, {}).update(meaning)

    def _spec(self, value: onnx_ir.Value) -> TensorSpec:
        spec = spec_of(value)
        return described(spec, self.meanings.get(spec.name, {}))

    # -- contents ------------------------------------------------------------------

    @property
    def opset(self) -> int:
        """The version of the ``ai.onnx`` opset that the model imports."""
        return self.graph.opset_imports.get("", 0)

    def nodes(self) -> Iterator[onnx_ir.Node]:
        """Every node: main graph, subgraphs and functions."""
        yield from onnx_ir.traversal.RecursiveGraphIterator(self.graph.graph)
        for function in self.graph.functions.values():
            yield from onnx_ir.traversal.RecursiveGraphIterator(function)

    def node_count(self) -> int:
        """How many nodes there are, subgraphs and functions included."""
        return sum(1 for _ in self.nodes())

    def initializers(self) -> Iterator[onnx_ir.Value]:
        """Every initializer: main graph and subgraphs."""
        for graph in self.graph.graphs():
            yield from graph.initializers.values()

    def weight_bytes(self) -> int:
        """Bytes of all initializers."""
        return sum(v.const_value.nbytes for v in self.initializers() if v.const_value is not None)

    def mapped_bytes(self) -> int:
        """Bytes of the initializers that lie in files of their own."""
        return sum(tensor.nbytes for tensor in mapped_tensors(self.graph))

    def copy(self) -> Model:
        """A copy whose graph can be changed; weights are shared, not copied."""
        return Model(
            self.graph.clone(),
            {name: dict(meaning) for name, meaning in self.meanings.items()},
            dict(self.source),
            list(self.history),
        )

    # -- files ---------------------------------------------------------------------

    @classmethod
    def load(cls, path: Path, *, linked: bool = False) -> Model:
        """Reads an ONNX file; external weights are mapped, not read.

        Args:
            path: The file.
            linked: Whether the files of its weights may have other hard links.

        Raises:
            UsageError: It isn't there or can't be read.
            ModelError: It isn't an ONNX file, it is truncated, or its weights lie outside
                its folder or are missing.
        """
        return cls.from_proto(read_proto(path), path, linked=linked)

    @classmethod
    def written(cls, path: Path) -> Model:
        """Reads a file that was written here; all large weights are mapped, those inside too."""
        return cls.from_proto(read_outline(path), path, linked=True)  # into a package, too

    @classmethod
    def from_proto(cls, proto: onnx.ModelProto, path: Path, *, linked: bool = False) -> Model:
        """The Model that a protobuf read from ``path`` holds; see :meth:`load`.

        Args:
            proto: As :func:`read_proto` gives it. The locations of external weights in it are
                rewritten to where they really are.
            path: The file it was read from.
            linked: As for :meth:`load`.
        """
        folder = check_external_data(path, proto, linked=linked)
        with reading(path.name):
            graph = onnx_ir.from_proto(proto)
        onnx_ir.external_data.set_base_dir(graph.graph, folder)
        read_external_attributes(graph)
        for tensor in mapped_tensors(graph):
            tensor.__class__ = Mapped
            tensor.meta[STAT] = file_stat(Path(tensor.path))
        if linked:
            allow_links(graph, folder)
        return cls.wrap(graph)

    @classmethod
    def wrap(cls, graph: onnx_ir.Model) -> Model:
        """A Model around ``graph``, with what its metadata says of it taken back out."""
        if "ai.onnx" in graph.opset_imports:  # another spelling of the default domain
            graph.opset_imports.setdefault("", graph.opset_imports.pop("ai.onnx"))
        stored = _stored(graph.metadata_props.pop(METADATA_KEY, "{}"))
        history = [
            PassRecord(item["name"], item["status"], item["nodes"], item["nodes"])
            for item in stored.get("history", ())
        ]
        return cls(graph, stored.get("tensors", {}), stored.get("source", {}), history)

    def to_proto(self) -> onnx.ModelProto:
        """The model as a protobuf with its metadata; external weights stay references."""
        proto = as_proto(self.graph)
        entry = proto.metadata_props.add()
        entry.key, entry.value = METADATA_KEY, self._metadata()
        return proto

    def save(
        self, path: Path, *, external: bool | None = None, own: Path | None = None
    ) -> list[Path]:
        """Writes the model; returns the files written, ``path`` first.

        The files appear complete or not at all. Where they replace the file that this
        model's weights are mapped from, the model goes on with the new one; copies of it that
        share those weights raise when they use them.

        Args:
            path: Where the ``.onnx`` goes.
            external: Whether weights go to ``<path>.data`` beside it; None for only when they
                don't fit into a protobuf. Otherwise all are inside, wherever they were.
            own: A folder whose files nobody changes any more. Weights mapped from these stay
                there, hard links beside ``path``, where the file system takes them.

        Raises:
            MachineError: The disk is full or a file-size limit was reached.
            ModelError: The file of its weights was changed meanwhile, or it doesn't fit into
                a protobuf.
        """
        if external is None:
            external = self.weight_bytes() > EXTERNAL_ABOVE
        check_weights(self.graph)
        try:
            return self._save_external(path) if external else self._save_whole(path, own)
        except OSError as error:
            raise from_os_error(error, f"writing {path.name}") from error

    def write_converted(self, data: Path) -> None:
        """Writes weights that are converted whenever they are asked for into a file, and maps them
        from it; with them those that lie in other files, since one folder has to hold all.

        Raises:
            MachineError: The disk is full.
        """
        outside = onnx_ir.LazyTensor | onnx_ir.ExternalTensor
        values = [v for v in self.initializers() if isinstance(v.const_value, outside)]
        if not any(isinstance(v.const_value, onnx_ir.LazyTensor) for v in values):
            return
        try:
            with appearing(data) as file:
                written = write_weights(iter(values), file, data)
        except OSError as error:
            raise from_os_error(error, f"writing {data.name}") from error
        for value, tensor in written.items():
            value.const_value = tensor
        allow_links(self.graph, data.parent)

    def _save_whole(self, path: Path, own: Path | None) -> list[Path]:
        linked = self._linked(path, own) if own is not None else {}
        with replaced(self._inside() | linked):
            self._write(path)
        return [path, *{Path(tensor.path) for tensor in linked.values()}]

    def _linked(self, path: Path, own: Path) -> dict[onnx_ir.Value, onnx_ir.ExternalTensor]:
        """What stands for weights that are mapped from files in a folder: the same in a link."""
        links: dict[Path, Path | None] = {}
        found = {}
        for value in self.initializers():
            tensor = value.const_value
            if not isinstance(tensor, onnx_ir.ExternalTensor):
                continue
            file = Path(tensor.path)
            if file not in links:
                links[file] = _link(file, path.with_name(f"{path.name}.{len(links)}.data"), own)
            if (link := links[file]) is not None:
                found[value] = lying_in(link, tensor.offset, value.name or "", tensor)
        return found

    def _save_external(self, path: Path) -> list[Path]:
        data = path.with_name(path.name + ".data")
        stale = {t for t in mapped_tensors(self.graph) if same_file(Path(t.path), data)}
        with appearing(data, self.weight_bytes()) as file:
            written = write_weights(self.initializers(), file, data)
            file.flush()  # a full disk has to be met before the other file appears
            with replaced(written):
                self._write(path, streamed=False)
        for value, tensor in written.items():
            if value.const_value in stale:
                value.const_value = tensor
        for old in stale:
            old.invalidate()
        return [path, data]

    def _write(self, path: Path, *, streamed: bool = True) -> None:
        made = pieces(self.graph, {METADATA_KEY: self._metadata()}, streamed=streamed)
        with appearing(path, size_of(made)) as file:
            write(made, file)

    def _inside(self) -> dict[onnx_ir.Value, onnx_ir.TensorProtocol]:
        """What stands for mapped weights that are copied into the file."""
        return {
            value: copied(tensor)
            for value in self.initializers()
            if isinstance(tensor := value.const_value, onnx_ir.ExternalTensor)
        }

    def _metadata(self) -> str:
        stored = {
            "format": 1,
            "tensors": self.meanings,
            "source": self.source,
            "history": [record.stable() for record in self.history],
        }
        return json.dumps(stored, sort_keys=True, separators=(",", ":"))


def _link(file: Path, place: Path, own: Path) -> Path | None:
    """A hard link to a file, where it lies in a folder and the file system takes one."""
    if file.is_relative_to(own):
        with suppress(OSError):
            place.hardlink_to(file)
            return place
    return None


def spec_of(value: onnx_ir.Value) -> TensorSpec:
    """What ONNX says of a value: name, dtype, and a number or a symbol for each dimension."""
    shape = None
    if value.shape is not None:
        shape = tuple(dim if isinstance(dim, int) else (dim.value or "?") for dim in value.shape)
    return TensorSpec(value.name or "", dtype_name(value.dtype), shape)


def described(spec: TensorSpec, meaning: Mapping[str, Any]) -> TensorSpec:
    """``spec`` with what is known of it besides: layout, meaning, value_range, labels..."""
    known = dict(meaning)
    for name in ("labels", "columns", "missing"):
        if known.get(name) is not None:
            known[name] = tuple(known[name])
    if known.get("value_range") is not None:
        low, high = known["value_range"]
        known["value_range"] = (low, high)
    return replace(spec, **known)


def stored_meanings(metadata: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What a file's metadata says of its inputs and outputs, by name; empty where it isn't ours."""
    stored: dict[str, dict[str, Any]] = _stored(metadata.get(METADATA_KEY, "{}")).get("tensors", {})
    return stored


def spec_dict(spec: TensorSpec) -> dict[str, Any]:
    """A :class:`TensorSpec` for JSON: unknown fields left out, lists only counted."""
    items = {key: value for key, value in asdict(spec).items() if value is not None}
    for name in ("labels", "columns", "missing"):
        if name in items:
            items[name] = len(items[name])
    return items


def _stored(text: str) -> dict[str, Any]:
    """Our own metadata, or nothing where somebody else wrote it."""
    with suppress(ValueError, RecursionError):
        stored = json.loads(text)
        if isinstance(stored, dict) and stored.get("format") == 1 and _as_written(stored):
            return stored
    return {}


def _as_written(stored: Mapping[str, Any]) -> bool:
    """Whether metadata has the form of :meth:`Model._metadata`: anybody may have written it."""
    try:
        for meaning in stored["tensors"].values():
            described(TensorSpec("", "", None), meaning)
            texts = [meaning.get(key) for key in ("layout", "meaning", "activation")]
            texts += meaning.get("labels") or ()
            low, high = meaning.get("value_range") or (0, 0)
            float(low), float(high), float(meaning.get("scale") or 1)
            if {*meaning} & {"name", "dtype", "shape"} or {*map(type, texts)} - {str, type(None)}:
                return False
        for item in stored["history"]:
            PassRecord(str(item["name"]), str(item["status"]), int(item["nodes"]), 0)
        return isinstance(stored["source"], dict)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return False
