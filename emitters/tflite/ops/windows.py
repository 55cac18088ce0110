"""Windows of convolutions and poolings: their attributes, their padding, and spatial axes that
TFLite's kernels of two axes don't have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir

from emitters.lowering.attributes import ints, number
from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Shape, Tensor

SAME, VALID = 0, 1
"""``Padding`` of the schema."""


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
    def is_padded(self) -> bool:
        """Whether there is any padding."""
        return bool(self.auto) or any(self.before) or any(self.ends)

    def of(self, axes: slice) -> Window:
        """The window over some of the spatial axes."""
        return Window(
            self.kernel[axes], self.strides[axes], self.dilations[axes],
            self.before[axes], self.after[axes], self.auto, self.extra[axes],
        )  # fmt: skip

    def lifted(self) -> Window:
        """The window over one more spatial axis, of one element, before the others."""
        return Window(
            (1, *self.kernel), (1, *self.strides), (1, *self.dilations),
            (0, *self.before), (0, *self.after), self.auto, (0, *self.extra) if self.extra else (),
        )  # fmt: skip


def window_of(
    node: onnx_ir.Node, sizes: Sequence[int | str], kernel: Sequence[int | str]
) -> Window:
    """A node's window, with its padding in numbers where that can be.

    Args:
        node: With ``strides``, ``dilations``, ``pads``, ``auto_pad``, ``ceil_mode``.
        sizes: Of its input's spatial axes.
        kernel: Its size, for each spatial axis.
    """
    known = tuple(dim for dim in kernel if isinstance(dim, int))
    if len(known) != len(kernel):
        raise Refused("a kernel of free dimensions")
    count = len(known)
    pads = ints(node, "pads", [0] * (2 * count))
    auto = node.attributes.get("auto_pad")
    mode = auto.as_string() if auto is not None else "NOTSET"
    if mode == "VALID":
        pads = [0] * (2 * count)
    if min(pads) < 0:
        raise Refused("negative pads", "cut the input by a Slice instead")
    window = Window(
        known,
        tuple(ints(node, "strides", [1] * count)),
        tuple(ints(node, "dilations", [1] * count)),
        tuple(pads[:count]),
        tuple(pads[count:]),
    )
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return _same(window, sizes, mode)
    if number(node, "ceil_mode", 0):
        return replace(window, extra=_extra(window, sizes))
    return window


def _same(window: Window, sizes: Sequence[int | str], mode: str) -> Window:
    """With the padding that gives ceil(size / stride) elements, in numbers where they are known:
    a stride of 1 pads by the kernel alone."""
    nothing = (0,) * len(sizes)
    if any(isinstance(size, str) and s != 1 for size, s in zip(sizes, window.strides, strict=True)):
        return replace(window, before=nothing, after=nothing, auto=mode)
    before, after = [], []
    for size, s, reach in zip(sizes, window.strides, window.reach, strict=True):
        total = _total(size, s, reach)
        small, large = total // 2, total - total // 2
        before.append(small if mode == "SAME_UPPER" else large)
        after.append(large if mode == "SAME_UPPER" else small)
    return replace(window, before=tuple(before), after=tuple(after))


def _total(size: int | str, stride: int, reach: int) -> int:
    """Padding before and after for ceil(size / stride) elements."""
    if isinstance(size, str):
        return reach - 1
    return max((-(-size // stride) - 1) * stride + reach - size, 0)


def _extra(window: Window, sizes: Sequence[int | str]) -> tuple[int, ...]:
    """What ceil_mode adds at the end: room for one more window, that starts before the padding
    behind the data. Where the size isn't known, as much as can be needed, which gives the same
    windows."""
    found = []
    for axis, size in enumerate(sizes):
        stride, reach, after = window.strides[axis], window.reach[axis], window.after[axis]
        room = max(min(stride - 1, reach - 1 - after), 0)
        if isinstance(size, int):
            whole = size + window.before[axis] + after
            count = (whole + room - reach) // stride + 1
            room = max((count - 1) * stride + reach - whole, 0)
        found.append(room)
    return tuple(found)


def is_same(sizes: Sequence[int | str], window: Window) -> bool:
    """Whether TensorFlow's SAME pads as the window does."""
    if window.auto:
        return window.auto == "SAME_UPPER"
    for axis, size in enumerate(sizes):
        stride = window.strides[axis]
        if isinstance(size, str) and stride != 1:
            return False
        total = _total(size, stride, window.reach[axis])
        if (window.before[axis], window.ends[axis]) != (total // 2, total - total // 2):
            return False
    return True


def padded(context: Context, x: Tensor, window: Window, value: float = 0.0) -> tuple[Tensor, int]:
    """``x`` [N, ..., C] as the window needs it, and the schema's padding: SAME where that is the
    same."""
    if not window.is_padded:
        return x, VALID
    if is_same(x.shape[1:-1], window):
        return x, SAME
    return bordered(context, x, window, value), VALID


def bordered(context: Context, x: Tensor, window: Window, value: float = 0.0) -> Tensor:
    """``x`` [N, ..., C] with the window's padding around it, of ``value``."""
    if window.auto:
        return _bordered_at_run_time(context, x, window, value)
    return build.pad(context, x, [0, *window.before, 0], [0, *window.ends, 0], value)


def _bordered_at_run_time(context: Context, x: Tensor, window: Window, value: float) -> Tensor:
    """Padding that follows from sizes at run time:

    total = max((ceil(size / stride) - 1) * stride + reach - size, 0), a half of it on each side.
    """
    rows = [context.integers([0, 0])]
    for axis, size in enumerate(x.shape[1:-1]):
        stride, reach = window.strides[axis], window.reach[axis]
        if isinstance(size, int):
            total = _total(size, stride, reach)
            small, large = total // 2, total - total // 2
            upper = window.auto == "SAME_UPPER"
            rows.append(context.integers([small, large] if upper else [large, small]))
        else:
            rows.append(_same_row(context, context.size(size), stride, reach, window.auto))
    rows.append(context.integers([0, 0]))
    joined = context.emit(
        "CONCATENATION", rows, (2 * x.rank,), DataType.INT32,
        options={"axis": 0, "fusedActivationFunction": 0},
    )  # fmt: skip
    pads = build.reshape(context, joined, (x.rank, 2))
    places = zip(x.shape[1:-1], window.strides, window.reach, strict=True)
    inner = [
        size + _total(size, s, reach) if isinstance(size, int) else f"{size} padded"
        for size, s, reach in places
    ]
    shape: Shape = (x.shape[0], *inner, x.shape[-1])
    if x.quant is not None:
        stored = round(value / float(x.quant.scale[0])) + int(x.quant.zero_point[0])
        fill = context.constant(np.asarray([stored], x.dtype.numpy()), quant=x.quant)
        return context.emit("PADV2", [x, pads, fill], shape, quant=x.quant)
    return context.emit("PADV2", [x, pads, build.scalar(context, value, x)], shape)


def _same_row(context: Context, size: Tensor, stride: int, reach: int, mode: str) -> Tensor:
    """[before, after] of one axis, int32."""

    def number_of(op: str, a: Tensor, b: int) -> Tensor:
        return build.binary(context, op, a, context.integers([b]))

    count = number_of("FLOOR_DIV", number_of("ADD", size, stride - 1), stride)
    needed = number_of("ADD", number_of("MUL", count, stride), reach - stride)
    total = number_of("MAXIMUM", build.binary(context, "SUB", needed, size), 0)
    small = number_of("FLOOR_DIV", total, 2)
    large = build.binary(context, "SUB", total, small)
    return context.emit(
        "CONCATENATION", [small, large] if mode == "SAME_UPPER" else [large, small], (2,),
        DataType.INT32, options={"axis": 0, "fusedActivationFunction": 0},
    )  # fmt: skip


def count_along(size: int | str, axis: int, window: Window) -> int | str:
    """How many windows there are along a spatial axis of ``size`` elements without padding."""
    stride, reach = window.strides[axis], window.reach[axis]
    if window.auto:
        return -(-size // stride) if isinstance(size, int) else f"{size}/{stride}"
    added = window.before[axis] + window.ends[axis]
    if isinstance(size, int):
        return (size + added - reach) // stride + 1
    if stride == 1 and added == reach - 1:
        return size
    return f"({size}{added - reach:+})/{stride}+1"


# -- one spatial axis as two -------------------------------------------------------------


def lifted(context: Context, x: Tensor) -> Tensor:
    """[N, L, C] as [N, 1, L, C]: a RESHAPE, which joins its neighbours; an EXPAND_DIMS where that
    would need sizes at run time."""
    return with_axis(context, x, 1)


def with_axis(context: Context, x: Tensor, axis: int) -> Tensor:
    """``x`` with an axis of one element before ``axis``."""
    shape = (*x.shape[:axis], 1, *x.shape[axis:])
    if _reshapes(x.shape):
        return build.reshape(context, x, shape)
    place = context.constant(np.asarray(axis, np.int32))
    return context.emit("EXPAND_DIMS", [x, place], shape, quant=x.quant)


def lowered_back(context: Context, x: Tensor) -> Tensor:
    """[N, 1, L, C] as [N, L, C]."""
    shape = (x.shape[0], *x.shape[2:])
    if _reshapes(shape):
        return build.reshape(context, x, shape)
    options = {"squeezeDims": np.asarray([1], np.int32)}
    return context.emit("SQUEEZE", [x], shape, quant=x.quant, options=options)


def _reshapes(shape: Shape) -> bool:
    return sum(isinstance(dim, str) for dim in shape) <= 1 and 0 not in shape
