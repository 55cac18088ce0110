"""resample, affine and crop_resize: values pixel by pixel, in numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, Body, check, drawing, op

X = drawing(9, -2, 2)(2, 3, 5, 7)
HEIGHT, WIDTH = 5, 7


def _pixel(image: Array, row: int, column: int, padding: str, value: float) -> Array:
    """An image's pixel, [channels]; of one outside what the padding says."""
    height, width = image.shape[1:]
    if 0 <= row < height and 0 <= column < width:
        return image[:, row, column]
    if padding == "constant":
        return np.full(image.shape[0], value, image.dtype)
    return image[:, _inside(row, height, padding), _inside(column, width, padding)]


def _inside(place: int, size: int, padding: str) -> int:
    if padding == "border":
        return min(max(place, 0), size - 1)
    period = 2 * size - 2 if padding == "reflection" else 2 * size
    place %= period
    last = size - 1
    if place <= last:
        return place
    return period - place if padding == "reflection" else period - 1 - place


def _sample(image: Array, x: float, y: float, padding: str, value: float = 0.0) -> Array:
    """Between four pixels."""
    row, column = int(np.floor(y)), int(np.floor(x))
    down, right = y - row, x - column
    total = np.zeros(image.shape[0])
    for i, a in ((0, 1 - down), (1, down)):
        for j, b in ((0, 1 - right), (1, right)):
            if a * b:
                total += a * b * _pixel(image, row + i, column + j, padding, value)
    return total


def _pixels(pixel: Callable[[int, int, int], Array], dtype: Any = np.float32) -> Array:
    """Two images of 4 by 3, each pixel's channels by itself."""
    made = np.zeros((2, 3, 4, 3), dtype)
    for n, i, j in np.ndindex(2, 4, 3):
        made[n, :, i, j] = pixel(n, i, j)
    return made


def _resample(kind: str, padding: str, value: Any, mode: str, align: bool) -> Body:
    how: dict[str, Any] = {"sampling_mode": kind, "padding_mode": padding, "padding_value": value}
    return op.resample(**how, coordinates_mode=mode, align_corners=align)


def _places(pixels: Array, mode: str, align: bool) -> Array:
    """Coordinates in a mode, of what they are in pixels."""
    if mode == "unnormalized":
        return pixels.astype(np.float32)
    sizes = np.array([WIDTH, HEIGHT])
    part = pixels / (sizes - 1) if align else (pixels + 0.5) / sizes
    return (part * 2 - 1 if mode.endswith("minus_one_to_one") else part).astype(np.float32)


@pytest.mark.parametrize(("mode", "align"), [
    ("unnormalized", True),
    *[
        (f"normalized_{kind}", align)
        for kind in ("minus_one_to_one", "zero_to_one")
        for align in (True, False)
    ],
])  # fmt: skip
def test_resample(mode: str, align: bool) -> None:
    """In every padding."""
    pixels = drawing(1, -3, 9)(2, 4, 3, 2).astype(np.float64)
    cases = [
        (_resample("bilinear", padding, np.float32(0.75), mode, align),
         _pixels(lambda n, i, j, p=padding: _sample(X[n], *pixels[n, i, j], p, 0.75)))  # type: ignore[misc]
        for padding in ("constant", "border", "reflection", "symmetric")
    ]  # fmt: skip
    check(cases, {"x": X, "coordinates": _places(pixels, mode, align)}, 1e-4)


