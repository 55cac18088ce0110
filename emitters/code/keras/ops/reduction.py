"""One element from many: sums, extremes, their places, sorting."""

from __future__ import annotations

import numpy as np

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.keras.registry import COMPUTED, op
from emitters.code.keras.types import is_whole, keras_type
from emitters.code.literals import listed, number
from emitters.code.steps import LOWEST


def _axes(c: Context) -> list[int] | None:
    """The axes that go; all of them where none are named. None where it gives its input."""
    axes = c.attr("axes")
    if axes is None and c.has(1):
        axes = c.need_ints(1, "axes")
    if axes:
        return [int(axis) for axis in axes]
    if c.attr("noop_with_empty_axes", 0):
        return None
    return list(range(c.need_rank(0)))


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
_PLAIN = {
    "ReduceL1": "ops.abs({x})",
    "ReduceL2": "ops.abs({x})",
    "ReduceLogSum": "ops.log({x})",
    "ReduceSumSquare": "ops.square({x})",
}
_OF_NONE = {"ReduceMax": "-inf", "ReduceMin": "inf", "ReduceLogSum": "-inf"}


@op(*_EACH)
def reduce(c: Context) -> None:
    """Along axes."""
    op_type, axes = c.node.op_type, _axes(c)
    if axes is None or not axes:
        c.emit(_PLAIN.get(op_type, "{x}").format(x=c.arg(0)), LOWEST)
        return
    told = f"axis={listed(axes) if len(axes) > 1 else axes[0]}"
    if c.attr("keepdims", 1):
        told += ", keepdims=True"
    whole = is_whole(c.dtype(0))
    if op_type in ("ReduceMax", "ReduceMin", "ReduceLogSumExp") and _is_empty(c, axes):
        _of_none(c, axes, op_type)
        return
    x = c.arg(0)
    if c.dtype(0) == "bool":
        text = _EACH[op_type].format(x=f'ops.cast({x}, "int32")', a=told)
        c.emit(f'ops.cast({text}, "bool")')
        return
    if whole and op_type in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"):
        x = f'ops.cast({x}, "float64")'
    text = _EACH[op_type].format(x=x, a=told)
    if whole and op_type not in ("ReduceMax", "ReduceMin"):
        text = f"ops.cast({text}, {keras_type(c.dtype(0))})"
    c.emit(text)


def _is_empty(c: Context, axes: list[int]) -> bool:
    shape = c.shape(0)
    return shape is not None and any(shape[axis] == 0 for axis in axes)


def _of_none(c: Context, axes: list[int], op_type: str) -> None:
    """What a reduction of nothing gives: the type's least or greatest."""
    shape = c.shape(0) or []
    gone = {axis % len(shape) for axis in axes}
    sizes = [1 if i in gone else size for i, size in enumerate(shape)]
    if not c.attr("keepdims", 1):
        sizes = [size for i, size in enumerate(shape) if i not in gone]
    if any(not isinstance(size, int) for size in sizes):
        raise Refused("it reduces to free sizes without a reduction", "fix them (--dim)")
    dtype = np.dtype(c.value(0).dtype.numpy())  # type: ignore[union-attr]
    if dtype.kind in "fV":
        value = number(np.float32("inf" if op_type == "ReduceMin" else "-inf"))
    elif dtype.kind == "b":
        value = str(op_type == "ReduceMin")
    else:
        info = np.iinfo(dtype)
        value = str(info.max if op_type == "ReduceMin" else info.min)
    whole = listed([int(size) for size in sizes])  # type: ignore[arg-type]
    c.emit(f"ops.full({whole}, {value}, dtype={keras_type(c.dtype(0))})")


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
