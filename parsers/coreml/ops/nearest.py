"""Images resized by repeating pixels or leaving them out: upsample_nearest_neighbor,
resize_nearest_neighbor, and resize where its interpolation is of that kind (``image_resizing``).

The documentation doesn't say which pixel is the nearest. coremltools' tests of the operations do,
by the values that they expect of Core ML:

    upsample_nearest_neighbor    3 pixels by 1.12 are 0 1 2, by 0.67 are 0 1: the one that
                                 i in / out lies in, whatever the factor's fraction was
    resize under DEFAULT         2 pixels made 3 are 0 1 1, and whole factors repeat, as TensorFlow
                                 does with half_pixel_centers (its front end translates that by
                                 both): the one that (i + 0.5) in / out lies in

Of the other sampling modes there are none. They are read where all ways to round what their grids
say take the same pixels. Everything is computed in whole numbers, so that no rounding shows.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import Array, Attribute, Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.sizes import rank as rank_of
from parsers.coreml.values import size_of

FLOAT = onnx_ir.DataType.FLOAT
INT64 = onnx_ir.DataType.INT64

_WIDEST = 1 << 20
"""Pixels of a row up to which those that are taken are listed."""

Target = int | onnx_ir.Value
"""How many pixels a row is to have: a number, or a scalar of int64."""


@reads("upsample_nearest_neighbor")
def upsample_nearest_neighbor(reader: Reader, op: Operation) -> None:
    """Pixels by corners; sizes are rounded down."""
    x = reader.value(op, "x")
    names = ("scale_factor_height", "scale_factor_width")
    factors = [float(reader.setting(op, name, 1)) for name in names]
    if all(factor == int(factor) for factor in factors):
        reader.give(op, _repeated(reader, x, factors))
        return
    for axis, factor in zip((-2, -1), factors, strict=True):
        x = _taken(reader, x, axis, _scaled(reader, x, axis, factor), centers=False)
    reader.give(op, x)


def _repeated(reader: Reader, x: onnx_ir.Value, factors: list[float]) -> onnx_ir.Value:
    """Each pixel of the last axes so many times, a whole number."""
    scales = reader.const([1.0] * (rank_of(x) - len(factors)) + factors, np.float32)
    attributes: dict[str, Attribute] = {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    return reader.node("Resize", [x, None, scales], attributes)


def _scaled(reader: Reader, x: onnx_ir.Value, axis: int, factor: float) -> Target:
    """A size times a factor, in float32 as the factor is, rounded down."""
    size = size_of(x, axis)
    if size is not None:
        return int(np.floor(np.float32(factor) * np.float32(size)))
    free = reader.cast(_size(reader, x, axis), FLOAT)
    scaled = reader.node("Mul", [free, reader.const(factor, np.float32)])
    return reader.int64(reader.node("Floor", [scaled]))


@reads("resize_nearest_neighbor")
def resize_nearest_neighbor(reader: Reader, op: Operation) -> None:
    names = ("target_size_height", "target_size_width")
    sizes: list[Target] = [int(reader.setting(op, name, 1)) for name in names]
    reader.give(op, nearest(reader, reader.value(op, "x"), sizes, "DEFAULT"))


def nearest(reader: Reader, x: onnx_ir.Value, sizes: list[Target], mode: str) -> onnx_ir.Value:
    """The last axes resized by repeating pixels, or leaving some out.

    Args:
        reader: Takes the nodes.
        x: The image; its last axes are resized.
        sizes: Of as many axes, after.
        mode: Core ML's sampling mode.

    Raises:
        Refusal: Which pixels are meant isn't known.
    """
    olds = [size_of(x, axis - len(sizes)) for axis in range(len(sizes))]
    factors = [_whole(old, new) for old, new in zip(olds, sizes, strict=True)]
    known = [factor for factor in factors if factor is not None]
    if len(known) == len(factors) and mode in ("DEFAULT", "UNALIGN_CORNERS"):
        return _repeated(reader, x, known)
    for place, (old, new) in enumerate(zip(olds, sizes, strict=True)):
        axis = place - len(sizes)
        if mode == "DEFAULT":
            x = _taken(reader, x, axis, new, centers=True)
        elif old != new:
            x = _gathered(reader, x, reader.ints(_same(old, new, mode)), axis, new)
    return x


def _whole(old: int | None, new: Target) -> float | None:
    """How often each pixel is repeated; None where that isn't known or no whole number."""
    if not old or not isinstance(new, int) or new % old:
        return None
    return float(new // old)


# -- which pixels ------------------------------------------------------------------------


def _taken(
    reader: Reader, x: onnx_ir.Value, axis: int, new: Target, *, centers: bool
) -> onnx_ir.Value:
    """An axis brought to a size: pixels where the corners or the centers of the new ones lie."""
    old = size_of(x, axis)
    if old is not None and isinstance(new, int) and new <= _WIDEST:
        if old == new:
            return x
        listed = np.arange(new)
        pixels = (2 * listed + 1) * old // (2 * new) if centers else listed * old // new
        return _gathered(reader, x, reader.ints(pixels.tolist()), axis, new)
    count = reader.const(new, np.int64) if isinstance(new, int) else new
    zero, one, two = (reader.const(number, np.int64) for number in (0, 1, 2))
    steps = reader.node("Range", [zero, count, one])
    if centers:
        steps = reader.node("Add", [reader.node("Mul", [steps, two]), one])
        count = reader.node("Mul", [count, two])
    places = reader.node("Div", [reader.node("Mul", [steps, _size(reader, x, axis)]), count])
    return _gathered(reader, x, places, axis, new)


def _same(old: int | None, new: Target, mode: str) -> list[int]:
    """The pixels under another mode, in order, where all ways to round take them.

    Raises:
        Refusal: They don't, or a size is free.
    """
    if old is None or not isinstance(new, int) or new > _WIDEST:
        raise Refusal(f"the documentation doesn't say which pixels are nearest under {mode}")
    steps = np.arange(new)
    ways: list[Array] = []
    if mode == "UNALIGN_CORNERS":
        double = (2 * steps + 1) * old
        ways = [double // (2 * new), (double - 1) // (2 * new)]
    elif mode in ("ALIGN_CORNERS", "STRICT_ALIGN_CORNERS") and new > 1:
        double, whole = 2 * steps * (old - 1), 2 * (new - 1)
        ways = [(double + new - 1) // whole, -((new - 1 - double) // whole)]
    if not ways or not np.array_equal(ways[0], ways[1]):
        raise Refusal(
            f"the documentation doesn't say which pixels are nearest under {mode}, which "
            f"matters for {old} -> {new}",
            "Use the sampling mode DEFAULT, or factors that are whole numbers.",
        )
    return [int(pixel) for pixel in ways[0]]


def _size(reader: Reader, x: onnx_ir.Value, axis: int) -> onnx_ir.Value:
    """An axis's size, a scalar of int64."""
    axis %= rank_of(x)
    shape = reader.node("Shape", [x], {"start": axis, "end": axis + 1}, INT64)
    return reader.node("Squeeze", [shape, reader.ints([0])])


def _gathered(
    reader: Reader, x: onnx_ir.Value, places: onnx_ir.Value, axis: int, new: Target
) -> onnx_ir.Value:
    made = reader.node("Gather", [x, places], {"axis": axis % rank_of(x)})
    assert x.shape is not None
    dims = [dim if isinstance(dim, int) else dim.value for dim in x.shape]
    dims[axis] = new if isinstance(new, int) else None
    made.shape = onnx_ir.Shape(dims)
    return made
