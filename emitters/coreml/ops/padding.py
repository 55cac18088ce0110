"""Pad.

``pad`` takes floats, paddings that are constant (of more than one axis its computed ones fail when
Core ML runs them) and, but for constants, the last two axes. For all else each place along an axis
is taken from an index, i from -before to n + after:

    edge      min(max(i, 0), n - 1)
    wrap      i mod n
    reflect   |(i + n - 1) mod (2 n - 2) - (n - 1)|
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir

from converter.graph.attributes import text
from emitters.coreml import sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.ops.gathering import gathered
from emitters.coreml.ops.slicing import Cut, cut
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import Size
from emitters.coreml.types import Array
from emitters.lowering.refused import Refused

Border = tuple[Size, Size]
"""How many elements come before and after."""

_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}


@lowers("Pad")
def pad(context: Context, node: onnx_ir.Node) -> None:
    """See the module. Negative padding cuts, first."""
    x = context.var(node.inputs[0])
    axes = context.given(node, 3, "axes")
    chosen = range(len(x.shape)) if axes is None else [int(a) % len(x.shape) for a in axes.ravel()]
    given = sizing.elements(context, _pads(context, node))
    if len(given) != 2 * len(chosen):
        raise Refused(f"{len(given)} paddings for {len(chosen)} axes")
    borders = {
        axis: (given[place], given[place + len(chosen)]) for place, axis in enumerate(chosen)
    }
    x, borders = _cropped(context, x, borders)
    mode = text(node, "mode", "constant")
    value = context.optional(node, 2) if mode == "constant" else None
    context.give(node.outputs[0], padded(context, x, borders, mode, value))


def _pads(context: Context, node: onnx_ir.Node) -> Var:
    pads = context.var(node.inputs[1])
    if free(pads.shape[0]):
        raise Refused("paddings whose number isn't known")
    return pads


def _cropped(context: Context, x: Var, borders: dict[int, Border]) -> tuple[Var, dict[int, Border]]:
    """The variable without what negative paddings cut, and the paddings that are left."""
    cuts: dict[int, Cut] = {}
    left: dict[int, Border] = {}
    for axis, (before, after) in borders.items():
        left[axis] = _positive(context, before), _positive(context, after)
        first, last = (_negative(context, item) for item in (before, after))
        begin = None if not free(first) and first == 0 else first
        end = None if not free(last) and last == 0 else last
        if end is not None:
            end = sizing.compute(context, "sub", sizing.size(context, x, axis), end)
        cuts[axis] = Cut(begin, end)
    return cut(context, x, cuts), left


def _positive(context: Context, item: Size) -> Size:
    return sizing.compute(context, "maximum", item, 0)


def _negative(context: Context, item: Size) -> Size:
    """How much a padding cuts; 0 where it doesn't."""
    return sizing.compute(context, "sub", _positive(context, item), item)


def padded(
    context: Context, x: Var, borders: dict[int, Border], mode: str, value: Var | None
) -> Var:
    """A variable with borders.

    Args:
        context: Where it is computed.
        x: The variable.
        borders: By axis; none is negative.
        mode: ONNX's: ``constant``, ``reflect``, ``edge`` or ``wrap``.
        value: Of one element, for ``constant``; None for 0.
    """
    borders = {axis: item for axis, item in borders.items() if item != (0, 0)}
    if not borders:
        return x
    if _pad_does(context, x, borders, mode, value):
        return _by_pad(context, x, borders, mode, value)
    for axis, border in borders.items():
        if mode != "constant":
            x = _by_index(context, x, axis, border, mode)
        elif sizing.numbers(border) is not None:
            x = _by_concat(context, x, axis, border, value)
        else:
            x = _by_select(context, x, axis, border, value)
    return x


def _pad_does(
    context: Context, x: Var, borders: dict[int, Border], mode: str, value: Var | None
) -> bool:
    """Whether MIL's pad takes it."""
    if context.type_of(x) not in ("fp16", "fp32") or mode not in _MODES:
        return False
    if any(sizing.numbers(border) is None for border in borders.values()):
        return False
    if mode == "constant":
        return value is None or value.val is not None
    return all(
        axis >= len(x.shape) - 2 and max(map(int, border)) <= _most(x.shape[axis], mode)
        for axis, border in borders.items()
    )


def _most(size: Any, mode: str) -> float:
    """The widest border that MIL's pad gives an axis. Of a free one the size is 1 at least; what
    is too wide a reflection for it is so in ONNX Runtime and PyTorch too."""
    if mode == "reflect":
        return math.inf if free(size) else int(size) - 1
    return 1 if free(size) else int(size)


