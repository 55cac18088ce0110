"""Resizing: values from the sampling grids that coremltools documents, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, agrees, compute

RNG = np.random.default_rng(8)
X = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)

MODES = ["STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS"]


def grid(old: int, new: int, mode: str) -> Array:
    """Where each output lies in the input: coremltools' documentation of resize_bilinear."""
    i = np.arange(new, dtype=np.float64)
    if mode == "ALIGN_CORNERS" and new == 1:
        return np.array([(old - 1) / 2])
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        places = i * (old - 1) / max(1, new - 1)
    elif mode == "DEFAULT":
        places = i * ((old - old / new) / (new - 1) if new > 1 else 0)
    elif mode == "OFFSET_CORNERS":
        places = (i + 0.5) * max(1, old - 1) / new
    else:
        places = (i + 0.5) * old / new - 0.5
    return np.clip(places, 0, old - 1)


def along(x: Array, axis: int, places: Array) -> Array:
    """Linear interpolation along an axis."""
    low = np.floor(places).astype(int)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    shape = [1] * x.ndim
    shape[axis] = -1
    part = (places - low).reshape(shape)
    return np.asarray(x.take(low, axis) * (1 - part) + x.take(high, axis) * part)


def bilinear(x: Array, height: int, width: int, mode: str) -> Array:
    rows = along(x.astype(np.float64), -2, grid(x.shape[-2], height, mode))
    return along(rows, -1, grid(x.shape[-1], width, mode)).astype(x.dtype)


@pytest.mark.parametrize("mode", MODES)
def test_resize_bilinear(mode: str) -> None:
    targets = [(7, 8), (2, 3), (1, 9), (6, 1), (4, 5)]

    def body(mb: Any, x: Any) -> list[Any]:
        return [
            mb.resize_bilinear(
                x=x, target_size_height=height, target_size_width=width, sampling_mode=mode
            )
            for height, width in targets
        ]

    for found, target in zip(compute(body, {"x": X}), targets, strict=True):
        agrees(found, bilinear(X, *target, mode), 1e-5)


@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 2, 3, 4, 5)])
def test_other_ranks(shape: tuple[int, ...]) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)

    def body(mb: Any, x: Any) -> list[Any]:
        return [
            mb.resize_bilinear(x=x, target_size_height=7, target_size_width=8),
            mb.upsample_nearest_neighbor(x=x, scale_factor_height=2, scale_factor_width=3),
        ]

    found = compute(body, {"x": x})
    agrees(found[0], bilinear(x, 7, 8, "DEFAULT"))
    agrees(found[1], x.repeat(2, -2).repeat(3, -1))


@pytest.mark.parametrize("free", [None, {"x": [0, 2, 3]}])
@pytest.mark.parametrize(
    ("how", "mode"),
    [
        ({"align_corners": True}, "STRICT_ALIGN_CORNERS"),
        ({"align_corners": False}, "UNALIGN_CORNERS"),
        ({"align_corners": False, "half_pixel_centers": False}, "DEFAULT"),
    ],
)
def test_upsample_bilinear(how: dict[str, bool], mode: str, free: Any) -> None:
    """Sizes are rounded down: 4 * 1.7 = 6.8, 5 * 2."""

    def body(mb: Any, x: Any) -> Any:
        return mb.upsample_bilinear(
            x=x, scale_factor_height=np.float32(1.7), scale_factor_width=np.float32(2), **how
        )

    (found,) = compute(body, {"x": X}, free=free)
    agrees(found, bilinear(X, 6, 10, mode), 1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_resize(mode: str) -> None:
    """The last two axes of the shape; 0 keeps a size."""

    def body(mb: Any, x: Any) -> list[Any]:
        how = {"interpolation_mode": "LINEAR", "sampling_mode": mode}
        return [
            mb.resize(x=x, shape=[1, 7, 0], resized_dims=np.uint32(2), **how),
            mb.resize(x=x, shape=[9], resized_dims=np.uint32(1), **how),
        ]

    found = compute(body, {"x": X})
    agrees(found[0], bilinear(X, 7, 5, mode), 1e-5)
    wide = along(X.astype(np.float64), -1, grid(5, 9, mode)).astype(np.float32)
    agrees(found[1], wide, 1e-5)


@pytest.mark.parametrize("mode", ["UNALIGN_CORNERS", "OFFSET_CORNERS"])
def test_resize_to_a_computed_size(mode: str) -> None:
    size = np.array([7, 0], np.int32)

    def body(mb: Any, x: Any, size: Any) -> Any:
        how = {"interpolation_mode": "LINEAR", "sampling_mode": mode}
        return mb.resize(x=x, shape=size, resized_dims=np.uint32(2), **how)

    (found,) = compute(body, {"x": X, "size": size})
    agrees(found, bilinear(X, 7, 5, mode))


def test_crop() -> None:
    def body(mb: Any, x: Any) -> list[Any]:
        return [
            mb.crop(x=x, crop_height=[1, 2], crop_width=[0, 1]),
            mb.crop(x=x, crop_height=[0, 0], crop_width=[2, 0]),
        ]

    found = compute(body, {"x": X})
    agrees(found[0], X[:, :, 1:2, :-1])
    agrees(found[1], X[:, :, :, 2:])
