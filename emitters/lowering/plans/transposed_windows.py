"""Windows of transposed convolutions: what their attributes cut from the whole, and add to it.

The whole of a transposed convolution is (size - 1) * stride + reach elements an axis. ONNX cuts
padding from both ends of it, or adds zeros to its end where ``output_padding`` is larger.

Source: the operator page ``ConvTranspose``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir

from converter.ir.attributes import ints, text
from converter.ir.dims import number_of, numbers_of
from converter.ir.refused import Refused
from converter.ir.windows import FREE_KERNEL


@dataclass(frozen=True)
class TransposedWindow:
    """A transposed convolution's numbers, for each spatial axis.

    Attributes:
        kernel, strides, dilations: As the node has them.
        cut: Elements cut from the start of the whole.
        added: Elements added to its end; cut from it, where negative.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    cut: tuple[int, ...]
    added: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """From the first to the last element under the kernel."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def transposed_window_of(
    node: onnx_ir.Node, dims: Sequence[object], kernel: Sequence[object]
) -> TransposedWindow:
    """A node's numbers. With ``output_shape`` or ``auto_pad``, padding follows from the output's
    size: (size - 1) * stride + output_padding + reach - output, a half of it on each side.

    Args:
        node: With ``strides``, ``dilations``, ``pads``, ``auto_pad``, ``output_padding``,
            ``output_shape``.
        dims: Of its input's spatial axes; what isn't a number is free.
        kernel: Its size, for each spatial axis.

    Raises:
        Refused: A size that the padding follows from isn't known, or padding is negative.
    """
    known = numbers_of(kernel)
    if known is None or len(known) != len(dims):
        raise Refused(*FREE_KERNEL)
    count = len(known)
    strides = ints(node, "strides", [1] * count)
    dilations = ints(node, "dilations", [1] * count)
    more = ints(node, "output_padding", [0] * count)
    mode = text(node, "auto_pad", "NOTSET")
    pads = ints(node, "pads", [0] * (2 * count)) if mode == "NOTSET" else [0] * (2 * count)
    wanted = ints(node, "output_shape", [])
    cut, added = [], []
    for axis, dim in enumerate(dims):
        reach = (known[axis] - 1) * dilations[axis] + 1
        before, after = pads[axis], pads[axis + count]
        if wanted or mode in ("SAME_UPPER", "SAME_LOWER"):
            target = wanted[axis - count] if wanted else None
            total = _total(dim, strides[axis], reach + more[axis], target)
            small = max(total, 0) // 2
            before = small if mode == "SAME_UPPER" else max(total, 0) - small
            after = total - before
        cut.append(before)
        added.append(more[axis] - after)
    if min(cut) < 0:
        raise Refused("negative pads", "pad the output by a Pad instead")
    return TransposedWindow(
        tuple(known), tuple(strides), tuple(dilations), tuple(cut), tuple(added)
    )


def _total(dim: object, stride: int, reach: int, target: int | None) -> int:
    """Padding for an output of ``target`` elements, or of size * stride; below 0, that many are
    added to the end."""
    size = number_of(dim)
    if target is None:
        return max(reach - stride, 0)
    if size is None:
        raise Refused(f"an output_shape of a free dimension ({dim})", "fix it (--input NAME:DIMS)")
    return (size - 1) * stride + reach - target
