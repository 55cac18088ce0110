"""GridSample and AffineGrid: pixels at places that are computed.

Source: the operators' pages, and ONNX Runtime's ``grid_sample.cc`` where those leave it open: each
pixel's index is reflected or cut by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np
import onnx_ir

from converter.ir.attributes import number, text
from converter.ir.refused import Refused
from converter.passes.legalize.builder import (
    Array,
    Builder,
    DataType,
    Size,
    Value,
    dims,
    rank,
)
from converter.passes.legalize.formulas import Numbers
from converter.passes.legalize.samples import Sample, cubic_weights, flat_index


@dataclass(frozen=True)
class Rule:
    """The attributes of a GridSample.

    Attributes:
        mode: nearest, linear or cubic.
        padding: ``padding_mode``: zeros, border or reflection.
        corners: Whether -1 and 1 are the centres of the outermost pixels, not their edges.
    """

    mode: str
    padding: str
    corners: bool


def rule_of(node: onnx_ir.Node) -> Rule:
    """A node's attributes; ``bilinear`` and ``bicubic`` are opset 16's words."""
    mode = text(node, "mode", "linear").removeprefix("bi")
    corners = number(node, "align_corners", 0) == 1
    return Rule(mode, text(node, "padding_mode", "zeros"), corners)


def grid_sample(b: Builder, node: onnx_ir.Node) -> Value:
    """Gathers of the pixels around each place, times their weights: one for nearest, 2 an axis for
    linear, 4 for cubic."""
    x, grid = node.inputs[:2]
    assert x is not None and grid is not None
    count, rule = rank(x) - 2, rule_of(node)
    if rule.mode not in ("nearest", "linear", "cubic") or (rule.mode == "cubic" and count != 2):
        raise Refused(f"a GridSample of {count} axes with mode {rule.mode}")
    n, channels, *sizes = b.sizes(x)
    wanted = b.sizes(grid)[1:-1]
    points = b.reshape(grid, [n, b.product(wanted), count])
    taps = []
    for axis, size in enumerate(sizes):
        place = b.op("Gather", points, np.asarray(count - 1 - axis), axis=2)  # x comes first
        whole = Numbers.of_size(b, size)
        where = _in_pixels(rule, Numbers(b, place), whole)
        taps.append(_samples(b, rule, where, whole))
    image = b.reshape(x, [n, channels, b.product(sizes)])
    image = b.transpose(image, [0, 2, 1])
    made = _total(b, image, sizes, taps)
    return b.reshape(b.transpose(made, [0, 2, 1]), [n, channels, *wanted])


def _in_pixels(rule: Rule, place: Numbers, size: Numbers) -> Numbers:
    """Where -1 ... 1 is among pixels."""
    if rule.corners:
        return (place + 1.0) / 2.0 * (size - 1.0)
    return ((place + 1.0) * size - 1.0) / 2.0


def _samples(b: Builder, rule: Rule, where: Numbers, size: Numbers) -> list[Sample]:
    """The pixels along one axis that are added for each place, and their weights."""
    if rule.mode == "nearest":
        around = [Sample(where.round(), Numbers(b, 1.0))]
    else:
        low = where.floor()
        part = where - low
        around = [Sample(low, 1.0 - part), Sample(low + 1.0, part)]
        if rule.mode == "cubic":
            weights = cubic_weights(part, -0.75)
            around = [Sample(low + (i - 1.0), weight) for i, weight in enumerate(weights)]
    return [_inside(rule, sample, size) for sample in around]


def _inside(rule: Rule, sample: Sample, size: Numbers) -> Sample:
    """A sample with an index inside the image."""
    index, weight = sample.index, sample.weight
    inside = _reflected(rule, index, size) if rule.padding == "reflection" else index
    inside = inside.at_least(0.0).at_most(size - 1.0)
    if rule.padding == "zeros":
        weight = weight * abs(index - inside).is_at_most(0.5)
    return Sample(inside, weight)


def _reflected(rule: Rule, index: Numbers, size: Numbers) -> Numbers:
    """An index thrown back at both borders, again and again: half a pixel outside, or at the
    centre of the outermost ones."""
    low = 0.0 if rule.corners else -0.5
    span = (size - 1.0 if rule.corners else size).at_least(1.0)
    away = abs(index - low)
    turns = (away / span).floor()
    rest = away - turns * span
    odd = turns - (turns / 2.0).floor() * 2.0
    return rest + odd * (span - rest * 2.0) + low


def _total(b: Builder, image: Value, sizes: Sequence[Size], taps: list[list[Sample]]) -> Value:
    """The weighted sum of pixels [N, P, C] of images [N, pixels, C]; taps are [N, P]."""
    n, each, channels = b.sizes(image)
    pixels = b.reshape(image, [b.product([n, each]), channels])
    first = Numbers.counted(b, n).expanded([1]) * Numbers.of_size(b, each, DataType.INT64)
    total: Value | None = None
    for choice in product(*taps):
        index = flat_index(b, [tap.index for tap in choice], sizes)
        index = index if n == 1 else index + first
        part = b.op("Gather", pixels, index.content, axis=0)
        weight = reduce(lambda one, other: one * other, [tap.weight for tap in choice])
        if weight.array is None or (weight.array != 1).any():
            part = b.op("Mul", part, weight.expanded([2]).of(part.dtype).content)
        total = part if total is None else b.op("Add", total, part)
    assert total is not None
    return total


# -- AffineGrid --------------------------------------------------------------------------


def affine_grid(b: Builder, node: onnx_ir.Node) -> Value:
    """The product of the matrices with the constant places of all pixels."""
    theta, size = node.inputs[0], b.constant(b.input(1))
    assert theta is not None and theta.dtype is not None
    shape = dims(node.outputs[0])[1:-1]
    known = [dim for dim in shape if isinstance(dim, int)]
    if size is None and len(known) < len(shape):
        raise Refused("an AffineGrid whose size is computed", "fix it with --input NAME:DIMS")
    sizes = known if size is None else [int(item) for item in size[2:]]
    places = _places(node, sizes).astype(theta.dtype.numpy())
    made = b.transpose(b.op("MatMul", theta, places), [0, 2, 1])
    return b.reshape(made, [b.size(theta, 0), *sizes, len(sizes)])


def _places(node: onnx_ir.Node, sizes: Sequence[int]) -> Array:
    """(x, y, 1) or (x, y, z, 1) of each pixel in -1 ... 1: [axes + 1, pixels], float64."""
    corners = number(node, "align_corners", 0) == 1
    if corners and 1 in sizes:
        raise Refused(
            "an AffineGrid with align_corners and one pixel along an axis: runtimes "
            "disagree whether that is -1, 0 or 1",
            "export it with align_corners off",
        )
    axes = [
        np.linspace(-1, 1, size) if corners else (2 * np.arange(size) + 1) / size - 1
        for size in sizes
    ]
    rows = [place.ravel() for place in np.meshgrid(*axes, indexing="ij")[::-1]]
    return np.stack([*rows, np.ones_like(rows[0])])


REWRITES = {"AffineGrid": affine_grid, "GridSample": grid_sample}
