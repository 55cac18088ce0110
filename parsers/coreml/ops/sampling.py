"""Images sampled at given places: crop_resize, affine, resample (``image_resizing``).

All become GridSample, which takes places as numbers from -1 to 1: from the outer edges of the
first and the last pixel without ``align_corners``, from their centers with it. They are computed
here in pixels (the first one's center is 0), then scaled, in float32.
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

BOOL = onnx_ir.DataType.BOOL
FLOAT = onnx_ir.DataType.FLOAT
INT64 = onnx_ir.DataType.INT64

_HEIGHT, _WIDTH = 2, 3
_PADDING = {
    "constant": "zeros",
    "border": "border",
    "reflection": "reflection",
    "symmetric": "reflection",
}
_SAMPLING = {"bilinear": "linear", "nearest": "nearest"}


# -- resample and affine -----------------------------------------------------------------


@reads("resample")
def resample(reader: Reader, op: Operation) -> None:
    """GridSample at places of each output pixel, as pairs of x and y.

    Mirrored at the centers of the outer pixels (``reflection``) it is with align_corners, at
    their edges (``symmetric``) without. Places in the middle of two pixels are rounded to the
    even one by ``nearest``, as PyTorch's grid_sample does; MIL leaves it open. It mirrors before
    it rounds, which GridSample does the other way around: that is written out.
    """
    x = reader.value(op, "x")
    places = reader.cast(reader.value(op, "coordinates"), FLOAT)
    mode = str(reader.setting(op, "coordinates_mode"))
    align = bool(reader.setting(op, "align_corners"))
    padding = str(reader.setting(op, "padding_mode"))
    sampling = str(reader.setting(op, "sampling_mode"))
    if padding not in _PADDING or sampling not in _SAMPLING:
        raise Refusal(f"{sampling} sampling with {padding} padding")
    wanted = {"reflection": True, "symmetric": False}.get(padding, align)
    mirrored = sampling == "nearest" and padding in ("reflection", "symmetric")
    if mode != "normalized_minus_one_to_one" or wanted != align or mirrored:
        pixels = _in_pixels(reader, x, places, mode, align)
        if mirrored:
            pixels, padding = _mirrored(reader, x, pixels, padding), "border"
        places = _normalized(reader, pixels, _lengths(reader, x), wanted)
    fill = float(reader.setting(op, "padding_value", 0)) if padding == "constant" else 0.0
    reader.give(
        op, _sampled(reader, x, places, (_SAMPLING[sampling], _PADDING[padding]), wanted, fill)
    )


def _in_pixels(
    reader: Reader, x: onnx_ir.Value, places: onnx_ir.Value, mode: str, align: bool
) -> onnx_ir.Value:
    """Places in pixels, from the center of the first."""
    if mode == "unnormalized":
        return places
    if mode == "normalized_minus_one_to_one":
        from_one = reader.node("Add", [places, reader.number(1, places)])
        places = reader.node("Mul", [from_one, reader.number(0.5, places)])
    elif mode != "normalized_zero_to_one":
        raise Refusal(f"coordinates of the kind {mode}")
    lengths = _lengths(reader, x)
    if align:
        last = reader.node("Sub", [lengths, reader.number(1, lengths)])
        return reader.node("Mul", [places, last])
    edges = reader.node("Mul", [places, lengths])
    return reader.node("Sub", [edges, reader.number(0.5, edges)])


def _mirrored(
    reader: Reader, x: onnx_ir.Value, pixels: onnx_ir.Value, padding: str
) -> onnx_ir.Value:
    """The nearest pixels, mirrored at the centers of the outer ones or at their edges.

    Places repeat after twice the length that they are mirrored in; those in its second half go
    backwards. A single pixel mirrored at its center, where that length is 0, is everywhere.
    """
    half, one = reader.number(0.5, pixels), reader.number(1, pixels)
    edge, length = pixels, _lengths(reader, x)
    if padding == "symmetric":
        edge = reader.node("Add", [pixels, half])
    else:
        length = reader.node("Max", [reader.node("Sub", [length, one]), half])
    twice = reader.node("Add", [length, length])
    part = reader.node("Mod", [reader.node("Abs", [edge]), twice], {"fmod": 1})
    found = reader.node("Min", [part, reader.node("Sub", [twice, part])])
    if padding == "symmetric":
        found = reader.node("Sub", [found, half])
    last = reader.node("Sub", [_lengths(reader, x), one])
    rounded = reader.node("Max", [reader.node("Round", [found]), reader.number(0, pixels)])
    return reader.node("Min", [rounded, last])


def _lengths(reader: Reader, x: onnx_ir.Value) -> onnx_ir.Value:
    """Width and height, as float32."""
    sizes = [size_of(x, _WIDTH), size_of(x, _HEIGHT)]
    if None not in sizes:
        return reader.const(sizes, np.float32)
    shape = reader.node("Shape", [x], {"start": _HEIGHT}, INT64)
    swapped = reader.node("Gather", [shape, reader.ints([1, 0])], {"axis": 0})
    return reader.cast(swapped, FLOAT)


def _normalized(
    reader: Reader, pixels: onnx_ir.Value, lengths: onnx_ir.Value, align: bool
) -> onnx_ir.Value:
    """Places from -1 to 1; of a single pixel, which has no length with align_corners, any."""
    one, two = reader.number(1, pixels), reader.number(2, pixels)
    doubled = reader.node("Mul", [pixels, two])
    if align:
        last = reader.node("Max", [reader.node("Sub", [lengths, one]), one])
        return reader.node("Sub", [reader.node("Div", [doubled, last]), one])
    edges = reader.node("Add", [doubled, one])
    return reader.node("Sub", [reader.node("Div", [edges, lengths]), one])


def _sampled(
    reader: Reader,
    x: onnx_ir.Value,
    grid: onnx_ir.Value,
    how: tuple[str, str],
    align: bool,
    fill: float = 0.0,
) -> onnx_ir.Value:
    """GridSample, computed in float32. It pads with zeros: another number is taken away before
    and added after."""
    assert x.dtype is not None
    wide = reader.cast(x, FLOAT)
    filling = reader.number(fill, wide)
    if fill:
        wide = reader.node("Sub", [wide, filling])
    mode, padding = how
    attributes: dict[str, Attribute] = {
        "mode": mode,
        "padding_mode": padding,
        "align_corners": int(align),
    }
    found = reader.node("GridSample", [wide, grid], attributes)
    if fill:
        found = reader.node("Add", [found, filling])
    return reader.cast(found, x.dtype)


@reads("affine")
def affine(reader: Reader, op: Operation) -> None:
    x = reader.value(op, "x")
    for name, only in (
        ("sampling_mode", "bilinear"),
        ("padding_mode", "constant"),
        ("coordinates_mode", "normalized_minus_one_to_one"),
    ):
        if str(reader.setting(op, name)).lower() != only:
            raise Refusal(f"{name} {reader.setting(op, name)}")
    if not reader.setting(op, "align_corners"):
        raise Refusal("affine without align_corners")
    size = [int(reader.setting(op, f"output_{name}")) for name in ("height", "width")]
    matrix = reader.cast(reader.value(op, "transform_matrix"), FLOAT)
    matrix = reader.node("Reshape", [matrix, reader.ints([-1, 2, 3])])
    batch = reader.node("Shape", [x], {"end": 1}, INT64)
    each = reader.node("Concat", [batch, reader.ints([1, 1])], {"axis": 0})
    matrix = reader.node("Expand", [matrix, each])
    outer = reader.node("Shape", [x], {"end": 2}, INT64)
    shape = reader.node("Concat", [outer, reader.ints(size)], {"axis": 0})
    grid = reader.node("AffineGrid", [matrix, shape], {"align_corners": 1})
    fill = float(reader.setting(op, "padding_value", 0))
    reader.give(op, _sampled(reader, x, grid, ("linear", "zeros"), True, fill))


# -- crop_resize -------------------------------------------------------------------------


@reads("crop_resize")
def crop_resize(reader: Reader, op: Operation) -> None:
    """Boxes of images, each resized. Until iOS16 every box is taken of every image unless it
    begins with an image's number (``roi``); from iOS17 on of one (``boxes``, ``box_indices``)."""
    x = reader.value(op, "x")
    if rank_of(x) != 4:
        raise Refusal("an image that doesn't have four axes")
    if reader.has(op, "boxes"):
        boxes = reader.cast(reader.value(op, "boxes"), FLOAT)
        images = _of_boxes(reader, x, _indices(reader, op, boxes))
        reader.give(op, _crops(reader, op, x, images, boxes))
        return
    roi = reader.value(op, "roi")
    count = size_of(roi, 2)
    if count not in (4, 5):
        raise Refusal(f"boxes of {count} numbers")
    flat = reader.cast(reader.node("Reshape", [roi, reader.ints([-1, count])]), FLOAT)
    if count == 4:
        crops = _crops(reader, op, x, _flattened(reader, x, flat), flat)
        batch = reader.node("Shape", [x], {"end": 2}, INT64)
        parts = [reader.ints([-1]), batch, reader.ints(_target(reader, op))]
        shape = reader.node("Concat", parts, {"axis": 0}, INT64)
        reader.give(op, reader.node("Reshape", [crops, shape]))
        return
    first, boxes = reader.nodes_of("Split", [flat, reader.ints([1, 4])], 2, {"axis": 1})
    index = reader.int64(reader.node("Squeeze", [first, reader.ints([1])]))
    crops = _crops(reader, op, x, _of_boxes(reader, x, index), boxes)
    reader.give(op, reader.node("Unsqueeze", [crops, reader.ints([1])]))


