"""The schema's objects become the structures of :mod:`parsers.tflite.model`, checked.

Numbers that point at tensors, buffers, operator codes and subgraphs are held against what is
there; constants against their shapes. What is left is for :mod:`parsers.tflite.checks`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from converter.errors import ModelError, Unsupported, UnsupportedError
from modelyard.containers.tflite import unpack
from parsers.tflite.checks import called, check
from parsers.tflite.constants import DTYPES, LARGEST, PACKED, constant
from parsers.tflite.model import Operator, Quantization, Signature, Subgraph, Tensor, TfliteModel

_TYPES = {code: name.lower() for name, code in vars(schema.TensorType).items() if name[0].isalpha()}
_BUILTINS = {code: name for name, code in vars(schema.BuiltinOperator).items() if name[0].isalpha()}
_CUSTOM = schema.BuiltinOperator.CUSTOM


def read(content: bytes, name: str) -> TfliteModel:
    """A TFLite file as structures; see :func:`structures`."""
    return structures(unpack(content, name), name)


def structures(source: Any, name: str) -> TfliteModel:
    """A ``schema.ModelT`` as structures; constants are views of its buffers where they can be.

    Args:
        source: As :func:`modelyard.containers.tflite.unpack` gives it.
        name: The file's name, for messages.

    Raises:
        ModelError: It contradicts itself; all that is known of it.
        UnsupportedError: Quantization in blocks, or weights in other files; all of them.
    """
    _refuse(source, name)
    try:
        model = _Reading(source).model()
    except ModelError as error:
        raise ModelError(f"{name}: {error.message}", code=error.code, hint=error.hint) from error
    check(model, name)
    return model


def text(value: bytes | str | None) -> str:
    """A string of the schema's."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""


def type_name(code: int) -> str:
    """A tensor's type by its number in the schema: ``float32``, ``int4``."""
    return str(_TYPES.get(code, f"type {code}"))


def _refuse(source: Any, name: str) -> None:
    items = [
        Unsupported(text(tensor.name), "tensor", reason, remedy)
        for graph in source.subgraphs
        for tensor in graph.tensors
        for reason, remedy in _reasons(tensor)
    ]
    if items:
        raise UnsupportedError(f"{name} holds tensors that can't be read", items)


def _reasons(tensor: Any) -> Iterable[tuple[str, str]]:
    if tensor.externalBuffer:
        yield "its value is in another file", "Convert the original into one file."
    kind = tensor.quantization.detailsType if tensor.quantization else 0
    if kind not in (schema.QuantizationDetails.NONE, schema.QuantizationDetails.CustomQuantization):
        yield "it is quantized in blocks", "Quantize with one scale, or one for each channel."


class _Reading:
    """One model being read."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def model(self) -> TfliteModel:
        source = self._source
        graphs = [self._subgraph(i, graph) for i, graph in enumerate(source.subgraphs)]
        if not graphs:
            raise ModelError("it holds no graph", code="model-invalid")
        signatures = [_signature(item, graphs) for item in source.signatureDefs or ()]
        return TfliteModel(graphs, signatures, text(source.description))

    def _subgraph(self, index: int, graph: Any) -> Subgraph:
        count = len(graph.tensors)
        where = f"subgraph {index}"
        return Subgraph(
            index,
            text(graph.name),
            [self._tensor(i, tensor, where) for i, tensor in enumerate(graph.tensors)],
            _numbers(graph.inputs, 0, count, f"{where}, inputs"),
            _numbers(graph.outputs, 0, count, f"{where}, outputs"),
            [
                self._operator(i, operator, count, f"{where}, operator {i}")
                for i, operator in enumerate(graph.operators)
            ],
        )

    def _tensor(self, index: int, tensor: Any, where: str) -> Tensor:
        name = text(tensor.name)
        title = f"{name or index} ({where})"
        if tensor.type not in _TYPES:
            raise ModelError(
                f"the tensor {title} has the unknown type {tensor.type}", code="model-invalid"
            )
        dtype = _TYPES[tensor.type]
        shape = _shape(tensor.shape, dtype, title)
        signature = _shape(tensor.shapeSignature, dtype, title)
        content = self._content(tensor.buffer, title)
        data = None
        if content is not None and not tensor.isVariable:
            data = constant(content, dtype, shape, tensor.sparsity, title)
        free = _free(shape, signature, title) if data is None else shape
        quantization = _quantization(tensor.quantization, dtype, shape, title)
        return Tensor(index, name, dtype, free, data, quantization, bool(tensor.isVariable))

    def _content(self, index: int, title: str) -> np.ndarray[Any, Any] | None:
        """A buffer's bytes; None for an empty one, which computed tensors have."""
        buffers = self._source.buffers
        if not 0 <= index < max(len(buffers), 1):
            raise ModelError(
                f"the tensor {title} has buffer {index} of {len(buffers)}", code="model-invalid"
            )
        data = buffers[index].data if buffers else None
        return None if data is None or len(data) == 0 else data

    def _operator(self, index: int, operator: Any, count: int, where: str) -> Operator:
        codes = self._source.operatorCodes
        if not 0 <= operator.opcodeIndex < len(codes):
            raise ModelError(
                f"{where} has operator code {operator.opcodeIndex} of {len(codes)}",
                code="model-invalid",
            )
        code = codes[operator.opcodeIndex]
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        custom = number == _CUSTOM
        name = text(code.customCode) if custom else _BUILTINS.get(number, f"BUILTIN_{number}")
        made = Operator(
            index,
            name,
            custom,
            code.version,
            _numbers(operator.inputs, -1, count, f"{where} ({name}), inputs"),
            _numbers(operator.outputs, -1, count, f"{where} ({name}), outputs"),
            operator.builtinOptions or operator.builtinOptions2,
            b"" if operator.customOptions is None else bytes(operator.customOptions),
        )
        graphs = len(self._source.subgraphs)
        if any(not 0 <= callee < graphs for callee in called(made)):
            raise ModelError(
                f"{where} ({name}) calls subgraphs {called(made)} of {graphs}", code="model-invalid"
            )
        return made


