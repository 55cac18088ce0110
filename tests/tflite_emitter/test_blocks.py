"""DepthToSpace, SpaceToDepth, CenterCropPad, Col2Im."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from emitters.tflite.lowering import lower
from tests.tflite_emitter.running import agree, kinds, numbers, parsed, with_weights


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_free_images(mode: str, tmp_path: Path) -> None:
    model = parsed(
        "g (float[N,12,H,W] x) => (float[N,3,P,Q] y, float[N,12,H,W] z) {"
        f' y = DepthToSpace<blocksize=2, mode="{mode}">(x)  z = SpaceToDepth<blocksize=2>(y) }}'
    )
    agree(model, {"x": numbers(2, 12, 3, 5)}, tmp_path)
    made = kinds(model)
    assert "DEPTH_TO_SPACE" in made and "SPACE_TO_DEPTH" in made


@pytest.mark.parametrize("other", [False, True])
def test_in_integers(other: bool, tmp_path: Path) -> None:
    model = with_weights(
        parsed(
            "g (float[1,8,3,4] x, float s, int8 p, float t) => (float[1,2,6,8] y) {"
            " a = QuantizeLinear(x, s, p)  b = DequantizeLinear(a, s, p)"
            ' c = DepthToSpace<blocksize=2, mode="CRD">(b)'
            " d = QuantizeLinear(c, t, p)  y = DequantizeLinear(d, t, p) }"
        ),
        s=np.asarray(0.03, np.float32),
        p=np.asarray(4, np.int8),
        t=np.asarray(0.05 if other else 0.03, np.float32),
    )
    agree(model, {"x": numbers(1, 8, 3, 4)}, tmp_path)
    assert ("QUANTIZE" in kinds(model)[1:]) == other


def test_center_crop_pad(tmp_path: Path) -> None:
    model = with_weights(
        parsed(
            "g (float[N,5,8,3] x, int64[2] s) => (float[N,8,5,3] y) {"
            " y = CenterCropPad<axes=[-3, 2]>(x, s) }"
        ),
        s=np.asarray([8, 5], np.int64),
    )
    agree(model, {"x": numbers(2, 5, 8, 3)}, tmp_path)


@pytest.mark.parametrize(
    "attributes",
    [
        "",
        "strides=[2, 2]",
        "strides=[2, 1], pads=[1, 0, 1, 2]",
        "dilations=[1, 3], pads=[1, 1, 1, 1]",
    ],
)
@pytest.mark.parametrize("batch", ["2", "N"])
def test_col2im(attributes: str, batch: str, tmp_path: Path) -> None:
    image, block = (8, 9), (2, 3)
    steps = {"": 49, "strides=[2, 2]": 16, "strides=[2, 1], pads=[1, 0, 1, 2]": 45}
    blocks = steps.get(attributes, 45)
    model = with_weights(
        parsed(
            f"g (float[{batch},18,{blocks}] x, int64[2] i, int64[2] b) => (float[{batch},3,8,9] y)"
            f" {{ y = Col2Im<{attributes}>(x, i, b) }}".replace("<>", "")
        ),
        i=np.asarray(image, np.int64),
        b=np.asarray(block, np.int64),
    )
    agree(model, {"x": numbers(2, 18, blocks)}, tmp_path)


def test_a_crop_of_a_free_dimension_is_refused() -> None:
    model = with_weights(
        parsed("g (float[N,5] x, int64[2] s) => (float[2,3] y) { y = CenterCropPad(x, s) }"),
        s=np.asarray([2, 3], np.int64),
    )
    (item,) = lower(model).refusals
    assert "free dimension" in item.reason