def _folded(place: float, size: int, padding: str) -> int:
    """A place mirrored until it lies inside, at the outer pixels' centers, or at their edges: then
    the nearest."""
    first = 0.0 if padding == "reflection" else -0.5
    last = size - 1 - first
    while not first <= place <= last:
        place = 2 * (first if place < first else last) - place
    return min(max(round(place), 0), size - 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_resample_of_the_nearest_mirrors_before_it_rounds(dtype: Any) -> None:
    """7.5 of seven pixels is 5.5 mirrored at the edge, whose nearest even pixel is 6; rounded first
    it would be 8, mirrored to 5."""
    x, halves = X.astype(dtype), np.arange(-32, 40) / 2
    pixels = np.random.default_rng(3).choice(halves, (2, 4, 3, 2)).astype(dtype)

    def wanted(padding: str) -> Array:
        def pixel(n: int, i: int, j: int) -> Array:
            column, row = (float(place) for place in pixels[n, i, j])
            return x[n, :, _folded(row, HEIGHT, padding), _folded(column, WIDTH, padding)]

        return _pixels(pixel, dtype)

    cases = [
        (_resample("nearest", padding, dtype(0), "unnormalized", False), wanted(padding))
        for padding in ("reflection", "symmetric")
    ]
    check(cases, {"x": x, "coordinates": pixels})


# -- crop_resize -------------------------------------------------------------------------

MODES = ["STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS"]
BOXES = np.array([[0.5, 1.5, 3.5, 6], [1, 0, 2, 4]], np.float32)


def row(start: float, end: float, count: int, mode: str) -> Array:
    """Places within a box, as of a row of end - start + 1 pixels from its start on: those that
    coremltools' documentation of resize_bilinear has."""
    length = end - start
    i = np.arange(count)
    if mode == "ALIGN_CORNERS" and count == 1:
        places = np.array([length / 2])
    elif mode in ("ALIGN_CORNERS", "STRICT_ALIGN_CORNERS"):
        places = i * length / max(1, count - 1)
    elif mode == "DEFAULT":
        places = i * (length + 1) / count
    elif mode == "OFFSET_CORNERS":
        places = (i + 0.5) * max(1, length) / count
    else:
        places = (i + 0.5) * (length + 1) / count - 0.5
    return np.asarray(start + np.clip(places, 0, length))


def _cropped(image: Array, box: Array, size: tuple[int, int], mode: str) -> Array:
    """A box [h0, w0, h1, w1] of an image."""
    out = np.zeros((image.shape[0], *size), np.float32)
    for i, y in enumerate(row(box[0], box[2], size[0], mode)):
        for j, x in enumerate(row(box[1], box[3], size[1], mode)):
            out[:, i, j] = _sample(image, x, y, "border")
    return out


def _crop(size: tuple[int, int], mode: str = "STRICT_ALIGN_CORNERS", **given: Any) -> Body:
    how = {"target_height": size[0], "target_width": size[1], "sampling_mode": mode}
    return op.crop_resize(**how, **given)


@pytest.mark.parametrize("mode", MODES)
def test_boxes(mode: str) -> None:
    cases = [
        (_crop(size, mode, box_indices=np.array([1, 0], np.int32)),
         np.stack([_cropped(X[1 - n], box, size, mode) for n, box in enumerate(BOXES)]))
        for size in ((3, 4), (1, 2))
    ]  # fmt: skip
    check(cases, {"x": X, "boxes": BOXES}, 1e-4)


@pytest.mark.parametrize("mode", MODES[:2])
def test_boxes_that_end_before_they_start_are_taken_backwards(mode: str) -> None:
    body = _crop((3, 4), mode, box_indices=np.array([1], np.int32))
    feeds = {"x": X, "boxes": np.array([[3, 5, 1, 2]], np.float32)}
    check([(body, X[1:, :, 3:0:-1, 5:1:-1])], feeds, 1e-5)


def test_boxes_in_other_conventions() -> None:
    """Width first, as centers and sizes, as fractions, scaled; beyond the image they are padded."""
    turned = BOXES[:, [1, 0, 3, 2]]
    center = np.concatenate([(turned[:, :2] + turned[:, 2:]) / 2, turned[:, 2:] - turned[:, :2]], 1)
    part = turned / np.array([WIDTH - 1, HEIGHT - 1] * 2, np.float32)
    wide, size = {"box_coordinate_mode": "CORNERS_WIDTH_FIRST"}, "CENTER_SIZE"
    bodies = [
        _crop((3, 2), boxes=turned, **wide),
        _crop((3, 2), boxes=center, box_coordinate_mode=f"{size}_WIDTH_FIRST"),
        _crop((3, 2), boxes=center[:, [1, 0, 3, 2]], box_coordinate_mode=f"{size}_HEIGHT_FIRST"),
        _crop((3, 2), boxes=part, normalized_coordinates=True, **wide),
        _crop((3, 2), boxes=BOXES * 4, spatial_scale=np.float32(0.25)),
    ]
    wanted = np.stack([_cropped(X[n], box, (3, 2), MODES[0]) for n, box in enumerate(BOXES)])
    padded = np.full((1, 3, 3, 3), 9, np.float32)
    padded[:, :, 1:] = X[:1, :, :2, :3]
    outside = _crop((3, 3), boxes=np.array([[-1, 0, 1, 2]], np.float32), pad_value=np.float32(9))
    check([*[(body, wanted) for body in bodies], (outside, padded)], {"x": X}, 1e-4)


def test_regions_until_ios16() -> None:
    """Of every image, or of the one that is named."""
    every = BOXES.reshape(2, 1, 4, 1, 1)
    named = np.concatenate([[[1.0], [0.0]], BOXES], axis=1).astype(np.float32)

    def body(mb: Any, x: Any, e: Any, n: Any) -> list[Any]:
        return [_crop((3, 2), MODES[1], roi=roi)(mb, x=x) for roi in (e, n)]

    whole = np.array([[_cropped(x, box, (3, 2), MODES[1]) for x in X] for box in BOXES])
    one_each = np.stack([whole[0, 1:], whole[1, :1]])
    feeds = {"x": X, "e": every, "n": named.reshape(2, 1, 5, 1, 1)}
    check([(body, [whole, one_each])], feeds, 1e-4, target=16)
