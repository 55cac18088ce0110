"""Weights that lie outside the ONNX file: found, checked, kept mapped, written in pieces.

External data is described in onnx's ``docs/ExternalData.md``. The weights of an untrusted file may
only lie where its own folder leads; they are mapped, never read as a whole.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, cast

import onnx
import onnx.external_data_helper
import onnx_ir

from converter.errors import ModelError, from_os_error
from converter.files.filetypes import looks_like, onnx_outline
from converter.ir.mapped import Linked, Mapped
from converter.ir.onnx_text import check_text
from converter.ir.written_size import check_size

STAT = "modelyard.stat"
"""Where a mapped tensor keeps the size and time of its file as they were when it was read."""

SHA256 = "modelyard.sha256"
"""Where it keeps the sha256 of its bytes, as far as who wrote them told it."""

PROTOBUF_LIMIT = 1 << 31
"""Bytes that no protobuf can have."""

_INLINE_BELOW = 1024
_ALIGNMENT = 4096


def check_weights(graph: onnx_ir.Model) -> None:
    """Refuses a model whose mapped weights are no longer what they were when it was read.

    Raises:
        ModelError: with every file that was changed, cut short or removed.
    """
    changed = []
    for tensor in mapped_tensors(graph):
        now = file_stat(Path(tensor.path))
        if now is None or tensor.meta.get(STAT, now) != now:
            changed.append(str(tensor.location))
    if changed:
        raise ModelError(
            "the file of the model's weights was changed since the model was read",
            code="source-changed",
            details=sorted(set(changed)),
            hint="Run it again, and don't change the file during the run.",
        )


def check_external_data(path: Path, proto: onnx.ModelProto, *, linked: bool = False) -> Path:
    """Refuses a model whose external data may not or can't be read.

    The weights of an untrusted file may only lie in its own folder. Where the file, and its
    weights, are symbolic links into one store (as model hubs' caches are laid out), that
    folder is the store's.

    Args:
        path: The model's file.
        proto: Its contents; the locations of its weights are rewritten, links resolved.
        linked: Whether their files may have other hard links: those in the cache do.

    Returns:
        The folder that the locations are relative to now.

    Raises:
        ModelError: with every offending tensor listed.
    """
    return _checked(path, list(_external_tensors(proto)), linked)


def read_sparse_data(path: Path, proto: onnx.ModelProto) -> None:
    """Brings external data of sparse tensors into the protobuf, checked as all external data is.

    Raises:
        ModelError: with every offending tensor listed.
    """
    tensors = list(_external_tensors(proto, sparse=True))
    folder = _checked(path, tensors)
    for tensor in tensors:
        try:
            onnx.external_data_helper.load_external_data_for_tensor(tensor, str(folder))
        except (OSError, ValueError, onnx.checker.ValidationError) as error:
            raise ModelError(
                f"reading {path.name}: its external data can't be read", code="model-damaged"
            ) from error


def _checked(path: Path, tensors: Sequence[onnx.TensorProto], linked: bool = False) -> Path:
    here, real = path.absolute().parent.resolve(), path.resolve().parent
    named = [(tensor, _location(tensor)) for tensor in tensors if _location(tensor)]
    targets = [(tensor, here / place) for tensor, place in named if "\0" not in place]
    resolved = [target.resolve() for _, target in targets]
    folder = here if all(target.is_relative_to(here) for target in resolved) else real
    bad: dict[str, list[str]] = {}
    for tensor in tensors:
        if not _location(tensor):
            bad.setdefault("it doesn't name their file", []).append(tensor.name)
        elif "\0" in _location(tensor):
            bad.setdefault("the file of its weights has a NUL in its name", []).append(tensor.name)
        elif sum(item.key == "location" for item in tensor.external_data) > 1:
            bad.setdefault("it says more than once where", []).append(tensor.name)
    for (tensor, _), target in zip(targets, resolved, strict=True):
        wrong = _external_problem(tensor, target, folder, linked)
        if wrong:
            bad.setdefault(wrong, []).append(tensor.name)
        else:
            entry = next(item for item in tensor.external_data if item.key == "location")
            entry.value = target.relative_to(folder).as_posix()
    if bad:
        raise ModelError(
            f"reading {path.name}: its external data can't be used",
            code="model-damaged",
            details=[f"{_few(names)}: {wrong}" for wrong, names in bad.items()],
            hint="The files with the weights have to be beside it, complete and with the names "
            "that it uses.",
        )
    return folder


def _few(names: Sequence[str]) -> str:
    """The first names of many with one problem: a file that is missing is every tensor's."""
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")


def external_files(proto: onnx.ModelProto) -> tuple[str, ...]:
    """The files of external weights, as the model's file names them, each once."""
    return tuple(dict.fromkeys(_location(tensor) for tensor in _external_tensors(proto)))


def _external_problem(tensor: onnx.TensorProto, target: Path, folder: Path, linked: bool) -> str:
    location = _location(tensor)
    if Path(location).is_absolute() or not target.is_relative_to(folder):
        return f"its weights are outside of the model's folder ({location!r})"
    if not target.is_file():
        return f"the file of its weights is missing ({location})"
    state = target.stat()
    if state.st_nlink > 1 and not linked:
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
        return f"{location} is truncated (it has {state.st_size} bytes)"
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
        raise ValueError(f"{tensor.data_type} isn't a type that a file can store") from error
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
        ModelError: It is empty, truncated, not an ONNX model, has names that are no text, or it
            comes to too much.
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
    check_text(proto, path.name)
    check_size(proto, path.name)
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
        return ModelError(
            f"{path.name} is not an ONNX model: it looks like {found}", code="unknown-format"
        )
    if size >= PROTOBUF_LIMIT:
        return ModelError(
            f"{path.name} can't be read: it has {size} bytes, and a protobuf can have at "
            "most 2 GiB",
            code="model-too-large",
            hint="Export it with its weights in a file of their own (external data).",
        )
    outline = onnx_outline(path)
    if outline.is_cut_short:
        return ModelError(
            f"{path.name} is cut short: {size} bytes, at least {outline.missing} are missing",
            code="model-damaged",
            hint="If you downloaded or copied the file, do that again.",
        )
    what = "is damaged" if outline.is_onnx else "is not an ONNX model, or is cut short"
    return ModelError(
        f"{path.name} {what} ({size} bytes)",
        code="model-damaged",
        hint="If you downloaded or copied the file, compare its size with the original's.",
    )


def mapped_tensors(graph: onnx_ir.Model) -> Iterator[onnx_ir.ExternalTensor]:
    for part in graph.graphs():
        for value in part.initializers.values():
            if isinstance(value.const_value, onnx_ir.ExternalTensor):
                yield value.const_value


def read_external_attributes(graph: onnx_ir.Model) -> None:
    """Brings external tensors of attributes into memory: no runtime maps those."""
    for node in onnx_ir.traversal.RecursiveGraphIterator(graph.graph):
        for name, attribute in list(node.attributes.items()):
            tensor = attribute.value
            if isinstance(tensor, onnx_ir.ExternalTensor):
                read = onnx_ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=tensor.name)
                node.attributes[name] = onnx_ir.AttrTensor(name, read)


