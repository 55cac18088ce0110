"""What operators do to the size of numbers, as far as it matters for half a precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import onnx_ir

from converter.ir.edit import constant, is_op
from converter.ir.facts import ARITHMETIC, EXTREMES, MEANS, MOVES
from converter.precision.fp16.types import is_float32

BETWEEN = MOVES | EXTREMES | MEANS | {"Concat", "Pad"}
"""Operators whose results are no smaller than the smallest value that comes in."""

UNBOUNDED = {
    "Celu", "CumSum", "Elu", "Exp", "Pow", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSum", "ReduceSumSquare", "Sinh", "Cosh", "LpPool",
    "GlobalLpPool", "LpNormalization",
}  # fmt: skip
"""Operators that easily leave float16, and stay where nothing was measured."""

COUNTING = MOVES | ARITHMETIC | {
    "Abs", "Cast", "Ceil", "Clip", "Concat", "CumSum", "Floor", "Max", "Min", "Mod", "Neg", "Pow",
    "Range", "Reciprocal", "Round", "Sqrt", "Where",
}  # fmt: skip
"""Operators that integers are computed with on their way through floats."""


SPECTRAL = BETWEEN | ARITHMETIC | {
    "Abs", "Cast", "Clip", "Conv", "Einsum", "Gemm", "MatMul", "Max", "Min", "Neg", "Pow",
    "ReduceL1", "ReduceL2", "ReduceSum", "ReduceSumSquare", "Sqrt",
}  # fmt: skip
"""Operators that sums of products, and their powers and roots, are made with: a spectrum."""

LARGE = BETWEEN | {"Abs", "Add", "Cast", "Max", "Min", "Mul", "Neg", "Relu", "Sub", "Where"}
"""Operators whose results are as large as what comes in."""

ADDED = {
    **dict.fromkeys(("Add", "Max", "Min", "Sub"), (0, 1)),
    **dict.fromkeys(("Clip", "Where"), (1, 2)),
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm"), (2,)),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization", "LayerNormalization"), (2,)),
    "BatchNormalization": (2, 3),
}
"""Inputs of which it is no matter that a constant is small: its error is small too."""


DIVISORS = {"BatchNormalization": 4, "Div": 1}
"""Constants that are divided by, so that each counts by itself."""

_FREE = 512.0
"""What a free dimension is taken to be."""

_Sum = Callable[[float, float, float], float]

INSIDE: dict[str, _Sum] = {
    "GlobalAveragePool": lambda result, data, count: result * count,
    "GlobalLpPool": lambda result, data, count: result**2,
    "LpNormalization": lambda result, data, count: data**2 * count,
    "LpPool": lambda result, data, count: result**2,
    "ReduceL2": lambda result, data, count: result**2,
    "ReduceMean": lambda result, data, count: result * count,
}
"""The largest number inside an operator, of its largest result and input and how many are added.

A mean is a sum first, a norm a sum of squares: kernels that hold them in float16 exist."""


def is_added(node: onnx_ir.Node, place: int) -> bool:
    """Whether an input is one of :data:`ADDED`."""
    return node.domain == "" and place in ADDED.get(node.op_type, ())


def from_bool(value: onnx_ir.Value) -> bool:
    """Whether integers are a mask's zeros and ones."""
    node = value.producer()
    if node is None or not node.inputs or node.inputs[0] is None:
        return False
    if is_op(node, "Cast", "CastLike"):
        return node.inputs[0].dtype == onnx_ir.DataType.BOOL or from_bool(node.inputs[0])
    return is_op(node, *BETWEEN - {"Concat", "Pad"}) and from_bool(node.inputs[0])


def floor_of(node: onnx_ir.Node) -> float:
    """The tiny constant that keeps a node's result from zero; 0 where there is none."""
    if not is_op(node, "Add", "Max", "Clip", "Where"):
        return 0.0
    places = (1,) if node.op_type == "Clip" else range(len(node.inputs))
    arrays = [constant(node.inputs[place]) for place in places if place < len(node.inputs)]
    floors = [
        float(array.min())
        for array in arrays
        if array is not None and array.dtype.kind == "f" and array.size and array.min() > 0
    ]
    return min(floors, default=0.0)


def guarded(value: onnx_ir.Value, floor: float, path: dict[onnx_ir.Value, float]) -> bool:
    """Whether something that zero breaks reads a value, or what moves, roots and powers make of
    it.

    Args:
        value: The value, float32.
        floor: The constant that keeps it from zero, above 0.
        path: Values up to what zero breaks, each with what keeps it from zero; what is found is
            added.
    """
    found = value in path
    if found:
        return True
    for use in value.uses():
        node, after = use.node, 0.0
        if is_op(node, "Log", "Reciprocal") or (is_op(node, "Div") and use.idx == 1):
            found = True
        elif is_op(node, "Sqrt"):
            after = math.sqrt(floor)
        elif is_op(node, "Pow") and use.idx == 0:
            exponent = constant(node.inputs[1])
            least = float(exponent.min()) if exponent is not None and exponent.size else -1.0
            found, after = found or least < 0, floor ** max(least, 0.0)
        elif use.idx == 0 and is_op(node, *BETWEEN):
            after = floor
        if after:
            reached = [guarded(out, after, path) for out in node.outputs if is_float32(out)]
            found = found or any(reached)
    if found:
        path[value] = floor
    return found


def decides(node: onnx_ir.Node) -> Iterator[onnx_ir.Value]:
    """The float32 inputs of a node that decide about integers."""
    made = node.outputs[0].dtype
    if node.op_type == "Cast" and not (made is not None and made.is_integer()):
        return
    yield from (value for value in node.inputs if value is not None and is_float32(value))


def summed(node: onnx_ir.Node) -> float:
    """How many numbers a reduction adds up, as far as shapes are known."""
    before, after = node.inputs[0], node.outputs[0]
    if before is None or before.shape is None or after.shape is None:
        return 1024.0
    sizes = [
        math.prod(dim if isinstance(dim, int) else _FREE for dim in value.shape)
        for value in (before, after)
        if value.shape is not None
    ]
    return max(sizes[0] / max(sizes[1], 1), 1.0)