def _indices(reader: Reader, op: Operation, boxes: onnx_ir.Value) -> onnx_ir.Value:
    """Which image each box is of: one after the other, unless told."""
    given = reader.optional(op, "box_indices")
    if given is not None:
        return reader.int64(given)
    count = size_of(boxes, 0)
    if count is None:
        raise Refusal("the number of boxes isn't known")
    return reader.ints(list(range(count)))


def _of_boxes(reader: Reader, x: onnx_ir.Value, index: onnx_ir.Value) -> onnx_ir.Value:
    return reader.node("Gather", [x, index], {"axis": 0})


def _flattened(reader: Reader, x: onnx_ir.Value, boxes: onnx_ir.Value) -> onnx_ir.Value:
    """All images as channels of one, as often as there are boxes."""
    size = reader.node("Shape", [x], {"start": _HEIGHT}, INT64)
    shape = reader.node("Concat", [reader.ints([1, -1]), size], {"axis": 0})
    one = reader.node("Reshape", [x, shape])
    count = reader.node("Shape", [boxes], {"end": 1}, INT64)
    each = reader.node("Concat", [count, reader.ints([1, 1, 1])], {"axis": 0})
    return reader.node("Expand", [one, each])


def _target(reader: Reader, op: Operation) -> list[int]:
    return [int(reader.setting(op, f"target_{name}", 1)) for name in ("height", "width")]


