"""GridSample: which pixels are added up for a place, and AffineGrid: the places.

Source: the operators' pages, and ONNX Runtime's ``grid_sample.cc`` where those leave it open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from emitters.lowering.attributes import number, text
from emitters.lowering.dims import numbers_of
from emitters.lowering.plans.resize_rules import N, Sample, cubic_weights
from emitters.lowering.refused import Refused

Array = np.ndarray[Any, Any]


# -- GridSample --------------------------------------------------------------------------


@dataclass(frozen=True)
class GridRule:
    """The attributes of a GridSample.

    Attributes:
        mode: nearest, linear or cubic.
        padding: ``padding_mode``: zeros, border or reflection.
        corners: Whether -1 and 1 are the centres of the outermost pixels, not their edges.
    """

    mode: str
    padding: str
    corners: bool


def grid_rule_of(node: onnx_ir.Node) -> GridRule:
    """A node's attributes; older opsets' ``bilinear`` and ``bicubic`` among the modes."""
    mode = text(node, "mode", "linear").removeprefix("bi")
    padding = text(node, "padding_mode", "zeros")
    return GridRule(mode, padding, number(node, "align_corners", 0) == 1)


def in_pixels(rule: GridRule, place: N, size: N) -> N:
    """Where -1 ... 1 is among pixels."""
    if rule.corners:
        return (place + 1.0) / 2.0 * (size - 1.0)
    return ((place + 1.0) * size - 1.0) / 2.0


def samples_at(rule: GridRule, where: N, size: N, one: N) -> list[Sample[N]]:
    """The pixels along one axis that are added for each place, and their weights. Each pixel's
    index is reflected or cut by itself, as in ``grid_sample.cc``.

    Args:
        rule: The node's.
        where: Places among pixels.
        size: The axis's.
        one: The number 1.
    """
    around, last = _around(rule.mode, where, one), size - 1.0
    return [_inside(rule, sample, size, last) for sample in around]


def _around(mode: str, where: N, one: N) -> list[Sample[N]]:
    if mode == "nearest":
        return [Sample(where.round(), one)]
    low = where.floor()
    part = where - low
    if mode == "linear":
        return [Sample(low, 1.0 - part), Sample(low + 1.0, part)]
    weights = cubic_weights(part, -0.75)
    return [Sample(low + (i - 1.0), weight) for i, weight in enumerate(weights)]


def _inside(rule: GridRule, sample: Sample[N], size: N, last: N) -> Sample[N]:
    """A sample with an index inside the image."""
    index, weight = sample.index, sample.weight
    inside = _reflected(rule, index, size) if rule.padding == "reflection" else index
    inside = inside.at_least(0.0).at_most(last)
    if rule.padding == "zeros":
        weight = weight * _magnitude(index - inside).is_at_most(0.5)
    return Sample(inside, weight)


def _reflected(rule: GridRule, index: N, size: N) -> N:
    """An index thrown back at both borders, again and again: half a pixel outside, or at the
    centre of the outermost ones."""
    low = 0.0 if rule.corners else -0.5
    span = (size - 1.0 if rule.corners else size).at_least(1.0)
    away = _magnitude(index - low)
    turns = (away / span).floor()
    rest = away - turns * span
    odd = turns - (turns / 2.0).floor() * 2.0
    return rest + odd * (span - rest * 2.0) + low


def _magnitude(x: N) -> N:
    return x.__abs__()  # abs() gives mypy a Formula, not an N


# -- AffineGrid --------------------------------------------------------------------------


def affine_dims(size: Array | None, shape: Sequence[object]) -> list[int]:
    """The sizes of an AffineGrid's image.

    Args:
        size: The node's input of that name, where it is constant.
        shape: What the output is declared to have; what isn't a number is free.

    Raises:
        Refused: They aren't known.
    """
    dims = numbers_of(shape[1:-1]) if size is None else [int(n) for n in size[2:]]
    if dims is None:
        raise Refused("an AffineGrid whose size is computed", "fix it with --input NAME:DIMS")
    return dims


def affine_places(node: onnx_ir.Node, dims: Sequence[int]) -> Array:
    """(x, y, 1) or (x, y, z, 1) of each pixel in -1 ... 1: [axes + 1, pixels], float64.

    Args:
        node: With ``align_corners``.
        dims: The image's sizes.

    Raises:
        Refused: Runtimes disagree on what is asked for.
    """
    corners = number(node, "align_corners", 0) == 1
    if corners and 1 in dims:
        raise Refused(
            "an AffineGrid with align_corners and one pixel along an axis, where runtimes"
            " disagree: it is -1, 0 or 1",
            "export it with align_corners off",
        )
    axes = [
        np.linspace(-1, 1, size) if corners else (2 * np.arange(size) + 1) / size - 1
        for size in dims
    ]
    rows = [place.ravel() for place in np.meshgrid(*axes, indexing="ij")[::-1]]
    return np.stack([*rows, np.ones_like(rows[0])])