def read_small_tensors(graph: onnx_ir.Model) -> bool:
    """Brings external weights below a kilobyte into memory; says whether there were any.

    Among them are shapes and axes, without which ONNX's shape inference, and so ONNX Runtime,
    refuses a graph.
    """
    found = False
    for part in graph.graphs():
        for value in part.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, onnx_ir.ExternalTensor) and tensor.nbytes < _INLINE_BELOW:
                read = tensor.numpy().copy()
                value.const_value = onnx_ir.Tensor(read, dtype=tensor.dtype, name=tensor.name)
                found = True
    return found


def note_digests(graph: onnx_ir.Model, digests: Mapping[str, str]) -> None:
    """Notes the sha256 of weights that are mapped, by name."""
    for name, digest in digests.items():
        tensor = graph.graph.initializers[name].const_value
        if isinstance(tensor, onnx_ir.ExternalTensor):  # not one so small that it was read
            tensor.meta[SHA256] = digest


def allow_links(graph: onnx_ir.Model, own: Path) -> None:
    """Lets weights be mapped from files in a folder of ours whatever links these have: the cache
    makes some (:meth:`converter.ir.model.Model.save`)."""
    for tensor in mapped_tensors(graph):
        if Path(tensor.path).is_relative_to(own):
            tensor.__class__ = Linked


