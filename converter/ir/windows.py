"""Windows of convolutions and poolings: what their attributes say, and the padding that follows.

Source: the operator pages ``Conv`` (``auto_pad``) and ``MaxPool`` (``ceil_mode``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx_ir

from converter.ir.attributes import ints, number, text
from converter.ir.dims import dims_of, number_of, numbers_of
from converter.ir.refused import Refused

FREE_KERNEL = ("a kernel of free dimensions", "fix them with --input NAME:DIMS")


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
        """Whether there is any padding."""
        return bool(self.auto) or any(self.before) or any(self.ends)

    @property
    def pad(self) -> list[int]:
        """Padding in numbers, before and after, axis by axis."""
        return [n for pair in zip(self.before, self.ends, strict=True) for n in pair]

    def bare(self) -> Window:
        """The window over what is padded already."""
        nothing = (0,) * len(self.kernel)
        return Window(self.kernel, self.strides, self.dilations, nothing, nothing)

    def of(self, axes: slice) -> Window:
        """The window over some of the spatial axes."""
        return Window(
            self.kernel[axes], self.strides[axes], self.dilations[axes],
            self.before[axes], self.after[axes], self.auto, self.extra[axes],
        )  # fmt: skip

    def lifted(self, *, behind: bool = False) -> Window:
        """The window over one more spatial axis, of one element, before the others or behind."""

        def put(part: tuple[int, ...], own: int) -> tuple[int, ...]:
            return (*part, own) if behind else (own, *part)

        return Window(
            put(self.kernel, 1), put(self.strides, 1), put(self.dilations, 1),
            put(self.before, 0), put(self.after, 0), self.auto,
            put(self.extra, 0) if self.extra else (),
        )  # fmt: skip


def window_of(node: onnx_ir.Node, dims: Sequence[object], kernel: Sequence[object]) -> Window:
    """A node's window, with its padding in numbers where that can be.

    Args:
        node: With ``strides``, ``dilations``, ``pads``, ``auto_pad``, ``ceil_mode``.
        dims: Of its input's spatial axes; what isn't a number is free.
        kernel: Its size, for each spatial axis.

    Raises:
        Refused: The kernel's size isn't known, or padding is negative.
    """
    known = numbers_of(kernel)
    if known is None:
        raise Refused(*FREE_KERNEL)
    count = len(known)
    mode = text(node, "auto_pad", "NOTSET")
    pads = ints(node, "pads", [0] * (2 * count)) if mode == "NOTSET" else [0] * (2 * count)
    if min(pads) < 0:
        raise Refused("negative pads", "cut the input by a Slice instead")
    window = Window(
        tuple(known),
        tuple(ints(node, "strides", [1] * count)),
        tuple(ints(node, "dilations", [1] * count)),
        tuple(pads[:count]),
        tuple(pads[count:]),
    )
    if free_same(node, dims):
        return replace(window, auto=mode)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return _same(window, dims, mode)
    if number(node, "ceil_mode", 0):
        return replace(window, extra=_extra(window, dims))
    return window


def pooling_window(node: onnx_ir.Node) -> Window:
    """The window of a pooling; see :func:`window_of`."""
    return window_of(node, dims_of(node.inputs[0])[2:], ints(node, "kernel_shape", ()))


def free_same(node: onnx_ir.Node, dims: Sequence[object]) -> str:
    """A node's ``auto_pad``, where it is SAME_UPPER or SAME_LOWER and decides the padding by sizes
    that aren't known; else empty."""
    strides, mode = ints(node, "strides", [1] * len(dims)), text(node, "auto_pad", "")
    free = any(number_of(dim) is None and s != 1 for dim, s in zip(dims, strides, strict=True))
    return mode if free and mode.startswith("SAME") else ""


def _same(window: Window, dims: Sequence[object], mode: str) -> Window:
    """With the padding that gives ceil(size / stride) elements, in numbers where they are known:
    a stride of 1 pads by the kernel alone."""
    pairs = [
        halves(same_total(dim, s, reach), mode)
        for dim, s, reach in zip(dims, window.strides, window.reach, strict=True)
    ]
    before, after = zip(*pairs, strict=True)
    return replace(window, before=before, after=after)


def same_total(dim: object, stride: int, reach: int) -> int:
    """Padding before and after together, as SAME asks for: for ceil(size / stride) elements.

    Args:
        dim: The input's size along the axis, in elements; where it isn't a number, a stride of 1 is
            assumed.
        stride: The window's step.
        reach: Elements from the first to the last one under the window.

    Returns:
        Elements.
    """
    size = number_of(dim)
    return reach - 1 if size is None else max((-(-size // stride) - 1) * stride + reach - size, 0)


def halves(total: int, mode: str) -> tuple[int, int]:
    """``auto_pad``'s padding before and after, of both together."""
    small, large = total // 2, total - total // 2
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def _extra(window: Window, dims: Sequence[object]) -> tuple[int, ...]:
    """What ceil_mode adds at the end: room for one more window, that starts before the padding
    behind the data. Where the size isn't known, as much as can be needed, which gives the same
    windows."""
    found = []
    for axis, size in enumerate(map(number_of, dims)):
        stride, reach, after = window.strides[axis], window.reach[axis], window.after[axis]
        room = max(min(stride - 1, reach - 1 - after), 0)
        if size is not None:
            whole = size + window.before[axis] + after
            count = (whole + room - reach) // stride + 1
            room = max((count - 1) * stride + reach - whole, 0)
        found.append(room)
    return tuple(found)


def unpooled(window: Window, dims: Sequence[object]) -> list[int]:
    """The sizes of what a pooling made ``dims`` of: (size - 1) * stride + kernel - pads.

    Raises:
        Refused: One of them is free.
    """
    sizes = numbers_of(dims)
    if sizes is None:
        raise Refused("a MaxUnpool over a free dimension", "fix it (--input NAME:DIMS)")
    places = zip(sizes, window.strides, window.kernel, window.before, window.after, strict=True)
    return [(size - 1) * s + k - before - after for size, s, k, before, after in places]