def _by_pad(
    context: Context, x: Var, borders: dict[int, Border], mode: str, value: Var | None
) -> Var:
    pads = [int(n) for axis in range(len(x.shape)) for n in borders.get(axis, (0, 0))]
    first = min(borders)
    settings: dict[str, Any] = {"mode": _MODES[mode]}
    if mode == "constant" and value is not None:
        settings["constant_val"] = np.asarray(value.val).reshape(-1)[0]
    else:  # other modes too: coremltools checks its type wherever it moves the operation
        settings["constant_val"] = np.float16(0) if context.type_of(x) == "fp16" else np.float32(0)
    return context.op("pad", x=x, pad=np.asarray(pads[2 * first :], np.int32), **settings)


def _by_concat(context: Context, x: Var, axis: int, border: Border, value: Var | None) -> Var:
    """Blocks of the value around the variable."""
    blocks = []
    for item in border:
        dims = [item if a == axis else sizing.size(context, x, a) for a in range(len(x.shape))]
        blocks.append(_block(context, dims, context.type_of(x), value) if item else None)
    parts = [part for part in (blocks[0], x, blocks[1]) if part is not None]
    return context.op("concat", values=parts, axis=axis)


def _block(context: Context, dims: Sequence[Size], kind: str, value: Var | None) -> Var:
    if value is None or value.val is not None:
        number = 0 if value is None else np.asarray(value.val).reshape(-1)[0]
        return sizing.filled(context, number, dims, kind)
    one = sizing.reshape(context, value, [1] * len(dims))
    return sizing.broadcast(context, one, dims)


def _by_index(context: Context, x: Var, axis: int, border: Border, mode: str) -> Var:
    """Each place along the axis taken from where the mode says."""
    size = sizing.size(context, x, axis)
    known = sizing.numbers([size, *border])
    if known is not None:
        n, before, after = known
        places = np.arange(-before, n + after)
        index = context.const(_places(places, n, mode).astype(np.int32))
    else:
        index = _computed_places(context, _running(context, size, border), size, mode)
    return gathered(context, "gather", x, index, axis=axis)


def _places(i: Array, n: int, mode: str) -> Array:
    if mode == "edge":
        return np.clip(i, 0, n - 1)
    if mode == "wrap":
        return np.mod(i, n)
    turned: Array = np.mod(i + n - 1, max(2 * n - 2, 1)) - (n - 1)
    return np.abs(turned)


def _running(context: Context, size: Size, border: Border) -> Var:
    """-before, ... up to size + after: int32, of one axis."""
    before, after = border
    total = sizing.compute(context, "add", sizing.compute(context, "add", size, before), after)
    counted = sizing.counted(context, total)
    return context.op("sub", x=counted, y=sizing.vector(context, [before]))


def _computed_places(context: Context, i: Var, size: Size, mode: str) -> Var:
    last = sizing.vector(context, [sizing.compute(context, "sub", size, 1)])
    if mode == "edge":
        low = context.op("maximum", x=i, y=np.int32(0))
        return context.op("minimum", x=low, y=last)
    if mode == "wrap":
        return _remainder(context, i, sizing.vector(context, [size]))
    twice = context.op("mul", x=last, y=np.int32(2))
    period = context.op("maximum", x=twice, y=np.int32(1))
    shifted = _remainder(context, context.op("add", x=i, y=last), period)
    return context.op("abs", x=context.op("sub", x=shifted, y=last))


def _remainder(context: Context, i: Var, n: Any) -> Var:
    """``i mod n``, at least 0: floor_div rounds down."""
    whole = context.op("floor_div", x=i, y=n)
    return context.op("sub", x=i, y=context.op("mul", x=whole, y=n))


def _by_select(context: Context, x: Var, axis: int, border: Border, value: Var | None) -> Var:
    """The value wherever the index lies outside."""
    size = sizing.size(context, x, axis)
    index = _running(context, size, border)
    inner = _computed_places(context, index, size, "edge")
    near = gathered(context, "gather", x, inner, axis=axis)
    inside = context.op("equal", x=index, y=inner)
    after = len(x.shape) - 1 - axis
    if after:
        inside = context.op("expand_dims", x=inside, axes=list(range(1, 1 + after)))
    other = _block(context, [1] * len(x.shape), context.type_of(x), value)
    return context.op("select", cond=inside, a=near, b=other)