def _numbers(values: Any, low: int, high: int, where: str) -> tuple[int, ...]:
    numbers = tuple(int(value) for value in (() if values is None else values))
    wrong = [number for number in numbers if not low <= number < high]
    if wrong:
        raise ModelError(
            f"{where}: there is no tensor {wrong[0]}; there are {high}", code="model-invalid"
        )
    return numbers


def _shape(values: Any, dtype: str, title: str) -> tuple[int, ...]:
    shape = tuple(int(value) for value in (() if values is None else values))
    if any(size < -1 for size in shape):
        raise ModelError(f"the tensor {title} has the shape {list(shape)}", code="model-invalid")
    width = np.dtype(DTYPES[dtype]).itemsize if dtype in DTYPES else 1
    if math.prod(max(size, 1) for size in shape) * width > LARGEST:
        raise ModelError(
            f"the tensor {title} of shape {list(shape)} is too large to be right",
            code="model-invalid",
        )
    return shape


def _free(shape: tuple[int, ...], signature: tuple[int, ...], title: str) -> tuple[int, ...]:
    """The shape with -1 where the signature, if there is one, leaves it free."""
    if not signature:
        return shape
    if len(signature) != len(shape):
        raise ModelError(
            f"the tensor {title} has the shape {list(shape)} and the signature {list(signature)}",
            code="model-invalid",
        )
    return tuple(-1 if free == -1 else size for size, free in zip(shape, signature, strict=True))


def _quantization(
    source: Any, dtype: str, shape: tuple[int, ...], title: str
) -> Quantization | None:
    integer = dtype in PACKED or "int" in dtype
    if source is None or source.scale is None or len(source.scale) == 0 or not integer:
        return None
    scale = np.asarray(source.scale, np.float32)
    given = source.zeroPoint is not None and len(source.zeroPoint) > 0
    zero = np.asarray(source.zeroPoint, np.int64) if given else np.zeros(len(scale), np.int64)
    if len(zero) == 1 < len(scale):
        zero = np.repeat(zero, len(scale))
    if len(zero) != len(scale) or not np.isfinite(scale).all():
        raise ModelError(
            f"the tensor {title} has {len(scale)} scales and {len(zero)} zero points"
            + ("" if np.isfinite(scale).all() else ", not all of them finite"),
            code="model-invalid",
        )
    if len(scale) == 1:
        return Quantization(scale, zero)
    axis = int(source.quantizedDimension)
    if not 0 <= axis < len(shape) or shape[axis] != len(scale):
        raise ModelError(
            f"the tensor {title} of shape {list(shape)} has {len(scale)} scales along {axis}",
            code="model-invalid",
        )
    return Quantization(scale, zero, axis)


def _signature(source: Any, graphs: list[Subgraph]) -> Signature:
    key = text(source.signatureKey)
    if not 0 <= source.subgraphIndex < len(graphs):
        raise ModelError(
            f"the signature {key} is of subgraph {source.subgraphIndex}", code="model-invalid"
        )
    graph = graphs[source.subgraphIndex]
    made = Signature(key, graph.index)
    for kind, items, names, listed in (
        ("input", source.inputs, made.inputs, graph.inputs),
        ("output", source.outputs, made.outputs, graph.outputs),
    ):
        for item in items or ():
            name = text(item.name)
            if item.tensorIndex not in listed:
                raise ModelError(
                    f"the signature {key} calls tensor {item.tensorIndex} its {kind} "
                    f"{name!r}, but the graph has no such {kind}",
                    code="model-invalid",
                )
            if name in names:
                raise ModelError(
                    f"the signature {key} has two {kind}s called {name!r}", code="model-invalid"
                )
            names[name] = item.tensorIndex
    return made
