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

import contextlib
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, cast

import onnx
import onnx_ir

from converter.errors import ModelError, from_os_error
from converter.filetypes import looks_like, onnx_outline

OPSET = 20
"""The opset of the whole pipeline: the newest that ONNX Runtime 1.17 and TensorRT 10 take."""

IR_VERSION = 9
"""The file format version that goes with :data:`OPSET` (onnx's ``Versioning.md``)."""

METADATA_KEY = "modelyard"
BATCH = "batch"
"""The name of the symbolic batch dimension."""

EXTERNAL_ABOVE = 1_900_000_000
"""Bytes of weights above which they go to a file of their own (protobuf ends at 2 GiB)."""

_INLINE_BELOW = 1024
_ALIGNMENT = 4096
_PROTOBUF_LIMIT = 1 << 31
_STAT = "modelyard.stat"

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
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    layout: str | None = None
    meaning: str | None = None
    value_range: tuple[float, float] | None = None
    labels: tuple[str, ...] | None = None

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
        cosine, max_abs: How its outputs compare to the model before it, over all probes.
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


@dataclass
class Model:
    """An ONNX model in memory, with its interface and its history.

    Attributes:
        graph: The ``onnx_ir.Model``; valid ONNX between any two passes.
        meanings: For each input or output by name, the fields of :class:`TensorSpec` that ONNX
            doesn't carry (layout, meaning, value_range, labels).
        source: Where it came from: format, framework and version, digest. Never a path.
        history: The passes that ran.
    """

    graph: onnx_ir.Model
    meanings: dict[str, dict[str, Any]] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    history: list[PassRecord] = field(default_factory=list)

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
        """Sets layout, meaning, value_range or labels of the input or output ``name``."""
        self.meanings.setdefault(name, {}).update(meaning)

    def _spec(self, value: onnx_ir.Value) -> TensorSpec:
        spec = spec_of(value)
        known = self.meanings.get(spec.name, {})
        if "labels" in known:
            known = {**known, "labels": tuple(known["labels"])}
        if known.get("value_range") is not None:
            low, high = known["value_range"]
            known = {**known, "value_range": (low, high)}
        return replace(spec, **known)

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
        return sum(tensor.nbytes for tensor in _mapped(self.graph))

    def parameter_count(self) -> int:
        """How many floating-point numbers the initializers hold."""
        tensors = (v.const_value for v in self.initializers() if v.const_value is not None)
        return sum(t.size for t in tensors if t.dtype.is_floating_point() and t.size > 1)

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
    def load(cls, path: Path) -> Model:
        """Reads an ONNX file; external weights are mapped, not read.

        Raises:
            UsageError: It isn't there or can't be read.
            ModelError: It isn't an ONNX file, it is truncated, or its weights lie outside
                its folder or are missing.
        """
        return cls.from_proto(read_proto(path), path)

    @classmethod
    def from_proto(cls, proto: onnx.ModelProto, path: Path) -> Model:
        """The Model that a protobuf read from ``path`` holds; see :meth:`load`.

        Args:
            proto: As :func:`read_proto` gives it. The locations of external weights in it are
                rewritten to where they really are.
            path: The file it was read from.
        """
        folder = check_external_data(path, proto)
        try:
            graph = onnx_ir.from_proto(proto)
        except Exception as error:  # onnx_ir wraps whatever was wrong in one class of its own
            raise ModelError(f"reading {path.name}: {_innermost(error)}") from error
        onnx_ir.external_data.set_base_dir(graph.graph, folder)
        _read_external_attributes(graph)
        for tensor in _mapped(graph):
            tensor.meta[_STAT] = _stat(Path(tensor.path))
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
        proto = onnx_ir.to_proto(self.graph)
        entry = proto.metadata_props.add()
        entry.key, entry.value = METADATA_KEY, self._metadata()
        return proto

    def save(self, path: Path, *, external: bool | None = None) -> list[Path]:
        """Writes the model; returns the files written, ``path`` first.

        The files appear complete or not at all. Where they replace the file that this
        model's weights are mapped from, the model goes on with the new one; copies of it that
        share those weights raise when they use them.

        Args:
            path: Where the ``.onnx`` goes.
            external: Whether weights go to ``<path>.data`` beside it; None for only when they
                don't fit into a protobuf. Otherwise all are inside, wherever they were.

        Raises:
            MachineError: The disk is full or a file-size limit was reached.
            ModelError: The file of its weights was changed meanwhile, or it doesn't fit into
                a protobuf.
        """
        if external is None:
            external = self.weight_bytes() > EXTERNAL_ABOVE
        check_weights(self.graph)
        try:
            return self._save_external(path) if external else self._save_whole(path)
        except OSError as error:
            raise from_os_error(error, f"writing {path.name}") from error

    def _save_whole(self, path: Path) -> list[Path]:
        with _replaced(self._read_into_memory()):
            content = self._serialize(path)
        with _appearing(path) as file:
            file.write(content)
        return [path]

    def _save_external(self, path: Path) -> list[Path]:
        data = path.with_name(path.name + ".data")
        stale = {t for t in _mapped(self.graph) if _same_file(Path(t.path), data)}
        with _appearing(data) as file:
            written = _write_weights(self.initializers(), file, data)
            file.flush()  # a full disk has to be met before the other file appears
            with _replaced(written), _appearing(path) as model_file:
                model_file.write(self._serialize(path))
        for value, tensor in written.items():
            if value.const_value in stale:
                value.const_value = tensor
        for old in stale:
            old.invalidate()
        return [path, data]

    def _serialize(self, path: Path) -> bytes:
        proto = self.to_proto()
        if proto.ByteSize() >= _PROTOBUF_LIMIT:
            raise ModelError(
                f"writing {path.name}: it doesn't fit into one file (2 GiB)",
                hint="Keep its weights in a file of their own: --external-data.",
            )
        content: bytes = proto.SerializeToString(deterministic=True)
        return content

    def _read_into_memory(self) -> dict[onnx_ir.Value, onnx_ir.TensorProtocol]:
        return {
            value: onnx_ir.Tensor(
                tensor.numpy(), dtype=tensor.dtype, shape=tensor.shape, name=tensor.name
            )
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


def spec_of(value: onnx_ir.Value) -> TensorSpec:
    """What ONNX says of a value: name, dtype, and a number or a symbol for each dimension."""
    shape = None
    if value.shape is not None:
        shape = tuple(dim if isinstance(dim, int) else (dim.value or "?") for dim in value.shape)
    return TensorSpec(value.name or "", dtype_name(value.dtype), shape)


def spec_dict(spec: TensorSpec) -> dict[str, Any]:
    """A :class:`TensorSpec` for JSON: unknown fields left out, labels only counted."""
    items = {key: value for key, value in asdict(spec).items() if value is not None}
    if "labels" in items:
        items["labels"] = len(items["labels"])
    return items


def check_weights(graph: onnx_ir.Model) -> None:
    """Refuses a model whose mapped weights are no longer what they were when it was read.

    Raises:
        ModelError: with every file that was changed, cut short or removed.
    """
    changed = []
    for tensor in _mapped(graph):
        now = _stat(Path(tensor.path))
        if now is None or tensor.meta.get(_STAT, now) != now:
            changed.append(str(tensor.location))
    if changed:
        raise ModelError(
            "the file of the model's weights was changed since the model was read",
            details=sorted(set(changed)),
            hint="Run it again, and leave the file as it is meanwhile.",
        )


def check_external_data(path: Path, proto: onnx.ModelProto) -> Path:
    """Refuses a model whose external data may not or can't be read.

    The weights of an untrusted file may only lie in its own folder. Where the file, and its
    weights, are symbolic links into one store (as model hubs' caches are laid out), that
    folder is the store's.

    Args:
        path: The model's file.
        proto: Its contents; the locations of its weights are rewritten, links resolved.

    Returns:
        The folder that the locations are relative to now.

    Raises:
        ModelError: with every offending tensor listed.
    """
    tensors = list(_external_tensors(proto))
    here, real = path.absolute().parent.resolve(), path.resolve().parent
    targets = [(tensor, here / _location(tensor)) for tensor in tensors if _location(tensor)]
    resolved = [target.resolve() for _, target in targets]
    folder = here if all(target.is_relative_to(here) for target in resolved) else real
    bad = [
        f"{tensor.name}: it says nothing of where" for tensor in tensors if not _location(tensor)
    ]
    for (tensor, _), target in zip(targets, resolved, strict=True):
        wrong = _external_problem(tensor, target, folder)
        if wrong:
            bad.append(f"{tensor.name}: {wrong}")
        else:
            entry = next(item for item in tensor.external_data if item.key == "location")
            entry.value = target.relative_to(folder).as_posix()
    if bad:
        raise ModelError(f"reading {path.name}: its external data can't be used", details=bad)
    return folder


def external_files(proto: onnx.ModelProto) -> tuple[str, ...]:
    """The files of external weights, as the model's file names them, each once."""
    return tuple(dict.fromkeys(_location(tensor) for tensor in _external_tensors(proto)))


def _external_problem(tensor: onnx.TensorProto, target: Path, folder: Path) -> str:
    location = _location(tensor)
    if Path(location).is_absolute() or not target.is_relative_to(folder):
        return f"its weights lie outside the model's folder ({location!r})"
    if not target.is_file():
        return f"the file of its weights is missing ({location})"
    state = target.stat()
    if state.st_nlink > 1:
        return f"{location} has {state.st_nlink} hard links, and may be another's file; copy it"
    fields = {entry.key: entry.value for entry in tensor.external_data}
    try:
        offset, length = int(fields.get("offset") or 0), int(fields.get("length") or 0)
        needed = tensor_bytes(tensor)
    except ValueError as error:
        return str(error)
    if offset < 0 or length < 0 or (length and length != needed):
        return f"{needed} bytes are needed, {length} declared at {offset}"
    if offset + needed > state.st_size:
        return f"{location} is truncated ({state.st_size} of {offset + needed} bytes)"
    return ""


def _location(tensor: onnx.TensorProto) -> str:
    return next((item.value for item in tensor.external_data if item.key == "location"), "")


def tensor_bytes(tensor: onnx.TensorProto) -> int:
    """How many bytes a tensor of its type and shape takes.

    Raises:
        ValueError: Its type is none that has a size, or a dimension is negative.
    """
    try:
        bits = onnx_ir.DataType(tensor.data_type).bitwidth
    except (ValueError, TypeError) as error:
        raise ValueError(f"{tensor.data_type} is no type of a stored tensor") from error
    if any(dim < 0 for dim in tensor.dims):
        raise ValueError(f"its shape is {list(tensor.dims)}")
    size = 1
    for dim in tensor.dims:
        size *= dim
    return -(-size * bits // 8)


def read_proto(path: Path) -> onnx.ModelProto:
    """Parses an ONNX file without reading external weights.

    Raises:
        UsageError: It isn't there or can't be read.
        ModelError: It is empty, truncated, or not an ONNX model.
    """
    proto = onnx.ModelProto()
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    _parse(proto, content)
    except OSError as error:
        raise from_os_error(error, f"reading {path.name}") from error
    except _NotOnnx as error:
        raise _not_onnx(path, size) from error
    if not proto.ir_version or not proto.HasField("graph") or not proto.opset_import:
        raise _not_onnx(path, size)
    return proto


class _NotOnnx(Exception):
    """A file's contents don't parse."""


def _parse(proto: onnx.ModelProto, content: mmap.mmap) -> None:
    with memoryview(content) as view:
        try:
            proto.ParseFromString(cast(bytes, view))  # any buffer will do
        except Exception as error:  # protobuf's DecodeError has no stable import path
            raise _NotOnnx(str(error)) from None


def _not_onnx(path: Path, size: int) -> ModelError:
    found = looks_like(path)
    if found:
        return ModelError(f"{path.name} is not an ONNX model: it looks like {found}")
    if size >= _PROTOBUF_LIMIT:
        return ModelError(
            f"{path.name} can't be read: no protobuf is larger than 2 GiB, and it has {size} bytes",
            hint="Export it with its weights in a file of their own (external data).",
        )
    outline = onnx_outline(path)
    if outline.is_cut_short:
        return ModelError(
            f"{path.name} is cut short: {size} bytes, at least {outline.missing} are missing",
            hint="If it was downloaded or copied, do it again.",
        )
    what = "is damaged" if outline.is_onnx else "is not an ONNX model, or is cut short"
    return ModelError(
        f"{path.name} {what} ({size} bytes)",
        hint="If it was downloaded or copied, compare its size with the original's.",
    )


def _stored(text: str) -> dict[str, Any]:
    """Our own metadata, or nothing where somebody else wrote it."""
    with contextlib.suppress(ValueError):
        stored = json.loads(text)
        if isinstance(stored, dict) and stored.get("format") == 1:
            return stored
    return {}


def _innermost(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _mapped(graph: onnx_ir.Model) -> Iterator[onnx_ir.ExternalTensor]:
    for part in graph.graphs():
        for value in part.initializers.values():
            if isinstance(value.const_value, onnx_ir.ExternalTensor):
                yield value.const_value


def _read_external_attributes(graph: onnx_ir.Model) -> None:
    """Brings external tensors of attributes into memory: no runtime maps those."""
    for node in onnx_ir.traversal.RecursiveGraphIterator(graph.graph):
        for name, attribute in list(node.attributes.items()):
            tensor = attribute.value
            if isinstance(tensor, onnx_ir.ExternalTensor):
                read = onnx_ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=tensor.name)
                node.attributes[name] = onnx_ir.AttrTensor(name, read)


def _stat(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


@contextlib.contextmanager
def _appearing(path: Path) -> Iterator[IO[bytes]]:
    """A file that is there under its name once it is complete, or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _replaced(tensors: Mapping[onnx_ir.Value, onnx_ir.TensorProtocol]) -> Iterator[None]:
    """Initializers with other tensors for as long as it lasts."""
    before = {value: value.const_value for value in tensors}
    for value, tensor in tensors.items():
        value.const_value = tensor
    try:
        yield
    finally:
        for value, old in before.items():
            value.const_value = old


def _write_weights(
    values: Iterator[onnx_ir.Value], file: IO[bytes], data: Path
) -> dict[onnx_ir.Value, onnx_ir.TensorProtocol]:
    """Writes large tensors one after the other; gives what stands for them in the model."""
    written: dict[onnx_ir.Value, onnx_ir.TensorProtocol] = {}
    for value in values:
        tensor = value.const_value
        if tensor is None or tensor.dtype == onnx_ir.DataType.STRING:
            continue
        if tensor.nbytes < _INLINE_BELOW:
            if isinstance(tensor, onnx_ir.ExternalTensor):
                written[value] = onnx_ir.Tensor(
                    tensor.numpy(), dtype=tensor.dtype, shape=tensor.shape, name=tensor.name
                )
            continue
        file.write(bytes(-file.tell() % _ALIGNMENT))
        offset = file.tell()
        _write_tensor(tensor, file)
        written[value] = onnx_ir.ExternalTensor(
            data.name,
            offset,
            tensor.nbytes,
            tensor.dtype,
            shape=onnx_ir.Shape(tensor.shape.numpy()),
            name=value.name or "",
            base_dir=data.parent,
        )
    return written


def _write_tensor(tensor: onnx_ir.TensorProtocol, file: IO[bytes]) -> None:
    if isinstance(tensor, onnx_ir.ExternalTensor | onnx_ir.Tensor):
        tensor.tofile(file)  # in pieces, or inside the system
    else:
        file.write(tensor.tobytes())


def _external_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    graphs = [proto.graph]
    nodes = [node for function in proto.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from (t for t in graph.initializer if t.data_location == t.EXTERNAL)
            nodes.extend(graph.node)
        while nodes:
            for attribute in nodes.pop().attribute:
                if (
                    attribute.HasField("t")
                    and attribute.t.data_location == onnx.TensorProto.EXTERNAL
                ):
                    yield attribute.t
                yield from (t for t in attribute.tensors if t.data_location == t.EXTERNAL)
                if attribute.HasField("g"):
                    graphs.append(attribute.g)
                graphs.extend(attribute.graphs)
