"""Which inputs and outputs of a node may be float16 or bfloat16, as ONNX's schemas say.

A node computes in one type: everything of it that may be lowered goes along, or nothing does.
What stays apart from that is listed here, with the operator pages' names:

1. Inputs that are float32 whatever the data is: scales and regions of Resize and Upsample, the
   ratio of Dropout, depth and indices of OneHot; the second and third output of
   LayerNormalization (``stash_type``).
2. Inputs of any type, where nothing has to be cast: Cast, Shape, Size.
3. Operators that don't compute in half a precision at all: :data:`STAYING`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import onnx
import onnx_ir

from converter.ir.facts import RANDOM

FLOAT = onnx_ir.DataType.FLOAT

STAYING = {
    **dict.fromkeys(RANDOM, "its kernels draw in float32"),
    "BlackmanWindow": "its kernels compute in float32",
    "Constant": "it is an output that nothing computes",
    "DFT": "a spectrum spans more than half a precision holds",
    "DequantizeLinear": "a quantizer's scales need float32",
    "Det": "a determinant cancels",
    "EyeLike": "its kernels compute in float32",
    "GridSample": "coordinates need float32",
    "HammingWindow": "its kernels compute in float32",
    "HannWindow": "its kernels compute in float32",
    "MaxRoiPool": "coordinates need float32",
    "MeanVarianceNormalization": "its epsilon, 1e-9, needs float32",
    "MelWeightMatrix": "frequencies need float32",
    "QuantizeLinear": "a quantizer's scales need float32",
    "ReduceProd": "a product's range is unbounded",
    "RoiAlign": "coordinates need float32",
    "STFT": "a spectrum spans more than half a precision holds",
    "Tan": "it has poles",
}
"""Operators that stay in float32 although their schemas allow less, and why."""

FLOAT32_INPUTS = {
    "Dropout": {1},
    "OneHot": {0, 1},
    "Resize": {1, 2},
    "Upsample": {1},
}
FLOAT32_OUTPUTS = {"LayerNormalization": {1, 2}}
ANY_INPUT = {"Cast", "CastLike", "Shape", "Size"}


@dataclass
class Slots:
    """The float32 tensors of a node, by what becomes of them.

    Attributes:
        with_node: Places of inputs that have the type that the node computes in.
        float32: Places of inputs that are float32 always.
        outputs: Places of outputs that have the node's type.
        outputs_float32: Places of outputs that are float32 always.
        why_not: Why the node can't be lowered; empty where it can.
    """

    with_node: list[int] = field(default_factory=list)
    float32: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    outputs_float32: list[int] = field(default_factory=list)
    why_not: str = ""

    @property
    def any(self) -> bool:
        """Whether there is something to lower at all."""
        return bool(self.with_node or self.outputs)

    def stay(self, why: str) -> Slots:
        """The same with everything in float32."""
        return Slots(
            [], [*self.with_node, *self.float32], [], [*self.outputs, *self.outputs_float32], why
        )


def is_float32(value: onnx_ir.Value | None) -> bool:
    """Whether a value is a float32 tensor: no sequence or optional of one."""
    return value is not None and value.dtype == FLOAT and isinstance(value.type, onnx_ir.TensorType)


def slots_of(node: onnx_ir.Node, opsets: dict[str, int], dtype: onnx_ir.DataType) -> Slots:
    """What of a node can have another floating-point type.

    Args:
        node: A node, with the types of all values set.
        opsets: The model's opset versions, by domain.
        dtype: FLOAT16 or BFLOAT16.
    """
    op = node.op_type if node.domain == "" else ""
    found = Slots()
    for place, value in enumerate(node.inputs):
        if is_float32(value) and op not in ANY_INPUT:
            apart = place in FLOAT32_INPUTS.get(op, ())
            (found.float32 if apart else found.with_node).append(place)
    for place, value in enumerate(node.outputs):
        if is_float32(value):
            apart = place in FLOAT32_OUTPUTS.get(op, ())
            (found.outputs_float32 if apart else found.outputs).append(place)
    if not found.any:
        return found
    why = STAYING.get(op) or _unlowerable(node, opsets, found, dtype)
    return found.stay(why) if why else found


def _unlowerable(
    node: onnx_ir.Node, opsets: dict[str, int], slots: Slots, dtype: onnx_ir.DataType
) -> str:
    values = [*node.inputs, *node.outputs]
    if any(v is not None and v.name and v.type is None for v in values):
        return "the type of its input isn't known"
    if any(v is not None and _holds_floats(v.type) for v in values):
        return "it works on sequences or optionals"
    first = node.inputs[0] if node.inputs else None
    if node.op_type == "Cast" and first is not None and first.dtype == onnx_ir.DataType.STRING:
        return "it reads numbers from text"
    if node.op_type.startswith("Scatter") and _reduces(node):
        return "ONNX Runtime scatters sums and extremes in float32"
    if node.domain == "ai.onnx.ml":
        return "its inputs are float32"
    version = opsets.get(node.domain, 0)
    allowed = _allowed(node.op_type, node.domain, version, f"tensor({dtype.name.lower()})")
    if allowed is None:
        return f"{node.domain}.{node.op_type} isn't a standard operator"
    inputs, outputs = allowed
    wrong = [i for i in slots.with_node if not inputs[min(i, len(inputs) - 1)]]
    wrong += [i for i in slots.outputs if not outputs[min(i, len(outputs) - 1)]]
    name = {"FLOAT16": "float16", "BFLOAT16": "bfloat16"}[dtype.name]
    return f"{node.op_type} has no {name} form in opset {version}" if wrong else ""


def _reduces(node: onnx_ir.Node) -> bool:
    attribute = node.attributes.get("reduction")
    return attribute is not None and attribute.as_string() != "none"


def _holds_floats(kind: onnx_ir.TypeProtocol | None) -> bool:
    return kind is not None and not isinstance(kind, onnx_ir.TensorType) and kind.dtype == FLOAT


@lru_cache(maxsize=1024)
def _allowed(
    op: str, domain: str, version: int, kind: str
) -> tuple[tuple[bool, ...], tuple[bool, ...]] | None:
    """For each formal input and output, whether it may be of ``kind``."""
    try:
        schema = onnx.defs.get_schema(op, version, domain)
    except onnx.defs.SchemaError:
        return None
    return (
        tuple(kind in formal.types for formal in schema.inputs),
        tuple(kind in formal.types for formal in schema.outputs),
    )


def bodies(node: onnx_ir.Node) -> Iterator[onnx_ir.Graph]:
    """The subgraphs of a node."""
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == onnx_ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == onnx_ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()