def file_stat(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns


def same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


_WORTH_ROOM = 1 << 20
"""Bytes from which a file's room is made beforehand."""


@contextlib.contextmanager
def appearing(path: Path, size: int = 0) -> Iterator[IO[bytes]]:
    """A file that is there under its name once it is complete, or not at all.

    Args:
        path: The file.
        size: How many bytes it will have, about: room for them is made before, which takes a
            third off the time of writing them, and shows a full disk at once.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            if size > _WORTH_ROOM:
                os.posix_fallocate(file.fileno(), 0, size)
            yield file
            if size > _WORTH_ROOM:
                file.flush()
                os.ftruncate(file.fileno(), os.lseek(file.fileno(), 0, os.SEEK_CUR))
        temporary.replace(path)
    except BaseException:  # an interrupt too leaves no half a file; all of it goes on
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def replaced(tensors: Mapping[onnx_ir.Value, onnx_ir.TensorProtocol]) -> Iterator[None]:
    """Initializers with other tensors for as long as it lasts."""
    before = {value: value.const_value for value in tensors}
    for value, tensor in tensors.items():
        value.const_value = tensor
    try:
        yield
    finally:
        for value, old in before.items():
            value.const_value = old


def write_weights(
    values: Iterator[onnx_ir.Value], file: IO[bytes], data: Path
) -> dict[onnx_ir.Value, onnx_ir.TensorProtocol]:
    """Writes large tensors one after the other, aligned.

    Args:
        values: The initializers; texts and small tensors stay in the model.
        file: Where the bytes go, open for writing.
        data: The path at which that file will lie.

    Returns:
        What stands for each of them in the model.
    """
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
        write_tensor(tensor, file)
        written[value] = lying_in(data, offset, value.name or "", tensor)
    return written


def lying_in(
    file: Path, offset: int | None, name: str, tensor: onnx_ir.TensorProtocol
) -> onnx_ir.ExternalTensor:
    """A tensor whose bytes lie in a file.

    Args:
        file: The file; the model refers to it by its name, relative to its folder.
        offset: The first byte; None for the file's beginning.
        name: The tensor's name.
        tensor: Says the dtype, shape and number of bytes.
    """
    return Mapped(
        file.name,
        offset,
        tensor.nbytes,
        tensor.dtype,
        shape=onnx_ir.Shape(tensor.shape.numpy()),
        name=name,
        base_dir=file.parent,
    )


def write_tensor(tensor: onnx_ir.TensorProtocol, file: IO[bytes]) -> None:
    """Writes a tensor's bytes, as ``raw_data`` has them."""
    if isinstance(tensor, onnx_ir.ExternalTensor | onnx_ir.Tensor | onnx_ir.LazyTensor):
        tensor.tofile(file)  # in pieces, or inside the system
    else:
        file.write(tensor.tobytes())


def _external_tensors(
    proto: onnx.ModelProto, *, sparse: bool = False
) -> Iterator[onnx.TensorProto]:
    """The tensors with external data, wherever they are; of sparse tensors alone if ``sparse``."""
    for tensor in _tensors(proto, sparse=sparse):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            yield tensor


def _tensors(proto: onnx.ModelProto, *, sparse: bool) -> Iterator[onnx.TensorProto]:
    graphs = [proto.graph]
    for training in proto.training_info:
        graphs += [training.initialization, training.algorithm]
    nodes = [node for function in proto.functions for node in function.node]
    attributes = [a for function in proto.functions for a in function.attribute_proto]
    while graphs or nodes or attributes:
        pairs: list[onnx.SparseTensorProto] = []
        if graphs:
            graph = graphs.pop()
            nodes.extend(graph.node)
            pairs.extend(graph.sparse_initializer)
            if not sparse:
                yield from graph.initializer
        while nodes:
            attributes.extend(nodes.pop().attribute)
        while attributes:
            attribute = attributes.pop()
            graphs.extend(attribute.graphs)
            pairs.extend(attribute.sparse_tensors)
            if attribute.HasField("g"):
                graphs.append(attribute.g)
            if attribute.HasField("sparse_tensor"):
                pairs.append(attribute.sparse_tensor)
            if not sparse:
                yield from attribute.tensors
                if attribute.HasField("t"):
                    yield attribute.t
        for pair in pairs:
            yield from (pair.values, pair.indices)
