"""Elements by their places: slices, gathers, scatters, and what finds places."""

from __future__ import annotations

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.keras.ops.shaping import need_sizes
from emitters.code.keras.registry import COMPUTED, op
from emitters.code.keras.types import dtype_argument, keras_type
from emitters.code.shapes import span
from emitters.code.weights import is_weight


@op("Slice")
def slice_(c: Context) -> None:
    """A part along axes; backwards too."""
    starts, ends = need_sizes(c, 1), need_sizes(c, 2)
    rank = c.need_rank(0)
    axes = c.need_ints(3, "axes") if c.has(3) else list(range(len(starts)))
    steps = c.need_ints(4, "steps") if c.has(4) else [1] * len(axes)
    text, spans = c.operand(0), [":"] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step < 0:
            told = f"{axis % rank}, {c.element(start)}, {c.element(end)}, {step}"
            text = f"{c.helper('slice_backwards')}({text}, {told})"
        else:
            spans[axis % rank] = span(c, start, end, step)
    while spans and spans[-1] == ":":
        spans.pop()
    c.emit(f"{text}[{', '.join(spans)}]" if spans else text, 10)


@op("Gather")
def gather(c: Context) -> None:
    """``layers.Embedding`` of constant rows; else by indices along an axis."""
    axis, rank = c.attr("axis", 0), c.need_rank(0)
    if axis == 0 and is_weight(c.value(0), 2) and c.array(1) is None:
        rows, width = (int(size) for size in c.shape(0) or ())  # type: ignore[arg-type]
        weights = {"embeddings": c.weight(c.value(0))}
        dtype = dtype_argument(c.dtype(0))
        c.call("layers.Embedding", (rows, width), (c.arg(1),), weights, "embedding", dtype=dtype)
        return
    places = c.ints_in(1)
    if places is not None and c.rank(1) == 0:
        c.emit(f"{c.operand(0)}[{':, ' * (axis % rank)}{places[0]}]")
    else:
        c.emit(f"ops.take({c.arg(0)}, {c.arg(1)}, axis={axis % rank})")


@op("GatherElements")
def gather_elements(c: Context) -> None:
    """One index for each element."""
    c.emit(f"{c.helper('gather_elements')}({c.arg(0)}, {c.arg(1)}, axis={c.attr('axis', 0)})")


def _need_depth(c: Context) -> None:
    if not isinstance((c.shape(1) or [None])[-1], int):
        raise Refused("the number of axes of its indices isn't known", "fix it (--dim)")


@op("GatherND")
def gather_nd(c: Context) -> None:
    """By indices of several axes."""
    _need_depth(c)
    batch = c.attr("batch_dims", 0)
    more = f", batch_dims={batch}" if batch else ""
    c.emit(f"{c.helper('gather_nd')}({c.arg(0)}, {c.arg(1)}{more})")


def _reduction(c: Context) -> str:
    how = c.attr("reduction", "none")
    return f', reduction="{how}"' if how != "none" else ""


@op("ScatterElements")
def scatter_elements(c: Context) -> None:
    """Put where one index each says."""
    told = f"axis={c.attr('axis', 0)}{_reduction(c)}"
    c.emit(f"{c.helper('scatter_elements')}({c.arg(0)}, {c.arg(1)}, {c.arg(2)}, {told})")


@op("ScatterND")
def scatter_nd(c: Context) -> None:
    """Put where indices of several axes say."""
    _need_depth(c)
    told = f"{c.arg(0)}, {c.arg(1)}, {c.arg(2)}{_reduction(c)}"
    c.emit(f"{c.helper('scatter_nd')}({told})")


@op("NonZero")
def non_zero(c: Context) -> None:
    """None: how many there are hangs on values."""
    raise Refused(COMPUTED, "cut the model before it (--output)")


@op("Compress")
def compress(c: Context) -> None:
    """Where a constant mask is true."""
    axis, mask = c.attr("axis"), c.array(1)
    if mask is None:
        raise Refused(COMPUTED, "make the condition constant")
    x = c.arg(0) if axis is not None else f"ops.reshape({c.arg(0)}, (-1,))"
    places = [at for at, kept in enumerate(mask.reshape(-1).tolist()) if kept]
    c.emit(f"ops.take({x}, {places}, axis={axis or 0})")


@op("OneHot")
def one_hot(c: Context) -> None:
    """One of two values where an index says."""
    (depth,) = need_sizes(c, 1)
    told = f"{c.arg(0)}, {c.element(depth)}, {c.arg(2)}, axis={c.attr('axis', -1)}"
    keras_type(c.dtype(2))
    c.emit(f"{c.helper('pick')}({told})")


@op("ReverseSequence")
def reverse_sequence(c: Context) -> None:
    """Each from its own length on."""
    time, batch = c.attr("time_axis", 0), c.attr("batch_axis", 1)
    told = f"{c.arg(0)}, {c.arg(1)}, time={time}, batch={batch}"
    c.emit(f"{c.helper('reverse_sequence')}({told})")
