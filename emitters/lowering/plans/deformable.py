"""DeformConv: where the elements of the kernel lie, before they are moved.

    y(p) = sum over the kernel's places k of W_k * x(p * stride - pad + k * dilation + offset_k)

where x between elements is bilinear and nothing beyond its edge.

Source: the operator page ``DeformConv``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from emitters.lowering.attributes import number
from emitters.lowering.dims import number_of, numbers_of
from emitters.lowering.plans.windows import Window, window_of
from emitters.lowering.refused import Refused

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Deformation:
    """What is sampled where.

    Attributes:
        size: (H, W) of the input.
        out: (H, W) of the output.
        window: The kernel.
        groups: How many groups of channels have offsets of their own.
        channels: C of the input.
    """

    size: tuple[int, int]
    out: tuple[int, int]
    window: Window
    groups: int
    channels: int

    @property
    def places(self) -> int:
        """Elements of the output."""
        return self.out[0] * self.out[1]

    @property
    def elements(self) -> int:
        """Elements of the kernel."""
        return int(np.prod(self.window.kernel))

    @property
    def each(self) -> int:
        """Channels of a group."""
        return self.channels // self.groups

    def element_places(self, axis: int) -> Array:
        """Where the kernel's elements lie along an axis without offsets: [places, elements]."""
        window = self.window
        starts = np.arange(self.out[axis]) * window.strides[axis] - window.before[axis]
        steps = np.arange(window.kernel[axis]) * window.dilations[axis]
        own = [-1 if a == axis else 1 for a in (0, 1)]
        whole = starts.reshape([*own, 1, 1]) + steps.reshape([1, 1, *own])
        full = np.broadcast_to(whole, (*self.out, *window.kernel))
        return full.reshape(self.places, self.elements)


def deformation_of(
    node: onnx_ir.Node, dims: Sequence[object], channels: object, kernel: Sequence[object]
) -> Deformation:
    """A node's.

    Args:
        node: A DeformConv.
        dims: Of its input's spatial axes; what isn't a number is free.
        channels: Of its input.
        kernel: Its size.

    Raises:
        Refused: There aren't two spatial axes, or a size isn't known.
    """
    if len(dims) != 2:
        raise Refused(f"a DeformConv of {len(dims)} spatial axes: there is one of two")
    window, sizes, count = window_of(node, dims, kernel), numbers_of(dims), number_of(channels)
    if sizes is None or count is None:
        raise Refused("a DeformConv over free dimensions", "fix them (--input NAME:DIMS)")
    pads, reach = zip(window.before, window.after, strict=True), window.reach
    high, wide = (
        (size + sum(pad) - r) // s + 1
        for size, pad, r, s in zip(sizes, pads, reach, window.strides, strict=True)
    )
    groups = number(node, "offset_group", 1)
    return Deformation((sizes[0], sizes[1]), (high, wide), window, groups, count)
