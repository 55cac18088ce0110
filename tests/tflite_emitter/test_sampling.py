"""GridSample, AffineGrid, RoiAlign."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from emitters.tflite.lowering import lower
from tests.tflite_emitter.running import Array, agree, numbers, parsed, with_weights


def places(*shape: int) -> Array:
    """Well over the border on all sides."""
    return np.random.default_rng(5).uniform(-2.7, 2.7, shape).astype(np.float32)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample(mode: str, padding: str, corners: int, tmp_path: Path) -> None:
    model = parsed(
        "g (float[N,3,5,6] x, float[N,4,7,2] grid) => (float[N,3,4,7] y) {"
        f' y = GridSample<mode="{mode}", padding_mode="{padding}", align_corners={corners}>'
        "(x, grid) }"
    )
    agree(model, {"x": numbers(2, 3, 5, 6), "grid": places(2, 4, 7, 2)}, tmp_path, atol=5e-5)


@pytest.mark.parametrize("padding", ["zeros", "reflection"])
def test_grid_sample_of_free_images(padding: str, tmp_path: Path) -> None:
    model = parsed(
        "g (float[N,3,H,W] x, float[N,P,Q,2] grid) => (float[N,3,P,Q] y) {"
        f' y = GridSample<padding_mode="{padding}">(x, grid) }}'
    )
    agree(model, {"x": numbers(2, 3, 5, 6), "grid": places(2, 4, 7, 2)}, tmp_path, atol=5e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_grid_sample_of_volumes(mode: str, tmp_path: Path) -> None:
    model = parsed(
        "g (float[2,3,4,5,6] x, float[2,3,4,2,3] grid) => (float[2,3,3,4,2] y) {"
        f' y = GridSample<mode="{mode}", padding_mode="reflection">(x, grid) }}'
    )
    agree(model, {"x": numbers(2, 3, 4, 5, 6), "grid": places(2, 3, 4, 2, 3)}, tmp_path, atol=5e-5)


def test_spatial_transformer(tmp_path: Path) -> None:
    """AffineGrid of a free batch into GridSample."""
    model = parsed(
        "g (float[N,2,3] theta, float[N,2,6,8] x) => (float[N,2,6,8] y) {"
        " s = Shape(x)  grid = AffineGrid<align_corners=1>(theta, s)  y = GridSample(x, grid) }"
    )
    agree(model, {"theta": numbers(3, 2, 3), "x": numbers(3, 2, 6, 8)}, tmp_path, atol=5e-5)


@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("image", ["2,3,9,11", "N,3,H,W"])
def test_roi_align(image: str, mode: str, coordinates: str, tmp_path: Path) -> None:
    model = parsed(
        f"g (float[{image}] x, float[R,4] rois, int64[R] b) => (float[R,3,4,2] y) {{"
        f' y = RoiAlign<mode="{mode}", coordinate_transformation_mode="{coordinates}",'
        " output_height=4, output_width=2, sampling_ratio=3, spatial_scale=0.5>(x, rois, b) }"
    )
    rois = np.asarray(
        [[1, 2, 14, 12], [0, 0, 22, 18], [-6, -7, 4, 5], [15, 10, 40, 30], [3, 3, 3.5, 3.2]],
        np.float32,
    )
    batch = np.asarray([0, 1, 1, 0, 1], np.int64)
    agree(model, {"x": numbers(2, 3, 9, 11), "rois": rois, "b": batch}, tmp_path)


def test_what_is_refused() -> None:
    model = with_weights(
        parsed(
            "g (float[1,3,9,9] x, float[R,4] rois, int64[R] b, float[N,2,3] t, int64[4] s)"
            " => (float[R,3,1,1] y, float[N,1,4,2] grid) {"
            " y = RoiAlign(x, rois, b)  grid = AffineGrid<align_corners=1>(t, s) }"
        ),
        s=np.asarray([1, 3, 1, 4], np.int64),
    )
    reasons = [item.reason for item in lower(model).refusals]
    assert len(reasons) == 2
    assert "sampling_ratio 0" in reasons[0] and "one pixel" in reasons[1]