def _crops(
    reader: Reader, op: Operation, x: onnx_ir.Value, images: onnx_ir.Value, boxes: onnx_ir.Value
) -> onnx_ir.Value:
    """One resized box for each image."""
    mode = str(reader.setting(op, "sampling_mode", "DEFAULT"))
    lengths = _lengths(reader, x)
    last = reader.node("Sub", [lengths, reader.number(1, lengths)])
    ends = _ends(reader, op, boxes, last)
    target = _target(reader, op)[::-1]
    places, outside = [], []
    for axis, (start, end) in enumerate(ends):
        points = _points(reader, start, end, target[axis], mode)
        length = reader.node("Gather", [lengths, reader.ints([axis])], {"axis": 0})
        limit = reader.node("Gather", [last, reader.ints([axis])], {"axis": 0})
        places.append(_normalized(reader, points, length, False))
        before = reader.node("Less", [points, reader.number(0, points)], dtype=BOOL)
        behind = reader.node("Greater", [points, limit], dtype=BOOL)
        outside.append(reader.node("Or", [before, behind]))
    grid = _grid(reader, places, target)
    found = _sampled(reader, images, grid, ("linear", "border"), False)
    if not reader.has(op, "pad_value"):
        return found
    wide, high = (
        reader.node("Unsqueeze", [side, reader.ints(axes)])
        for side, axes in zip(outside, ([1, 2], [1, 3]), strict=True)
    )
    padding = reader.number(reader.setting(op, "pad_value"), found)
    padded = reader.node("Or", [wide, high])
    return reader.node("Where", [padded, padding, found], dtype=found.dtype)


