"""One element from many: sums, extremes, their places, sorting."""

from __future__ import annotations

import numpy as np

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.literals import listed, number
from emitters.code.steps import LOWEST
from emitters.pytorch.registry import op
from emitters.pytorch.types import needs_wide, torch_type


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
    "ReduceL1": "torch.abs({x}).sum({a})",
    "ReduceL2": "torch.sqrt(({x} * {x}).sum({a}))",
    "ReduceLogSum": "torch.log({x}.sum({a}))",
    "ReduceLogSumExp": "torch.logsumexp({x}, {a})",
    "ReduceMax": "{x}.amax({a})",
    "ReduceMean": "{x}.mean({a})",
    "ReduceMin": "{x}.amin({a})",
    "ReduceSum": "{x}.sum({a})",
    "ReduceSumSquare": "({x} * {x}).sum({a})",
}
_PLAIN = {
    "ReduceL1": "torch.abs({x})",
    "ReduceL2": "torch.abs({x})",
    "ReduceLogSum": "torch.log({x})",
    "ReduceSumSquare": "{x} * {x}",
}


@op(*_EACH)
def reduce(c: Context) -> None:
    """Along axes."""
    op_type, axes = c.node.op_type, _axes(c)
    if needs_wide(c.dtype(0)):
        raise Refused(f"PyTorch can't sum {c.dtype(0)}", "cast it to int64")
    if axes is None or not axes:
        c.emit(_PLAIN.get(op_type, "{x}").format(x=c.operand(0)), LOWEST)
        return
    keep = "True" if c.attr("keepdims", 1) else "False"
    told = f"dim={listed(axes) if len(axes) > 1 else axes[0]}"
    if keep == "True":
        told += ", keepdim=True"
    whole = c.dtype(0).startswith(("int", "uint"))
    if op_type in ("ReduceMax", "ReduceMin") and _is_empty(c, axes):
        _of_none(c, axes, op_type)
        return
    if op_type == "ReduceL2" and not whole:
        c.emit(f"torch.linalg.vector_norm({c.arg(0)}, {told})")
        return
    x = c.operand(0)
    if whole and op_type in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"):
        x = f"{x}.double()"
    text = _EACH[op_type].format(x=x, a=told)
    if whole and op_type not in ("ReduceMax", "ReduceMin"):
        text += f".to({torch_type(c.dtype(0))})"
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
    if dtype.kind == "f":
        value = number(np.float32("-inf" if op_type == "ReduceMax" else "inf"))
    elif dtype.kind == "b":
        value = str(op_type == "ReduceMin")
    else:
        info = np.iinfo(dtype)
        value = str(info.min if op_type == "ReduceMax" else info.max)
    whole = listed([int(size) for size in sizes])  # type: ignore[arg-type]
    c.emit(f"{c.operand(0)}.new_full({whole}, {value})")


@op("ReduceProd")
def product(c: Context) -> None:
    """Axis by axis: PyTorch takes one."""
    axes = _axes(c)
    if needs_wide(c.dtype(0)):
        raise Refused(f"PyTorch can't multiply {c.dtype(0)}", "cast it to int64")
    if not axes:
        c.emit(c.arg(0), LOWEST)
        return
    rank = c.need_rank(0)
    text, keep = c.operand(0), bool(c.attr("keepdims", 1))
    for axis in sorted((axis % rank for axis in axes), reverse=True):
        text += f".prod(dim={axis}, keepdim={keep})"
    c.emit(text if c.dtype(0).startswith("float") else f"{text}.to({torch_type(c.dtype(0))})")


@op("ArgMax", "ArgMin")
def place_of(c: Context) -> None:
    """The first or last of equal ones."""
    function = c.node.op_type.lower()
    axis, keep = c.attr("axis", 0), bool(c.attr("keepdims", 1))
    told = f"dim={axis}" + (", keepdim=True" if keep else "")
    if c.attr("select_last_index", 0):
        last = f"{c.operand(0)}.shape[{axis}] - 1"
        c.emit(f"{last} - torch.{function}(torch.flip({c.arg(0)}, ({axis},)), {told})", LOWEST)
    else:
        c.emit(f"torch.{function}({c.arg(0)}, {told})")


@op("CumSum")
def cumulative(c: Context) -> None:
    """From either end, with or without itself."""
    (axis,) = c.need_ints(1, "axis")
    exclusive, reverse = bool(c.attr("exclusive", 0)), bool(c.attr("reverse", 0))
    dtype = torch_type(c.dtype(0))
    if exclusive or reverse:
        name = c.helper("cumulative_sum")
        c.emit(f"{name}({c.arg(0)}, {axis}, exclusive={exclusive}, reverse={reverse})")
    else:
        c.emit(f"torch.cumsum({c.arg(0)}, dim={axis}, dtype={dtype})")


@op("TopK")
def top(c: Context) -> None:
    """The first of equal ones comes first."""
    axis, largest = c.attr("axis", -1), bool(c.attr("largest", 1))
    sizes = c.sizes(1)
    count = c.element(sizes[0]) if sizes else f"int({c.arg(1)})"
    if needs_wide(c.dtype(0)):
        raise Refused(f"PyTorch can't sort {c.dtype(0)}", "cast it to int64")
    c.emit_many(f"{c.helper('top_k')}({c.arg(0)}, {count}, dim={axis}, largest={largest})")
