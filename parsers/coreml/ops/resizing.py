"""Sizes of images: upsample_bilinear, resize_bilinear, resize, crop (``image_resizing``).

What lies at output ``i`` is sampled at a place of the input that a sampling mode says; each has
its name in ONNX (``coordinate_transformation_mode``):

    STRICT_ALIGN_CORNERS  i (in - 1) / (out - 1)           align_corners
    ALIGN_CORNERS         the same; of one pixel the middle  align_corners; half_pixel
    DEFAULT               i in / out                       asymmetric
    UNALIGN_CORNERS       (i + 0.5) in / out - 0.5         half_pixel
    OFFSET_CORNERS        (i + 0.5) max(1, in - 1) / out   none: interpolated by Gather
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.ops.nearest import Target, nearest
from parsers.coreml.reader import Attribute, Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.sizes import rank as rank_of
from parsers.coreml.values import size_of

INT64 = onnx_ir.DataType.INT64
FLOAT = onnx_ir.DataType.FLOAT

_PLACES = {
    "STRICT_ALIGN_CORNERS": "align_corners",
    "ALIGN_CORNERS": "align_corners",
    "DEFAULT": "asymmetric",
    "UNALIGN_CORNERS": "half_pixel",
}


@reads("upsample_bilinear")
def upsample_bilinear(reader: Reader, op: Operation) -> None:
    """Resize to sizes rounded down, which the step between pixels follows from."""
    align = bool(reader.setting(op, "align_corners", True))
    half = bool(reader.setting(op, "half_pixel_centers", not align))
    if align and half:
        raise Refusal("align_corners together with half_pixel_centers")
    mode = "STRICT_ALIGN_CORNERS" if align else "UNALIGN_CORNERS" if half else "DEFAULT"
    x, factors = reader.value(op, "x"), _factors(reader, op)
    sizes = [_scaled(size_of(x, axis), factors[axis]) for axis in (-2, -1)]
    if None not in sizes:
        reader.give(op, linear(reader, x, [size or 0 for size in sizes], mode))
        return
    free = _scaled_sizes(reader, x, factors)
    reader.give(op, _resize(reader, x, free, [-2, -1], mode))


def _factors(reader: Reader, op: Operation) -> list[float]:
    """For height and width."""
    names = ("scale_factor_height", "scale_factor_width")
    return [float(reader.setting(op, name, 1)) for name in names]


def _scaled(size: int | None, factor: float) -> int | None:
    return None if size is None else int(np.floor(np.float32(factor) * size))


def _scaled_sizes(reader: Reader, x: onnx_ir.Value, factors: list[float]) -> onnx_ir.Value:
    """The sizes of a result whose input's are free, computed when the model runs."""
    sizes = reader.node("Shape", [x], {"start": -2}, INT64)
    scaled = reader.node("Mul", [reader.cast(sizes, FLOAT), reader.const(factors, np.float32)])
    return reader.int64(reader.node("Floor", [scaled]))


@reads("resize_bilinear")
def resize_bilinear(reader: Reader, op: Operation) -> None:
    """Resize to given sizes."""
    sizes = _targets(reader, op)
    mode = str(reader.setting(op, "sampling_mode", "DEFAULT"))
    reader.give(op, linear(reader, reader.value(op, "x"), sizes, mode))


def _targets(reader: Reader, op: Operation) -> list[int]:
    names = ("target_size_height", "target_size_width")
    return [int(reader.setting(op, name, 1)) for name in names]