def _ends(
    reader: Reader, op: Operation, boxes: onnx_ir.Value, last: onnx_ir.Value
) -> list[tuple[onnx_ir.Value, onnx_ir.Value]]:
    """Start and end in pixels, first of the width, then of the height; each [boxes, 1]."""
    scale = float(reader.setting(op, "spatial_scale", 1.0))
    normalized = bool(reader.setting(op, "normalized_coordinates", False))
    kind = str(reader.setting(op, "box_coordinate_mode", "CORNERS_HEIGHT_FIRST"))
    shape, _, order = kind.rpartition("_")[0].rpartition("_")
    if (shape, order) not in {
        (a, b) for a in ("CORNERS", "CENTER_SIZE") for b in ("HEIGHT", "WIDTH")
    }:
        raise Refusal(f"boxes of the kind {kind}")
    scaled = reader.node("Mul", [boxes, reader.number(scale, boxes)])
    columns = reader.nodes_of("Split", [scaled], 4, {"axis": 1, "num_outputs": 4})
    pairs = [(columns[0], columns[2]), (columns[1], columns[3])]
    ends = []
    for axis, pair in enumerate(pairs if order == "WIDTH" else pairs[::-1]):
        first, second = pair
        if normalized:
            limit = reader.node("Gather", [last, reader.ints([axis])], {"axis": 0})
            first, second = (reader.node("Mul", [end, limit]) for end in pair)
        if shape == "CENTER_SIZE":
            half = reader.node("Mul", [second, reader.number(0.5, second)])
            first, second = (reader.node(kind, [first, half]) for kind in ("Sub", "Add"))
        ends.append((first, second))
    return ends


def _points(
    reader: Reader, start: onnx_ir.Value, end: onnx_ir.Value, count: int, mode: str
) -> onnx_ir.Value:
    """The places of a row of pixels between a box's ends: [boxes, count].

    Source: ``SamplingMode`` in Core ML's NeuralNetwork.proto, for an interval of the length L,
    which is X - 1 there.
    """
    length = reader.node("Sub", [end, start])
    one = reader.number(1, length)
    steps: Array = np.arange(count, dtype=np.float32)
    if mode == "ALIGN_CORNERS" and count == 1:
        factor, steps = length, np.array([0.5], np.float32)
    elif mode in ("ALIGN_CORNERS", "STRICT_ALIGN_CORNERS"):
        factor, steps = length, steps / max(1, count - 1)
    elif mode in ("DEFAULT", "UNALIGN_CORNERS"):
        factor = reader.node("Add", [length, one])
        steps = (steps if mode == "DEFAULT" else steps + 0.5) / count
    elif mode == "OFFSET_CORNERS":
        factor, steps = reader.node("Max", [length, one]), (steps + 0.5) / count
    else:
        raise Refusal(f"sampling of the kind {mode}")
    away = reader.node("Mul", [factor, reader.const(steps[None], np.float32)])
    if mode in ("ALIGN_CORNERS", "STRICT_ALIGN_CORNERS"):  # a box may end before it starts
        return reader.node("Add", [start, away])
    if mode == "UNALIGN_CORNERS":
        centers = reader.node("Sub", [away, reader.number(0.5, away)])
        away = reader.node("Max", [centers, reader.number(0, centers)])
    return reader.node("Add", [start, reader.node("Min", [away, length])])


def _grid(reader: Reader, places: list[onnx_ir.Value], target: list[int]) -> onnx_ir.Value:
    """Pairs of x and y, [boxes, height, width, 2], from those of the columns and of the rows."""
    width, height = target
    shapes = ([1, 3], [1, height, 1, 1]), ([2, 3], [1, 1, width, 1])
    parts = []
    for place, (axes, size) in zip(places, shapes, strict=True):
        spread = reader.node("Unsqueeze", [place, reader.ints(axes)])
        parts.append(reader.node("Expand", [spread, reader.ints(size)]))
    return reader.node("Concat", parts, {"axis": 3})
