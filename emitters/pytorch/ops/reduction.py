"""One element from many: sums, extremes, their places, sorting."""

from __future__ import annotations

from converter.ir.refused import Refused
from converter.passes.legalize.reductions import is_over_axes
from emitters.code.asking import reduced
from emitters.code.context import Context
from emitters.code.literals import listed
from emitters.code.steps import LOWEST
from emitters.pytorch.registry import op
from emitters.pytorch.types import needs_wide, torch_type

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


def _need_kernels(c: Context) -> None:
    if needs_wide(c.dtype(0)):
        raise Refused(f"PyTorch reduces no {c.dtype(0)}", "cast it to int64")


@op(*_EACH, legal=is_over_axes)
def reduce(c: Context) -> None:
    """Along axes."""
    op_type, axes, x = c.node.op_type, reduced(c), c.operand(0)
    _need_kernels(c)
    told = f"dim={listed(axes) if len(axes) > 1 else axes[0]}"
    if c.attr("keepdims", 1):
        told += ", keepdim=True"
    whole = c.dtype(0).startswith(("int", "uint"))
    if op_type == "ReduceL2" and not whole:
        c.emit(f"torch.linalg.vector_norm({c.arg(0)}, {told})")
        return
    if whole and op_type in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"):
        x = f"{x}.double()"
    text = _EACH[op_type].format(x=x, a=told)
    if whole and op_type not in ("ReduceMax", "ReduceMin"):
        text += f".to({torch_type(c.dtype(0))})"
    c.emit(text)


@op("ReduceProd", legal=is_over_axes)
def product(c: Context) -> None:
    """Axis by axis: PyTorch takes one."""
    _need_kernels(c)
    rank, text, keep = c.need_rank(0), c.operand(0), bool(c.attr("keepdims", 1))
    for axis in sorted((axis % rank for axis in reduced(c)), reverse=True):
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
