"""Writes a TFLite model as a file.

Source of the format: ``tflite.fbs``, schema version 3, by the classes that ai-edge-litert generates
from it. Weights are in the flatbuffer, on 16 bytes, as long as that stays below 2 GiB; else
they follow it, and each buffer's ``offset`` and ``size`` say where.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from converter.errors import from_os_error
from converter.graph.external import appearing
from converter.tflite_file import ALIGNMENT, IDENTIFIER, VERSION, AlignedBuilder
from emitters.tflite.build import TENSOR_TYPES
from emitters.tflite.graph import Array, Operator, Subgraph, Tensor, TfliteModel
from emitters.tflite.options import code_of, options_table, second_table
from emitters.tflite.versions import version_of

INSIDE = (1 << 31) - (128 << 20)
"""Bytes of weights from which they lie behind the flatbuffer: its offsets end at 2 GiB."""

SIGNATURE = "serving_default"


def write(model: TfliteModel, path: Path, *, inside: int = INSIDE) -> None:
    """Writes the file; it appears complete or not at all.

    Args:
        model: What to write.
        path: Where.
        inside: Most bytes of weights that go into the flatbuffer.

    Raises:
        MachineError: The disk is full.
    """
    writer = _Writer(model)
    try:
        with appearing(path) as file:
            if writer.weight_bytes() <= inside:
                file.write(writer.flatbuffer())
            else:
                _write_behind(writer, file)
    except OSError as error:
        raise from_os_error(error, f"writing {path.name}") from error


def _write_behind(writer: _Writer, file: IO[bytes]) -> None:
    """The flatbuffer, then the weights; it is made twice, since they go behind all of it."""
    writer.place_behind(ALIGNMENT)
    writer.place_behind(len(writer.flatbuffer()))
    file.write(writer.flatbuffer())
    for buffer in writer.buffers:
        if buffer.array is not None:
            file.write(b"\0" * (buffer.offset - file.tell()))
            file.write(stored_bytes(buffer.array).data)


class _Buffer(schema.BufferT):  # type: ignore[misc]
    """A buffer whose array is brought into its order only when it is packed.

    Attributes:
        array: The constant's values; None for the empty buffer.
    """

    def __init__(self, array: Array | None = None) -> None:
        super().__init__()
        self.array = array
        self.behind = False

    def Pack(self, builder: Any) -> int:
        """Packs it; the copy that this needs is gone afterwards."""
        if self.array is None or self.behind:
            self.data = None
        else:
            self.data = stored_bytes(self.array)
        try:
            return int(super().Pack(builder))
        finally:
            self.data = None


def stored_bytes(array: Array) -> Array:
    """The bytes of an array in C order, as uint8."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class _Writer:
    """Numbers everything, and makes the schema's objects."""

    def __init__(self, model: TfliteModel) -> None:
        self._model = model
        self.buffers: list[_Buffer] = [_Buffer()]
        self._buffer_of: dict[int, int] = {}
        self._codes: dict[tuple[str, int], int] = {}
        self._numbers: list[dict[Tensor, int]] = []
        self._made = schema.ModelT()
        self._fill()

    def weight_bytes(self) -> int:
        """Bytes of all constants, each on its alignment."""
        arrays = (buffer.array for buffer in self.buffers if buffer.array is not None)
        return sum(_aligned(array.nbytes) for array in arrays)

    def place_behind(self, start: int) -> None:
        """Has all weights lie from ``start`` on."""
        offset = _aligned(start)
        for buffer in self.buffers:
            if buffer.array is None:
                continue
            buffer.behind, buffer.offset, buffer.size = True, offset, buffer.array.nbytes
            offset = _aligned(offset + buffer.array.nbytes)

    def flatbuffer(self) -> memoryview:
        """The flatbuffer's bytes."""
        inside = sum(
            _aligned(b.array.nbytes) for b in self.buffers if b.array is not None and not b.behind
        )
        builder = AlignedBuilder(inside + (1 << 16))
        builder.Finish(self._made.Pack(builder), IDENTIFIER)
        return memoryview(builder.Bytes)[builder.Head() :]

    # -- objects ---------------------------------------------------------------------

    def _fill(self) -> None:
        made, model = self._made, self._model
        made.version = VERSION
        made.description = model.description
        made.subgraphs = [self._subgraph(graph) for graph in model.subgraphs]
        made.operatorCodes = [_code(op, version) for op, version in self._codes]
        made.signatureDefs = [self._signature()]
        made.metadata = [self._metadata(name, data) for name, data in model.metadata.items()]
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
        made.shape = _vector(dim if isinstance(dim, int) else 1 for dim in tensor.shape)
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
        if id(array) not in self._buffer_of:
            self._buffer_of[id(array)] = len(self.buffers)
            self.buffers.append(_Buffer(array))
        return self._buffer_of[id(array)]

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
        made.buffer = self._buffer(np.frombuffer(data, np.uint8))
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


def _vector(numbers: Any) -> Array:
    return np.asarray(list(numbers), np.int32)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
