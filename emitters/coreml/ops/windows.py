"""Windows of convolutions and poolings: their attributes, and their padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir

from emitters.coreml import sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.sizing import Size
from emitters.lowering.attributes import ints, number, text
from emitters.lowering.refused import Refused


@dataclass(frozen=True)
class Window:
    """The window of a convolution or pooling over the spatial axes.

    Attributes:
        kernel, strides, dilations: A number for each spatial axis.
        before, after: Padding, for each spatial axis.
        auto: SAME_UPPER, or SAME_LOWER where sizes that aren't known decide ``before`` and
            ``after``, which are nothing then; else empty.
        extra: For each spatial axis, what ``ceil_mode`` adds behind ``after``.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    auto: str = ""
    extra: tuple[int, ...] = ()

    @property
    def reach(self) -> tuple[int, ...]:
        """From the first to the last element under the kernel, for each spatial axis."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def ends(self) -> tuple[int, ...]:
        """``after`` with what ceil_mode adds."""
        extra = self.extra or (0,) * len(self.after)
        return tuple(a + e for a, e in zip(self.after, extra, strict=True))

    @property
    def is_dilated(self) -> bool:
        """Whether the kernel leaves elements out."""
        return any(d != 1 for d, k in zip(self.dilations, self.kernel, strict=True) if k != 1)

    @property
    def is_padded(self) -> bool:
        """Whether there is any padding in numbers."""
        return any(self.before) or any(self.ends)

    @property
    def pad(self) -> list[int]:
        """MIL's ``pad``: before and after, axis by axis."""
        return [n for pair in zip(self.before, self.ends, strict=True) for n in pair]

    def bare(self) -> Window:
        """The window over what is padded already."""
        nothing = (0,) * len(self.kernel)
        return Window(self.kernel, self.strides, self.dilations, nothing, nothing)


def window_of(node: onnx_ir.Node, dims: Sequence[Any], kernel: Sequence[Any]) -> Window:
    """A node's window, with its padding in numbers where that can be.

    Args:
        node: With ``strides``, ``dilations``, ``pads``, ``auto_pad``, ``ceil_mode``.
        dims: Of its input's spatial axes, as a variable has them.
        kernel: Its size, for each spatial axis.

    Raises:
        Refused: The kernel's size isn't known, or padding is negative.
    """
    known = sizing.numbers(kernel)
    if known is None:
        raise Refused("a kernel of free dimensions", "fix them with --input NAME:DIMS")
    count = len(known)
    pads = ints(node, "pads", [0] * (2 * count))
    mode = text(node, "auto_pad", "NOTSET")
    if mode != "NOTSET":
        pads = [0] * (2 * count)
    if min(pads) < 0:
        raise Refused("negative pads", "cut the input by a Slice instead")
    window = Window(
        tuple(known),
        tuple(ints(node, "strides", [1] * count)),
        tuple(ints(node, "dilations", [1] * count)),
        tuple(pads[:count]),
        tuple(pads[count:]),
    )
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return _same(window, dims, mode)
    if number(node, "ceil_mode", 0):
        return replace(window, extra=_extra(window, dims))
    return window


def _same(window: Window, dims: Sequence[Any], mode: str) -> Window:
    """With the padding that gives ceil(size / stride) elements, in numbers where they are known:
    a stride of 1 pads by the kernel alone."""
    if any(free(dim) and s != 1 for dim, s in zip(dims, window.strides, strict=True)):
        return replace(window, auto=mode)
    before, after = [], []
    for dim, s, reach in zip(dims, window.strides, window.reach, strict=True):
        total = reach - 1 if free(dim) else max((-(-int(dim) // s) - 1) * s + reach - int(dim), 0)
        small, large = total // 2, total - total // 2
        before.append(small if mode == "SAME_UPPER" else large)
        after.append(large if mode == "SAME_UPPER" else small)
    return replace(window, before=tuple(before), after=tuple(after))


def _extra(window: Window, dims: Sequence[Any]) -> tuple[int, ...]:
    """What ceil_mode adds at the end: room for one more window, that starts before the padding
    behind the data. Where the size isn't known, as much as can be needed, which gives the same
    windows."""
    found = []
    for axis, dim in enumerate(dims):
        stride, reach, after = window.strides[axis], window.reach[axis], window.after[axis]
        room = max(min(stride - 1, reach - 1 - after), 0)
        if not free(dim):
            whole = int(dim) + window.before[axis] + after
            count = (whole + room - reach) // stride + 1
            room = max((count - 1) * stride + reach - whole, 0)
        found.append(room)
    return tuple(found)


def settled(context: Context, x: Var, window: Window, value: float = 0.0) -> tuple[Var, Window]:
    """``x`` and its window without ``auto``: padding that sizes at run time decide is put around
    ``x``, which is of floats, as ``value``."""
    if not window.auto:
        return x, window
    pads: list[Size] = [0] * 4
    for axis, (stride, reach) in enumerate(zip(window.strides, window.reach, strict=True)):
        pads += _same_pads(context, sizing.size(context, x, axis + 2), stride, reach, window.auto)
    return padded(context, x, pads, value), window.bare()


def _same_pads(context: Context, size: Size, stride: int, reach: int, mode: str) -> list[Size]:
    """max((ceil(size / stride) - 1) * stride + reach - size, 0), a half of it on each side."""

    def of(kind: str, a: Size, b: Size) -> Size:
        return sizing.compute(context, kind, a, b)

    count = of("floor_div", of("add", size, stride - 1), stride)
    whole = of("add", of("mul", count, stride), reach - stride)
    total = of("maximum", of("sub", whole, size), 0)
    small = of("floor_div", total, 2)
    large = of("sub", total, small)
    return [small, large] if mode == "SAME_UPPER" else [large, small]


def padded(context: Context, x: Var, pads: Sequence[Size], value: float) -> Var:
    """``x``, of floats, with ``value`` around it.

    Args:
        context: Where it is computed.
        x: The variable.
        pads: Before and after, axis by axis.
        value: In the type of ``x``.
    """
    if all(not free(n) and n == 0 for n in pads):
        return x
    return context.op(
        "pad",
        x=x,
        pad=sizing.vector(context, pads),
        mode="constant",
        constant_val=context.number(value, x),
    )


def bordered(context: Context, x: Var, window: Window, value: float) -> Var:
    """``x`` [N, C, ...] with the window's padding around it."""
    x, window = settled(context, x, window, value)
    return padded(context, x, [0, 0, 0, 0, *window.pad], value)


def under(context: Context, x: Var, window: Window, axis: int, place: int) -> Var:
    """What lies under one place of the kernel along a spatial axis, for each window.

    Args:
        context: Where it is computed.
        x: [N, C, ...], padded.
        window: Its padding isn't looked at.
        axis: Which spatial axis.
        place: Which element of the kernel.
    """
    rank = len(x.shape)
    begin, end, stride = [0] * rank, [0] * rank, [1] * rank
    begin[axis + 2] = place * window.dilations[axis]
    stride[axis + 2] = window.strides[axis]
    behind = window.reach[axis] - 1 - begin[axis + 2]
    end[axis + 2] = -behind
    masks = [not (a == axis + 2 and behind) for a in range(rank)]
    return context.op(
        "slice_by_index",
        x=x,
        begin=np.asarray(begin, np.int32),
        end=np.asarray(end, np.int32),
        stride=np.asarray(stride, np.int32),
        begin_mask=[a != axis + 2 for a in range(rank)],
        end_mask=masks,
    )