@reads("resize")
def resize(reader: Reader, op: Operation) -> None:
    """Resize of the last axes, to sizes that may be computed; a 0 keeps the input's."""
    x, count = reader.value(op, "x"), int(reader.setting(op, "resized_dims"))
    mode = str(reader.setting(op, "sampling_mode", "DEFAULT"))
    kind = reader.setting(op, "interpolation_mode", "LINEAR")
    if kind == "LINEAR" and x.dtype is not None and x.dtype.is_integer():
        raise Refusal("linear interpolation of integers: its rounding isn't documented")
    if count == 0:
        reader.give(op, reader.node("Identity", [x]))
        return
    sizes = _known_sizes(reader, op, x, count)
    known = [size for size in sizes if size is not None]
    if kind == "NEAREST_NEIGHBOR":
        targets: list[Target] = list(known)
        if len(known) < count:
            free = _sizes(reader, op, x, count)
            places = (reader.const(place, np.int64) for place in range(count))
            targets = [reader.node("Gather", [free, place], {"axis": 0}) for place in places]
        reader.give(op, nearest(reader, x, targets, mode))
    elif kind != "LINEAR":
        raise Refusal(f"interpolation of the kind {kind}")
    elif len(known) == count:
        reader.give(op, linear(reader, x, known, mode))
    else:
        free = _sizes(reader, op, x, count)
        reader.give(op, _resize(reader, x, free, list(range(-count, 0)), mode))


def _known_sizes(reader: Reader, op: Operation, x: onnx_ir.Value, count: int) -> list[int | None]:
    """The last sizes of the shape, the input's where they are 0; None for what isn't known."""
    given = reader.array(op, "shape")
    if given is None:
        return [None] * count
    last = given.reshape(-1)[-count:].tolist()
    axes = range(rank_of(x) - count, rank_of(x))
    return [int(size) or size_of(x, axis) for size, axis in zip(last, axes, strict=True)]


def _sizes(reader: Reader, op: Operation, x: onnx_ir.Value, count: int) -> onnx_ir.Value:
    """The last sizes of a computed shape, the input's where they are 0."""
    shape = reader.int64(reader.value(op, "shape"))
    ends = [reader.ints([-count]), reader.ints([np.iinfo(np.int64).max])]
    last = reader.node("Slice", [shape, *ends])
    own = reader.node("Shape", [x], {"start": -count}, INT64)
    zero = reader.node("Equal", [last, reader.ints([0])], dtype=onnx_ir.DataType.BOOL)
    return reader.node("Where", [zero, own, last], dtype=INT64)


# -- interpolation -----------------------------------------------------------------------


def linear(reader: Reader, x: onnx_ir.Value, sizes: list[int], mode: str) -> onnx_ir.Value:
    """The last axes resized by linear interpolation.

    A result of one pixel is taken from the middle under ALIGN_CORNERS, along that axis alone.

    Args:
        reader: Takes the nodes.
        x: The image; its last axes are resized.
        sizes: Of as many axes, after.
        mode: Core ML's sampling mode.
    """
    first = len(sizes)
    if mode != "ALIGN_CORNERS" or 1 not in sizes:
        return _resize(reader, x, reader.ints(sizes), list(range(-first, 0)), mode)
    for place, size in enumerate(sizes):
        own = "UNALIGN_CORNERS" if size == 1 else mode
        x = _resize(reader, x, reader.ints([size]), [place - first], own)
    return x


def _resize(
    reader: Reader, x: onnx_ir.Value, sizes: onnx_ir.Value, axes: list[int], mode: str
) -> onnx_ir.Value:
    """Resize of neighbouring axes, the sizes of all said: ONNX Runtime 1.31 moves a Transpose
    through one with ``axes``, and loses the sizes."""
    rank = rank_of(x)
    if mode == "OFFSET_CORNERS":
        return _offset_corners(reader, x, sizes, [axis % rank for axis in axes])
    if mode not in _PLACES:
        raise Refusal(f"sampling of the kind {mode}")
    attributes: dict[str, Attribute] = {
        "mode": "linear",
        "coordinate_transformation_mode": _PLACES[mode],
    }
    shape, first = reader.node("Shape", [x], {}, INT64), axes[0] % rank
    parts = [_part(reader, shape, 0, first), sizes, _part(reader, shape, first + len(axes), rank)]
    whole = [part for part in parts if part is not None]
    all_sizes = reader.node("Concat", whole, {"axis": 0}) if len(whole) > 1 else sizes
    made = reader.node("Resize", [x, None, None, all_sizes], attributes)
    made.shape = _resized(x, sizes, axes)
    return made


