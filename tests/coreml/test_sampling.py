"""resample, affine and crop_resize: values pixel by pixel, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, agrees, compute

RNG = np.random.default_rng(9)
X = RNG.standard_normal((2, 3, 5, 7)).astype(np.float32)
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


def _places(mode: str, align: bool) -> tuple[Array, Array]:
    """Coordinates in a mode, and what they are in pixels."""
    pixels = RNG.uniform(-3, 9, (2, 4, 3, 2))
    sizes = np.array([WIDTH, HEIGHT])
    if mode == "unnormalized":
        return pixels.astype(np.float32), pixels
    part = pixels / (sizes - 1) if align else (pixels + 0.5) / sizes
    if mode == "normalized_minus_one_to_one":
        part = part * 2 - 1
    return part.astype(np.float32), pixels


@pytest.mark.parametrize("padding", ["constant", "border", "reflection", "symmetric"])
@pytest.mark.parametrize(
    ("mode", "align"),
    [
        ("unnormalized", True),
        ("normalized_minus_one_to_one", True),
        ("normalized_minus_one_to_one", False),
        ("normalized_zero_to_one", True),
        ("normalized_zero_to_one", False),
    ],
)
def test_resample(padding: str, mode: str, align: bool) -> None:
    coordinates, pixels = _places(mode, align)

    def body(mb: Any, x: Any, c: Any) -> Any:
        return mb.resample(
            x=x,
            coordinates=c,
            sampling_mode="bilinear",
            padding_mode=padding,
            padding_value=np.float32(0.75),
            coordinates_mode=mode,
            align_corners=align,
        )

    (found,) = compute(body, {"x": X, "c": coordinates})
    wanted = np.zeros((2, 3, 4, 3), np.float32)
    for n, i, j in np.ndindex(2, 4, 3):
        wanted[n, :, i, j] = _sample(X[n], *pixels[n, i, j], padding, 0.75)
    agrees(found, wanted, 1e-4)


def test_resample_of_the_nearest() -> None:
    pixels = np.round(RNG.uniform(0, 4, (2, 4, 3, 2))).astype(np.float32)

    def body(mb: Any, x: Any, c: Any) -> Any:
        return mb.resample(
            x=x,
            coordinates=c,
            sampling_mode="nearest",
            padding_mode="border",
            padding_value=np.float32(0),
            coordinates_mode="unnormalized",
            align_corners=True,
        )

    (found,) = compute(body, {"x": X, "c": pixels + np.float32(0.3)})
    wanted = np.zeros((2, 3, 4, 3), np.float32)
    for n, i, j in np.ndindex(2, 4, 3):
        column, row = pixels[n, i, j].astype(int)
        wanted[n, :, i, j] = X[n, :, row, column]
    agrees(found, wanted)


def _folded(place: float, size: int, padding: str) -> float:
    """A place mirrored until it lies inside: at the outer pixels' centers, or at their edges."""
    first = 0.0 if padding == "reflection" else -0.5
    last = size - 1 - first
    while not first <= place <= last:
        place = 2 * (first if place < first else last) - place
    return place


@pytest.mark.parametrize("padding", ["reflection", "symmetric"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_resample_of_the_nearest_mirrors_before_it_rounds(padding: str, dtype: Any) -> None:
    """7.5 of seven pixels is 5.5 mirrored at the edge, whose nearest even pixel is 6; rounded first
    it would be 8, mirrored to 5."""
    pixels = RNG.choice(np.arange(-32, 40) / 2, (2, 4, 3, 2)).astype(dtype)

    def body(mb: Any, x: Any, c: Any) -> Any:
        return mb.resample(
            x=x,
            coordinates=c,
            sampling_mode="nearest",
            padding_mode=padding,
            padding_value=dtype(0),
            coordinates_mode="unnormalized",
            align_corners=False,
        )

    x = X.astype(dtype)
    (found,) = compute(body, {"x": x, "c": pixels})
    wanted = np.zeros((2, 3, 4, 3), dtype)
    for n, i, j in np.ndindex(2, 4, 3):
        column, row = (
            min(max(round(_folded(float(place), size, padding)), 0), size - 1)
            for place, size in zip(pixels[n, i, j], (WIDTH, HEIGHT), strict=True)
        )
        wanted[n, :, i, j] = x[n, :, row, column]
    agrees(found, wanted)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("free", [None, {"x": [0]}])
def test_affine(count: int, free: Any) -> None:
    matrix = RNG.uniform(-1, 1, (count, 6)).astype(np.float32)

    def body(mb: Any, x: Any, m: Any) -> Any:
        return mb.affine(
            x=x,
            transform_matrix=m,
            output_height=4,
            output_width=3,
            sampling_mode="bilinear",
            padding_mode="constant",
            padding_value=np.float32(0),
            coordinates_mode="normalized_minus_one_to_one",
            align_corners=True,
        )

    (found,) = compute(body, {"x": X, "m": matrix}, free=free)
    wanted = np.zeros((2, 3, 4, 3), np.float32)
    for n, i, j in np.ndindex(2, 4, 3):
        y, x = np.linspace(-1, 1, 4)[i], np.linspace(-1, 1, 3)[j]
        a = matrix[n % count]
        column = (a[0] * x + a[1] * y + a[2] + 1) / 2 * (WIDTH - 1)
        row = (a[3] * x + a[4] * y + a[5] + 1) / 2 * (HEIGHT - 1)
        wanted[n, :, i, j] = _sample(X[n], column, row, "constant")
    agrees(found, wanted, 1e-4)


# -- crop_resize -------------------------------------------------------------------------

MODES = ["STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS"]
BOXES = np.array([[0.5, 1.5, 3.5, 6], [1, 0, 2, 4]], np.float32)


def _row(start: float, end: float, count: int, mode: str) -> Array:
    """Places within a box, as of a row of end - start + 1 pixels from its start on."""
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
    for i, row in enumerate(_row(box[0], box[2], size[0], mode)):
        for j, column in enumerate(_row(box[1], box[3], size[1], mode)):
            out[:, i, j] = _sample(image, column, row, "border")
    return out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(3, 4), (1, 2)])
