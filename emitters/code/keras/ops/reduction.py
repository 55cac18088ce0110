"""One element from many: sums, extremes, their places, sorting."""

from __future__ import annotations

from converter.ir.refused import Refused
from converter.passes.legalize.reductions import is_over_axes
from emitters.code.asking import reduced
from emitters.code.context import Context
from emitters.code.keras.registry import COMPUTED, op
from emitters.code.keras.types import is_whole, keras_type
from emitters.code.literals import listed

_EACH = {
    "ReduceL1": "ops.sum(ops.abs({x}), {a})",
    "ReduceL2": "ops.sqrt(ops.sum(ops.square({x}), {a}))",
    "ReduceLogSum": "ops.log(ops.sum({x}, {a}))",
    "ReduceLogSumExp": "ops.logsumexp({x}, {a})",
    "ReduceMax": "ops.max({x}, {a})",
    "ReduceMean": "ops.mean({x}, {a})",
    "ReduceMin": "ops.min({x}, {a})",
    "ReduceProd": "ops.prod({x}, {a})",
    "ReduceSum": "ops.sum({x}, {a})",
    "ReduceSumSquare": "ops.sum(ops.square({x}), {a})",
}


@op(*_EACH, legal=is_over_axes)
def reduce(c: Context) -> None:
    """Along axes."""
    op_type, axes, x = c.node.op_type, reduced(c), c.arg(0)
    told = f"axis={listed(axes) if len(axes) > 1 else axes[0]}"
    if c.attr("keepdims", 1):
        told += ", keepdims=True"
    whole = is_whole(c.dtype(0))
    if c.dtype(0) == "bool":
        x = f'ops.cast({x}, "int32")'
    elif whole and op_type in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"):
        x = f'ops.cast({x}, "float64")'
    text = _EACH[op_type].format(x=x, a=told)
    if c.dtype(0) == "bool" or (whole and op_type not in ("ReduceMax", "ReduceMin")):
        text = f"ops.cast({text}, {keras_type(c.dtype(0))})"
    c.emit(text)


@op("ArgMax", "ArgMin")
def place_of(c: Context) -> None:
    """The first or last of equal ones."""
    function = c.node.op_type.lower()
    axis, keep = c.attr("axis", 0), bool(c.attr("keepdims", 1))
    told = f"axis={axis}" + (", keepdims=True" if keep else "")
    if c.attr("select_last_index", 0):
        last = f"ops.shape({c.arg(0)})[{axis}] - 1"
        text = f"{last} - ops.{function}(ops.flip({c.arg(0)}, axis={axis}), {told})"
    else:
        text = f"ops.{function}({c.arg(0)}, {told})"
    c.emit(f'ops.cast({text}, "int64")')


@op("CumSum")
def cumulative(c: Context) -> None:
    """From either end, with or without itself."""
    (axis,) = c.need_ints(1, "axis")
    exclusive, reverse = bool(c.attr("exclusive", 0)), bool(c.attr("reverse", 0))
    axis = axis % c.need_rank(0)
    if exclusive or reverse:
        name = c.helper("cumulative_sum")
        c.emit(f"{name}({c.arg(0)}, {axis}, exclusive={exclusive}, reverse={reverse})")
    else:
        c.emit(f"ops.cumsum({c.arg(0)}, axis={axis})")


@op("TopK")
def top(c: Context) -> None:
    """The first of equal ones comes first."""
    axis, largest = c.attr("axis", -1), bool(c.attr("largest", 1))
    sizes = c.ints_in(1)
    if sizes is None:
        raise Refused(COMPUTED, "make k constant")
    axis = axis % c.need_rank(0)
    name = c.helper("top_k")
    c.emit_many(f"{name}({c.arg(0)}, {sizes[0]}, axis={axis}, largest={largest})")
