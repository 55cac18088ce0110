"""Writes a TFLite model as a file.

Source of the format: ``tflite.fbs``, schema version 3, by the classes that ai-edge-litert generates
from it. Tables come first, then the constants one by one, each on 16 bytes, so that no more than
one of them is copied at a time. Below 2 GiB the tables point at them as at any vector of the
flatbuffer; else they lie behind it, and each buffer's ``offset`` and ``size`` say where.
Files that belong to the model (:attr:`TfliteModel.files`) follow as a ZIP archive.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from converter.errors import ModelError, from_os_error
from converter.ir.external import appearing
from emitters.tflite import runtimes
from emitters.tflite.build import TENSOR_TYPES
from emitters.tflite.graph import Array, Operator, Subgraph, Tensor, TfliteModel
from emitters.tflite.options import code_of, options_table, second_table
from emitters.tflite.runtimes import oldest_runtime
from emitters.tflite.versions import version_of
from modelyard.containers.tflite import ALIGNMENT, IDENTIFIER, VERSION, AlignedBuilder

INSIDE = (1 << 31) - (128 << 20)
"""Bytes of weights from which they lie behind the flatbuffer: its offsets end at 2 GiB."""

SIGNATURE = "serving_default"


LARGEST = (1 << 31) - 1
"""Elements of a tensor: LiteRT counts them in 32 bits."""

PIECE = 4 << 20
"""Bytes of a transposed array that are copied at a time."""

_UNSET = 0xFFFFFFFF


def write(model: TfliteModel, path: Path, *, inside: int = INSIDE) -> None:
    """Writes the file; it appears complete or not at all.

    Args:
        model: What to write.
        path: Where.
        inside: Most bytes of constants that the flatbuffer's tables point at.

    Raises:
        ModelError: A constant has more elements than LiteRT counts.
        MachineError: The disk is full.
    """
    _check_sizes(model)
    writer = _Writer(model)
    if writer.weight_bytes() > inside:
        writer.place_behind(writer.end_of_inside())
    tables = writer.tables()
    try:
        with appearing(path, len(tables) + writer.weight_bytes()) as file:
            file.write(tables)
            for buffer in sorted(writer.buffers, key=lambda buffer: buffer.behind):
                _write_constant(buffer, file)
            _append_files(model.files, file)
    except OSError as error:
        raise from_os_error(error, f"writing {path.name}") from error


def _check_sizes(model: TfliteModel) -> None:
    """Before anything is read of the constants."""
    constants = {
        tensor.name: tensor.data.size
        for graph in model.subgraphs
        for operator in graph.operators
        for tensor in operator.inputs
        if tensor is not None and tensor.data is not None and tensor.data.size > LARGEST
    }
    if constants:
        raise ModelError(
            "constants have more elements than LiteRT can count (2^31 - 1)",
            code="model-too-large",
            details=[f"{name}: {size:,} elements" for name, size in constants.items()],
            hint="Split them in the model, or use another target.",
        )


def _write_constant(buffer: _Buffer, file: IO[bytes]) -> None:
    if buffer.array is None:
        return
    if buffer.behind:
        file.write(bytes(buffer.start - file.tell()))
    else:
        file.write(bytes(buffer.start - 4 - file.tell()) + struct.pack("<I", buffer.array.nbytes))
    for piece in _pieces(buffer.array):
        file.write(stored_bytes(piece).data)


def _append_files(files: Mapping[str, bytes], file: IO[bytes]) -> None:
    """As an archive behind the model, which ZIP allows: the same bytes every time."""
    if not files:
        return
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)


class _Buffer(schema.BufferT):  # type: ignore[misc]
    """A buffer whose array isn't packed with the tables: they say where in the file it is.

    Attributes:
        array: The constant's values; None for the empty buffer.
        movable: Whether it may lie behind the flatbuffer.
        behind: Whether it does.
        start: Where in the file its bytes are.
        packed: Its table's distance from the end of all tables.
    """

    def __init__(self, array: Array | None = None, *, movable: bool = True) -> None:
        super().__init__()
        self.array = array
        self.movable = movable and array is not None and array.size > 0
        self.behind = False
        self.start = self.packed = 0

    def Pack(self, builder: Any) -> int:
        """The table, with a field to be set for where its bytes are."""
        schema.BufferStart(builder)
        if self.behind and self.array is not None:
            builder.PrependUint64Slot(2, self.array.nbytes, 0)
            builder.PrependUint64Slot(1, self.start, 0)
        elif self.array is not None:
            builder.PrependUint32Slot(0, _UNSET, 0)
        self.packed = int(schema.BufferEnd(builder))
        return self.packed


def stored_bytes(array: Array) -> Array:
    """The bytes of an array in C order, as uint8."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _pieces(array: Array) -> Iterator[Array]:
    """What to write one after another: a transposed array isn't copied as a whole."""
    if array.flags.c_contiguous:
        yield array
        return
    rows = max(PIECE * len(array) // array.nbytes, 1)
    for start in range(0, len(array), rows):
        yield array[start : start + rows]


def _glimpse(array: Array) -> bytes:
    """A few of an array's numbers: arrays that differ in these aren't compared whole."""
    return bytes(stored_bytes(array.flat[:: max(array.size // 64, 1)][:64]))


class _Writer:
    """Numbers everything, and makes the schema's objects."""

    def __init__(self, model: TfliteModel) -> None:
        self._model = model
        self.buffers: list[_Buffer] = [_Buffer()]
        self._buffer_of: dict[int, int] = {}
        self._alike: dict[tuple[int, bytes], list[int]] = {}
        self._codes: dict[tuple[str, int], int] = {}
        self._numbers: list[dict[Tensor, int]] = []
        self._made = schema.ModelT()
        self._fill()

    def weight_bytes(self) -> int:
        """Bytes of all constants, each on its alignment."""
        arrays = (buffer.array for buffer in self.buffers if buffer.array is not None)
        return sum(_aligned(array.nbytes) for array in arrays)

    def end_of_inside(self) -> int:
        """Where the flatbuffer ends if what can lies behind it."""
        self.place_behind(ALIGNMENT)
        end = len(self.tables())
        kept = (b.array.nbytes for b in self.buffers if b.array is not None and not b.movable)
        return end + sum(_aligned(size) + ALIGNMENT for size in kept)

    def place_behind(self, start: int) -> None:
        """Has all weights lie from ``start`` on."""
        offset = _aligned(start)
        for buffer in self.buffers:
            if buffer.array is not None and buffer.movable:
                buffer.behind, buffer.start = True, offset
                offset = _aligned(offset + buffer.array.nbytes)

    def tables(self) -> bytearray:
        """All of the flatbuffer but its constants, which have their places in the file then."""
        builder = AlignedBuilder(1 << 16)
        builder.Finish(self._made.Pack(builder), IDENTIFIER)
        tables = builder.Output()
        position = len(tables)
        for buffer in self.buffers:
            if buffer.array is None or buffer.behind:
                continue
            buffer.start = _aligned(position + 4)
            field = _first_field(tables, len(tables) - buffer.packed)
            struct.pack_into("<I", tables, field, buffer.start - 4 - field)
            position = buffer.start + buffer.array.nbytes
        return bytearray(tables)

    # -- objects ---------------------------------------------------------------------

    def _fill(self) -> None:
        made, model = self._made, self._model
        made.version = VERSION
        made.description = model.description
        made.subgraphs = [self._subgraph(graph) for graph in model.subgraphs]
        made.operatorCodes = [_code(op, version) for op, version in self._codes]
        made.signatureDefs = [self._signature()]
        metadata = {**model.metadata, runtimes.NAME: runtimes.stored(oldest_runtime(self._codes))}
        made.metadata = [self._metadata(name, data) for name, data in metadata.items()]
        made.buffers = self.buffers

    def _subgraph(self, graph: Subgraph) -> Any:
        numbers: dict[Tensor, int] = {}
        self._numbers.append(numbers)
        for tensor in (*graph.inputs, *graph.outputs):
            numbers.setdefault(tensor, len(numbers))
        for operator in graph.operators:
            for used in (*operator.inputs, *operator.outputs):
                if used is not None:
                    numbers.setdefault(used, len(numbers))
        made = schema.SubGraphT()
        made.name = graph.name
        made.tensors = [self._tensor(tensor) for tensor in numbers]
        made.inputs = _vector(numbers[tensor] for tensor in graph.inputs)
        made.outputs = _vector(numbers[tensor] for tensor in graph.outputs)
        made.operators = [self._operator(operator, numbers) for operator in graph.operators]
        return made

    def _tensor(self, tensor: Tensor) -> Any:
        made = schema.TensorT()
        made.name = tensor.name
        made.type = TENSOR_TYPES[tensor.dtype]
        sizes = self._model.sizes
        made.shape = _vector(d if isinstance(d, int) else sizes.get(d, 1) for d in tensor.shape)
        made.hasRank = True
        if not tensor.is_static:
            made.shapeSignature = _vector(d if isinstance(d, int) else -1 for d in tensor.shape)
        made.buffer = self._buffer(tensor.data) if tensor.data is not None else 0
        if tensor.quant is not None:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale = tensor.quant.scale.astype(np.float32)
            made.quantization.zeroPoint = tensor.quant.zero_point.astype(np.int64)
            made.quantization.quantizedDimension = tensor.quant.axis or 0
        return made

    def _buffer(self, array: Array) -> int:
        """The number of the buffer with an array's bytes; equal ones share it."""
        if id(array) not in self._buffer_of:
            self._buffer_of[id(array)] = self._equal(array) or self._another(array)
        return self._buffer_of[id(array)]

    def _equal(self, array: Array) -> int | None:
        alike = self._alike.setdefault((array.nbytes, _glimpse(array)), [])
        for number in alike:
            other = self.buffers[number].array
            if other is not None and np.array_equal(stored_bytes(other), stored_bytes(array)):
                return number
        alike.append(len(self.buffers))
        return None

    def _another(self, array: Array) -> int:
        self.buffers.append(_Buffer(array))
        return len(self.buffers) - 1

    def _operator(self, operator: Operator, numbers: dict[Tensor, int]) -> Any:
        made = schema.OperatorT()
        key = (operator.op, version_of(operator))
        made.opcodeIndex = self._codes.setdefault(key, len(self._codes))
        made.inputs = _vector(-1 if t is None else numbers[t] for t in operator.inputs)
        made.outputs = _vector(numbers[tensor] for tensor in operator.outputs)
        made.builtinOptionsType, made.builtinOptions = options_table(operator.op, operator.options)
        made.builtinOptions2Type, made.builtinOptions2 = second_table(operator.op, operator.options)
        return made

    def _signature(self) -> Any:
        made, numbers = schema.SignatureDefT(), self._numbers[0]
        made.signatureKey = SIGNATURE
        made.inputs = [_named(name, numbers[t]) for name, t in self._model.inputs.items()]
        made.outputs = [_named(name, numbers[t]) for name, t in self._model.outputs.items()]
        made.subgraphIndex = 0
        return made

    def _metadata(self, name: str, data: bytes) -> Any:
        made = schema.MetadataT()
        made.name = name
        made.buffer = len(self.buffers)
        # LiteRT doesn't look behind the flatbuffer for these.
        self.buffers.append(_Buffer(np.frombuffer(data, np.uint8), movable=False))
        return made


def _code(op: str, version: int) -> Any:
    made = schema.OperatorCodeT()
    made.builtinCode = code_of(op)
    made.deprecatedBuiltinCode = min(made.builtinCode, 127)
    made.version = version
    return made


def _named(name: str, number: int) -> Any:
    made = schema.TensorMapT()
    made.name, made.tensorIndex = name, number
    return made


def _first_field(tables: bytearray, table: int) -> int:
    """Where the first field of a table is: its table of fields says so (FlatBuffers' format)."""
    (back,) = struct.unpack_from("<i", tables, table)
    (place,) = struct.unpack_from("<H", tables, table - back + 4)
    return int(table + place)


def _vector(numbers: Any) -> Array:
    return np.asarray(list(numbers), np.int32)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
