"""Elements by their places: slices, gathers, scatters, and what finds places."""

from __future__ import annotations

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.shapes import span
from emitters.code.weights import is_weight
from emitters.pytorch.ops.linear import dtype_argument
from emitters.pytorch.registry import op
from emitters.pytorch.types import needs_wide


@op("Slice")
def slice_(c: Context) -> None:
    """A part along axes; backwards too."""
    starts, ends = c.sizes(1), c.sizes(2)
    axes = c.ints_in(3) if c.has(3) else None
    steps = c.ints_in(4) if c.has(4) else None
    if (
        starts is None
        or ends is None
        or (c.has(3) and axes is None)
        or (c.has(4) and steps is None)
    ):
        if (c.has(3) and axes is None) or (c.has(4) and steps is None):
            raise Refused("its axes or steps are computed", "make them constant")
        _computed(c, axes, steps)
        return
    rank = c.need_rank(0)
    axes = list(range(len(starts))) if axes is None else [axis % rank for axis in axes]
    steps = steps or [1] * len(axes)
    text, spans = c.operand(0), [":"] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step < 0:
            told = f"{c.element(start)}, {c.element(end)}, {step}"
            text = f"{c.helper('slice_backwards')}({text}, {axis}, {told})"
        else:
            spans[axis] = span(c, start, end, step)
    while spans and spans[-1] == ":":
        spans.pop()
    c.emit(f"{text}[{', '.join(spans)}]" if spans else text, 10)


def _computed(c: Context, axes: list[int] | None, steps: list[int] | None) -> None:
    axes = axes if axes is not None else list(range((c.shape(1) or [0])[0]))  # type: ignore[arg-type]
    given = f"{c.operand(1)}.tolist(), {c.operand(2)}.tolist(), {axes}"
    more = f", {steps}" if steps and any(step != 1 for step in steps) else ""
    c.emit(f"{c.helper('slice_along')}({c.arg(0)}, {given}{more})")


@op("Gather")
def gather(c: Context) -> None:
    """``nn.Embedding`` of constant rows; else by indices along an axis."""
    axis, rank = c.attr("axis", 0), c.rank(0)
    if axis == 0 and is_weight(c.value(0), 2) and c.array(1) is None:
        rows, width = (int(size) for size in c.shape(0) or ())  # type: ignore[arg-type]
        weights = {"weight": c.weight(c.value(0))}
        x = c.arg(1) if c.dtype(1) == "int64" else f"{c.operand(1)}.long()"
        dtype = dtype_argument(c.dtype(0))
        c.call("nn.Embedding", (rows, width), (x,), weights, "embedding", dtype=dtype)
        return
    if rank is None:
        raise Refused("how many axes it has isn't known", "give the input's shape (--input)")
    before = ":, " * (axis % rank)
    places = c.ints_in(1)
    if places is not None and c.rank(1) == 0:
        c.emit(f"{c.operand(0)}[{before}{places[0]}]")
    elif places is not None and c.rank(1) == 1 and len(places) <= 8:
        c.emit(f"{c.operand(0)}[{before}{places}]")
    else:
        index = c.arg(1) if c.dtype(1) == "int64" else f"{c.operand(1)}.long()"
        c.emit(f"{c.operand(0)}[{before}{index}]")


@op("GatherElements")
def gather_elements(c: Context) -> None:
    """One index for each element."""
    c.emit(f"{c.helper('gather_elements')}({c.arg(0)}, {c.arg(1)}, dim={c.attr('axis', 0)})")


@op("GatherND")
def gather_nd(c: Context) -> None:
    """By indices of several axes."""
    batch = c.attr("batch_dims", 0)
    more = f", batch_dims={batch}" if batch else ""
    c.emit(f"{c.helper('gather_nd')}({c.arg(0)}, {c.arg(1)}{more})")


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@op("ScatterElements")
def scatter_elements(c: Context) -> None:
    """Put where one index each says."""
    how = c.attr("reduction", "none")
    more = f', reduce="{_REDUCE[how]}"' if how != "none" else ""
    told = f"dim={c.attr('axis', 0)}{more}"
    c.emit(f"{c.helper('scatter_elements')}({c.arg(0)}, {c.arg(1)}, {c.arg(2)}, {told})")


@op("ScatterND")
def scatter_nd(c: Context) -> None:
    """Put where indices of several axes say."""
    how = c.attr("reduction", "none")
    more = f', reduce="{_REDUCE[how]}"' if how != "none" else ""
    c.emit(f"{c.helper('scatter_nd')}({c.arg(0)}, {c.arg(1)}, {c.arg(2)}{more})")


@op("NonZero")
def non_zero(c: Context) -> None:
    """An axis a row."""
    if needs_wide(c.dtype(0)):
        raise Refused(f"PyTorch has no kernel for {c.dtype(0)}", "cast it to int64")
    c.emit(f"{c.operand(0)}.nonzero().T")


@op("Compress")
def compress(c: Context) -> None:
    """Where a mask is true."""
    axis = c.attr("axis")
    if axis is None:
        c.emit(f"{c.helper('compress')}({c.operand(0)}.reshape(-1), {c.arg(1)}, 0)")
    else:
        c.emit(f"{c.helper('compress')}({c.arg(0)}, {c.arg(1)}, {axis})")


@op("OneHot")
def one_hot(c: Context) -> None:
    """One of two values where an index says."""
    sizes = c.sizes(1)
    depth = c.element(sizes[0]) if sizes else f"int({c.arg(1)})"
    told = f"{c.operand(0)}.long(), {depth}, {c.arg(2)}, dim={c.attr('axis', -1)}"
    c.emit(f"{c.helper('one_hot')}({told})")


@op("ReverseSequence")
def reverse_sequence(c: Context) -> None:
    """Each from its own length on."""
    time, batch = c.attr("time_axis", 0), c.attr("batch_axis", 1)
    told = f"{c.arg(0)}, {c.arg(1)}, time={time}, batch={batch}"
    c.emit(f"{c.helper('reverse_sequence')}({told})")


@op("Constant")
def constant(c: Context) -> None:
    """A tensor."""
    raise Refused("a constant inside a function", "report it, because this is a bug in Modelyard")
