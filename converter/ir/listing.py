"""What an ONNX model holds: which operators compute in which types, and how many parameters.

A parameter is a number of the weights as it enters a computation. What stores it in fewer bits
(integers behind a DequantizeLinear, a table and its indices, packed bits that are shifted apart)
are nodes that hang on constants alone: their result is what counts. Scales and zero points don't.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir

from converter.ir.edit import is_op
from converter.ir.facts import INTEGER_PRODUCTS
from converter.ir.inference import Inferred, infer
from converter.ir.model import Model, dtype_name, spec_dict

_INTEGER_WEIGHTS = INTEGER_PRODUCTS | {"QGemm", "MatMulIntegerToFloat"}
"""Operators that take weights as integers."""

_PACKED = frozenset({"MatMulNBits", "MatMulBnb4"})
"""Operators that take weights as packed bits; their sizes are the attributes K and N."""

_SCALED = {"QuantizeLinear": 1, "DequantizeLinear": 1, "DynamicQuantizeLinear": 1}
"""Operators whose inputs from this one on say how integers stand for real numbers."""


@dataclass(frozen=True)
class Listing:
    """What a file holds, in its format's own terms.

    Attributes:
        format: ``ONNX, IR version 10``.
        inputs, outputs: Name, dtype and shape of each; scale and zero point of integers with them.
        op_types: For each of its operators, how many compute in which type, most frequent first.
        parameters: Numbers in the weights, however they are stored.
        stored: Bytes of the weights by the type that they are stored in.
        quantization: How many tensors (or operations) stand for real numbers, by type or name.
        domains: Of an ONNX model: the version of each operator domain, of ONNX's own by "".
    """

    format: str
    inputs: Sequence[Mapping[str, Any]]
    outputs: Sequence[Mapping[str, Any]]
    op_types: Mapping[str, Mapping[str, int]]
    parameters: int
    stored: Mapping[str, int]
    quantization: Mapping[str, int] = field(default_factory=dict)
    domains: Mapping[str, int] = field(default_factory=dict)


def listing_of(model: Model) -> Listing:
    """What an ONNX model holds."""
    found = ModelListing(model)
    stored: Counter[str] = Counter()
    constants = (node.attributes.get("value") for node in model.nodes() if is_op(node, "Constant"))
    tensors = [value.const_value for value in model.initializers()]
    tensors += [constant.as_tensor() for constant in constants if constant is not None]
    for tensor in tensors:
        if tensor is not None:
            stored[dtype_name(tensor.dtype)] += tensor.nbytes
    return Listing(
        f"ONNX opset {model.opset}, IR {model.graph.ir_version}",
        [spec_dict(spec) for spec in model.inputs],
        [spec_dict(spec) for spec in model.outputs],
        found.op_types(),
        found.parameters(),
        dict(stored.most_common()),
        found.quantized(),
        {domain.removeprefix("ai.onnx"): n for domain, n in model.graph.opset_imports.items()},
    )


class ModelListing:
    """Looks through a model once.

    Args:
        model: Left as it is.
    """

    def __init__(self, model: Model) -> None:
        self._inferred: dict[onnx_ir.Value, Inferred] = infer(model.graph)
        self._nodes = list(model.nodes())
        self._constant = {v for graph in model.graph.graphs() for v in graph.initializers.values()}
        for node in self._nodes:  # in order: a producer stands before what takes it
            given = [value for value in node.inputs if value is not None]
            if node.op_type == "Constant" or (given and self._constant.issuperset(given)):
                self._constant.update(node.outputs)

    def op_types(self) -> dict[str, dict[str, int]]:
        """For each operator, how many nodes compute in which type, the most frequent first."""
        found: dict[str, Counter[str]] = {}
        for node in self._nodes:
            found.setdefault(op_name(node), Counter())[self._type_of(node)] += 1
        order = sorted(found.items(), key=lambda item: -item[1].total())
        return {op: dict(types.most_common()) for op, types in order}

    def quantized(self) -> dict[str, int]:
        """How many tensors are dequantized, by type, and with a scale for each channel."""
        found: Counter[str] = Counter()
        for node in self._nodes:
            if node.op_type == "DequantizeLinear" and node.inputs[0] is not None:
                scale = node.inputs[1]
                many = scale is not None and math.prod(self._shape(scale)) > 1
                found[dtype_name(self._dtype(node.inputs[0])) + " by channel" * many] += 1
        return dict(found.most_common())

    def parameters(self) -> int:
        """Numbers in the weights, each tensor counted once; single numbers aren't weights."""
        sizes: dict[onnx_ir.Value, int] = {}
        for node in self._nodes:
            if self._constant.issuperset(node.outputs):
                continue
            if node.op_type in _PACKED and (value := node.inputs[1]) is not None:
                shape = (node.attributes.get_int(name, 0) for name in "KN")
                sizes[value] = math.prod(shape)
                continue
            for index, value in enumerate(node.inputs):
                if value in self._constant and self._is_weight(node, index, value):
                    sizes[value] = self._size(value)
        return sum(size for size in sizes.values() if size > 1)

    def _is_weight(self, node: onnx_ir.Node, index: int, value: onnx_ir.Value) -> bool:
        if index >= _SCALED.get(node.op_type, len(node.inputs)):
            return False
        if node.op_type in _INTEGER_WEIGHTS:
            return len(self._shape(value)) > 1
        if node.op_type == "Mul" and any(_is_dynamic_scale(other) for other in node.inputs):
            return False
        dtype = self._dtype(value)
        return dtype is not None and dtype.is_floating_point()

    def _type_of(self, node: onnx_ir.Node) -> str:
        """``float32``; ``uint8 with int8 weights``; of what quantizes, the integers' type."""
        if node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear"):
            return dtype_name(self._dtype(node.outputs[0]))
        given = [value for value in node.inputs if value is not None]
        if not given:
            return dtype_name(self._dtype(node.outputs[0]))
        values = [value for value in given if value not in self._constant] or given
        first = self._stored(values[0])
        weights = [v for v in given[1:2] if v in self._constant and len(self._shape(v)) > 1]
        stored = self._stored(weights[0]) if weights else first
        return first if stored == first else f"{first} with {stored} weights"

    def _stored(self, value: onnx_ir.Value) -> str:
        """The type that a value is stored in: where it is dequantized, that of its integers."""
        producer = value.producer()
        if producer is not None and producer.op_type == "DequantizeLinear":
            value = producer.inputs[0] or value
        return dtype_name(self._dtype(value))

    def _dtype(self, value: onnx_ir.Value) -> onnx_ir.DataType | None:
        if value.const_value is not None:
            return value.const_value.dtype
        known = self._inferred.get(value)
        kind = known.type if known is not None and known.type is not None else value.type
        return kind.dtype if kind is not None else None

    def _shape(self, value: onnx_ir.Value) -> tuple[int, ...]:
        """The sizes of a constant; of one that isn't known, those of what it is made of."""
        if value.const_value is not None:
            return tuple(value.const_value.shape.numpy())
        known = self._inferred.get(value)
        shape = known.shape if known is not None and known.shape is not None else value.shape
        if shape is not None and all(isinstance(dim, int) for dim in shape):
            return tuple(dim for dim in shape if isinstance(dim, int))
        producer = value.producer()
        given = [item for item in producer.inputs if item is not None] if producer else []
        return max((self._shape(item) for item in given), key=math.prod, default=())

    def _size(self, value: onnx_ir.Value) -> int:
        return math.prod(self._shape(value))


def op_name(node: onnx_ir.Node) -> str:
    """An operator as users know it: ``Conv``, ``com.microsoft::FusedConv``."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def _is_dynamic_scale(value: onnx_ir.Value | None) -> bool:
    producer = value.producer() if value is not None else None
    return producer is not None and producer.op_type == "DynamicQuantizeLinear"
