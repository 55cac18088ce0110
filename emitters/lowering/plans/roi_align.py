"""RoiAlign: which pixels are added up for the places of a cell.

Source: the operator's page, and ONNX Runtime's ``roialign.cc``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from emitters.lowering.attributes import floating, number, text
from emitters.lowering.plans.resize_rules import N, Sample
from emitters.lowering.refused import Refused

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Regions:
    """The attributes of a RoiAlign.

    Attributes:
        height, width: Cells of a region.
        ratio: Places in a cell along an axis.
        scale: What coordinates are multiplied with.
        half: Whether pixels' centres lie half a pixel behind their numbers.
        largest: Whether a cell gives the maximum, not the mean.
    """

    height: int
    width: int
    ratio: int
    scale: float
    half: bool
    largest: bool


def regions_of(node: onnx_ir.Node) -> Regions:
    """A node's attributes.

    Raises:
        Refused: How many places a cell has depends on each region's size.
    """
    ratio = number(node, "sampling_ratio", 0)
    if ratio <= 0:
        raise Refused("a RoiAlign with sampling_ratio 0", "export it with a fixed sampling_ratio")
    mode = text(node, "coordinate_transformation_mode", "half_pixel")
    return Regions(
        number(node, "output_height", 1),
        number(node, "output_width", 1),
        ratio,
        floating(node, "spatial_scale", 1.0),
        mode == "half_pixel",
        text(node, "mode", "avg") == "max",
    )


def cell_samples(
    regions: Regions,
    ends: tuple[N, N],
    cells: int,
    size: N,
    number_of: Callable[[Array | float], N],
) -> list[Sample[N]]:
    """The two pixels around each place along an axis: [regions, cells * ratio].

    Args:
        regions: The node's attributes.
        ends: Where each region starts and ends: [regions, 1].
        cells: Along the axis.
        size: The image's.
        number_of: Makes the emitter's number of an array.
    """
    start, end = (place * regions.scale - (0.5 if regions.half else 0.0) for place in ends)
    span = end - start
    if not regions.half:
        span = span.at_least(1.0)
    steps = np.arange(cells)[:, None] + (np.arange(regions.ratio) + 0.5) / regions.ratio
    where = start + span / float(cells) * number_of(steps.reshape(1, -1))
    inside = number_of(-1.0).is_at_most(where) * where.is_at_most(size)
    last = size - 1.0
    where = where.at_least(0.0).at_most(last)
    low = where.floor()
    part = where - low
    return [
        Sample(low, (1.0 - part) * inside),
        Sample((low + 1.0).at_most(last), part * inside),
    ]