def _part(reader: Reader, shape: onnx_ir.Value, start: int, end: int) -> onnx_ir.Value | None:
    """Some of a shape; None where that is none of it."""
    limits = [reader.ints([start]), reader.ints([end])]
    return reader.node("Slice", [shape, *limits]) if start < end else None


def _resized(x: onnx_ir.Value, sizes: onnx_ir.Value, axes: list[int]) -> onnx_ir.Shape:
    assert x.shape is not None
    dims: list[int | str | None] = [dim if isinstance(dim, int) else dim.value for dim in x.shape]
    known = None if sizes.const_value is None else sizes.const_value.numpy().tolist()
    for place, axis in enumerate(axes):
        dims[axis] = None if known is None else int(known[place])
    return onnx_ir.Shape(dims)


def _offset_corners(
    reader: Reader, x: onnx_ir.Value, sizes: onnx_ir.Value, axes: list[int]
) -> onnx_ir.Value:
    """Linear interpolation at places half a step from the outer pixels' centers, in float32, one
    axis after the other."""
    assert x.dtype is not None
    made, one = reader.cast(x, FLOAT), reader.const(1.0, np.float32)
    for place, axis in enumerate(axes):
        new = reader.node("Gather", [sizes, reader.const(place, np.int64)], {"axis": 0})
        own = reader.node("Shape", [x], {"start": axis, "end": axis + 1}, INT64)
        last = reader.node("Sub", [own, reader.ints([1])])
        step = reader.node(
            "Div",
            [
                reader.node("Max", [reader.cast(last, FLOAT), one]),
                reader.cast(new, FLOAT),
            ],
        )
        count = [reader.const(0, np.int64), new, reader.const(1, np.int64)]
        halves = reader.node(
            "Add",
            [
                reader.cast(reader.node("Range", count), FLOAT),
                reader.const(0.5, np.float32),
            ],
        )
        made = _between(reader, made, reader.node("Mul", [halves, step]), last, axis)
    made = reader.cast(made, x.dtype)
    made.shape = _resized(x, sizes, axes)
    return made


def _between(
    reader: Reader, x: onnx_ir.Value, places: onnx_ir.Value, last: onnx_ir.Value, axis: int
) -> onnx_ir.Value:
    """x along an axis, interpolated at places of pixels."""
    most = reader.cast(last, FLOAT)
    places = reader.node("Min", [places, most])
    low = reader.node("Floor", [places])
    part = reader.node("Sub", [places, low])
    behind = rank_of(x) - 1 - axis
    if behind:
        part = reader.node("Unsqueeze", [part, reader.ints(list(range(1, behind + 1)))])
    first = reader.int64(low)
    second = reader.node("Min", [reader.node("Add", [first, reader.ints([1])]), last])
    before, after = (reader.node("Gather", [x, index], {"axis": axis}) for index in (first, second))
    before.shape = after.shape = onnx_ir.Shape([None] * rank_of(x))
    difference = reader.node("Sub", [after, before])
    made = reader.node("Add", [before, reader.node("Mul", [difference, part])])
    made.shape = onnx_ir.Shape([None] * rank_of(x))
    return made


@reads("crop")
def crop(reader: Reader, op: Operation) -> None:
    """Slice: so many pixels less at the start and the end of height and width."""
    cuts = [reader.setting(op, "crop_height"), reader.setting(op, "crop_width")]
    starts = reader.ints([int(cut[0]) for cut in cuts])
    most = np.iinfo(np.int64).max
    ends = reader.ints([-int(cut[1]) if cut[1] else most for cut in cuts])
    x = reader.value(op, "x")
    reader.give(op, reader.node("Slice", [x, starts, ends, reader.ints([-2, -1])]))