def test_boxes(mode: str, size: tuple[int, int]) -> None:
    def body(mb: Any, x: Any, b: Any) -> Any:
        return mb.crop_resize(
            x=x,
            boxes=b,
            box_indices=np.array([1, 0], np.int32),
            target_height=size[0],
            target_width=size[1],
            sampling_mode=mode,
        )

    (found,) = compute(body, {"x": X, "b": BOXES})
    wanted = [_cropped(X[n], box, size, mode) for n, box in zip([1, 0], BOXES, strict=True)]
    agrees(found, np.stack(wanted), 1e-4)


@pytest.mark.parametrize("mode", ["ALIGN_CORNERS", "STRICT_ALIGN_CORNERS"])
def test_boxes_that_end_before_they_start_are_taken_backwards(mode: str) -> None:
    box = np.array([[3, 5, 1, 2]], np.float32)

    def body(mb: Any, x: Any, b: Any) -> Any:
        how = {"target_height": 3, "target_width": 4, "sampling_mode": mode}
        return mb.crop_resize(x=x, boxes=b, box_indices=np.array([1], np.int32), **how)

    (found,) = compute(body, {"x": X, "b": box})
    agrees(found, X[1:, :, 3:0:-1, 5:1:-1], 1e-5)


def test_boxes_in_other_conventions() -> None:
    """Width first, as centers and sizes, as fractions, scaled."""
    turned = BOXES[:, [1, 0, 3, 2]]
    center = np.concatenate([(turned[:, :2] + turned[:, 2:]) / 2, turned[:, 2:] - turned[:, :2]], 1)
    limits = np.array([WIDTH - 1, HEIGHT - 1] * 2, np.float32)

    def body(mb: Any, x: Any) -> list[Any]:
        how = {"target_height": 3, "target_width": 2, "sampling_mode": "STRICT_ALIGN_CORNERS"}
        return [
            mb.crop_resize(x=x, boxes=turned, box_coordinate_mode="CORNERS_WIDTH_FIRST", **how),
            mb.crop_resize(x=x, boxes=center, box_coordinate_mode="CENTER_SIZE_WIDTH_FIRST", **how),
            mb.crop_resize(
                x=x,
                boxes=center[:, [1, 0, 3, 2]],
                box_coordinate_mode="CENTER_SIZE_HEIGHT_FIRST",
                **how,
            ),
            mb.crop_resize(
                x=x,
                boxes=turned / limits,
                box_coordinate_mode="CORNERS_WIDTH_FIRST",
                normalized_coordinates=True,
                **how,
            ),
            mb.crop_resize(x=x, boxes=BOXES * 4, spatial_scale=np.float32(0.25), **how),
        ]

    wanted = np.stack(
        [_cropped(X[n], box, (3, 2), "STRICT_ALIGN_CORNERS") for n, box in enumerate(BOXES)]
    )
    for found in compute(body, {"x": X}):
        agrees(found, wanted, 1e-4)


def test_boxes_beyond_the_image_are_padded() -> None:
    boxes = np.array([[-1, 0, 1, 2]], np.float32)

    def body(mb: Any, x: Any) -> Any:
        return mb.crop_resize(
            x=x,
            boxes=boxes,
            target_height=3,
            target_width=3,
            sampling_mode="STRICT_ALIGN_CORNERS",
            pad_value=np.float32(9),
        )

    (found,) = compute(body, {"x": X})
    wanted = np.full((1, 3, 3, 3), 9, np.float32)
    wanted[:, :, 1:] = X[:1, :, :2, :3]
    agrees(found, wanted)


def test_regions_until_ios16() -> None:
    """Of every image, or of the one that is named."""
    every = BOXES.reshape(2, 1, 4, 1, 1)
    named = np.concatenate([[[1.0], [0.0]], BOXES], axis=1).astype(np.float32)

    def body(mb: Any, x: Any, e: Any, n: Any) -> list[Any]:
        how = {"target_height": 3, "target_width": 2, "sampling_mode": "ALIGN_CORNERS"}
        return [mb.crop_resize(x=x, roi=e, **how), mb.crop_resize(x=x, roi=n, **how)]

    feeds = {"x": X, "e": every, "n": named.reshape(2, 1, 5, 1, 1)}
    found = compute(body, feeds, target=16)
    all_of_them = [[_cropped(image, box, (3, 2), "ALIGN_CORNERS") for image in X] for box in BOXES]
    agrees(found[0], np.array(all_of_them), 1e-4)
    assert found[1].shape == (2, 1, 3, 3, 2)
    one_each = [
        _cropped(X[n], box, (3, 2), "ALIGN_CORNERS") for n, box in ((1, BOXES[0]), (0, BOXES[1]))
    ]
    agrees(found[1][:, 0], np.stack(one_each), 1e-4)
