"""Resize: each rule of ONNX's on sizes that are known, free, and in integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter.ir import Model
from converter.ort import OrtSession
from emitters.tflite.lowering import lower
from tests.tflite_emitter.running import (
    agree,
    emitted,
    kinds,
    numbers,
    parsed,
    run_file,
    with_weights,
)

COORDINATES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric",
               "align_corners")  # fmt: skip
NEAREST = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def scaled(shape: str, out: str, scales: list[float], attributes: str) -> Model:
    model = parsed(
        f"g (float[{shape}] x, float[{len(scales)}] s) => (float[{out}] y)"
        f" {{ y = Resize<{attributes}>(x, , s) }}"
    )
    return with_weights(model, s=np.asarray(scales, np.float32))


def test_every_rule_on_a_stack(tmp_path: Path) -> None:
    """All coordinates and modes up and down in one model, against ONNX Runtime."""
    lines, outputs, weights = [], [], {}
    sizes = {"up": [1, 2, 11, 9], "down": [1, 2, 4, 3], "one": [1, 2, 1, 14]}
    for kind, size in sizes.items():
        weights[f"size_{kind}"] = np.asarray(size, np.int64)
        for coordinates in COORDINATES:
            for mode in ("nearest", "linear", "cubic"):
                for nearest in NEAREST if mode == "nearest" else ("floor",):
                    name = f"{kind}_{coordinates}_{mode}_{nearest}"
                    lines.append(
                        f'{name} = Resize<mode="{mode}", nearest_mode="{nearest}",'
                        f' coordinate_transformation_mode="{coordinates}">(x, , , size_{kind})'
                    )
                    outputs.append(f"float[{','.join(map(str, size))}] {name}")
    given = ", ".join(f"int64[4] size_{kind}" for kind in sizes)
    text = f"g (float[1,2,5,7] x, {given}) => ({', '.join(outputs)}) {{ {' '.join(lines)} }}"
    model = with_weights(parsed(text.replace(") down", ")\n down")), **weights)
    agree(model, {"x": numbers(1, 2, 5, 7)}, tmp_path)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_free_sizes(coordinates: str, mode: str, tmp_path: Path) -> None:
    scales = [1.0, 1.0, 2.0, 0.6]
    model = scaled(
        "N,3,H,W", "N,3,P,Q", scales,
        f'mode="{mode}", coordinate_transformation_mode="{coordinates}"',
    )  # fmt: skip
    path = emitted(model, tmp_path)
    session = OrtSession(model.graph)
    for shape in ((2, 3, 4, 5), (1, 3, 3, 13)):
        feeds = {"x": numbers(*shape)}
        found, expected = run_file(path, feeds)["y"], session.run(feeds)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


def test_sizes_of_another_tensor(tmp_path: Path) -> None:
    model = parsed(
        "g (float[N,4,H,W] x, float[N,4,P,Q] z) => (float[N,4,P,Q] y) {"
        " two = Constant<value_ints=[2]>()  s = Shape<start=2>(z)  head = Shape<end=2>(x)"
        ' all = Concat<axis=0>(head, s)  r = Resize<mode="linear">(x, , , all)  y = Add(r, z) }'
    )
    feeds = {"x": numbers(2, 4, 3, 5), "z": numbers(2, 4, 7, 4)}
    agree(model, feeds, tmp_path)
    assert "RESIZE_BILINEAR" in kinds(model)


def test_a_pyramid_keeps_its_layout(tmp_path: Path) -> None:
    """Convolutions leave sizes without names; a Resize by a scale has its batch all the same."""
    model = with_weights(
        parsed(
            "g (float[N,3,H,W] x, float[4,3,3,3] w, float[4,4,3,3] v, float[4] s)"
            " => (float[N,4,P,Q] y) {"
            " a = Conv<strides=[2, 2], pads=[1, 1, 1, 1]>(x, w)"
            " b = Conv<strides=[2, 2], pads=[1, 1, 1, 1]>(a, v)  c = Add(b, b)"
            ' d = Resize<mode="linear">(c, , s)  e = Add(a, d)'
            " f = Resize(e, , s)  y = Relu(f) }"
        ),
        w=numbers(4, 3, 3, 3),
        v=numbers(4, 4, 3, 3, seed=1),
        s=np.asarray([1, 1, 2, 2], np.float32),
    )
    agree(model, {"x": numbers(2, 3, 8, 12)}, tmp_path)
    made = kinds(model)
    assert made.count("TRANSPOSE") == 2
    assert "RESIZE_BILINEAR" in made and "RESIZE_NEAREST_NEIGHBOR" in made


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"',
         "RESIZE_NEAREST_NEIGHBOR"),
        ('mode="nearest"', "RESIZE_NEAREST_NEIGHBOR"),
        ('mode="linear"', "RESIZE_BILINEAR"),
        ('mode="linear", coordinate_transformation_mode="pytorch_half_pixel"', "RESIZE_BILINEAR"),
        ('mode="linear", coordinate_transformation_mode="align_corners"', "RESIZE_BILINEAR"),
        ('mode="linear", coordinate_transformation_mode="asymmetric"', "RESIZE_BILINEAR"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", ["1,4,6,8", "N,4,H,W"])
def test_one_operator_where_it_does_the_same(
    attributes: str, expected: str, shape: str, tmp_path: Path
) -> None:
    out = "1,4,12,16" if shape[0] == "1" else "N,4,P,Q"
    model = scaled(shape, out, [1.0, 1.0, 2.0, 2.0], attributes)
    made = kinds(model)
    assert expected in made and "GATHER" not in made
    agree(model, {"x": numbers(1, 4, 6, 8)}, tmp_path)


def test_any_axes_and_ranks(tmp_path: Path) -> None:
    model = with_weights(
        parsed(
            "g (float[2,3,4] x, float[2,2,3,4,2] v, float[2] a, float[3] b, int64[2] c)"
            " => (float[P,3,Q] line, float[2,2,K,L,M] block, float[2,3,S] alone) {"
            ' line = Resize<mode="linear", axes=[2, 0]>(x, , a)'
            ' block = Resize<mode="linear", axes=[2, 3, 4]>(v, , b)'
            ' alone = Resize<mode="linear", axes=[-1, 1]>(x, , , c) }'
        ),
        a=np.asarray([2.5, 1.5], np.float32),
        b=np.asarray([2, 0.5, 3], np.float32),
        c=np.asarray([9, 3], np.int64),
    )
    agree(model, {"x": numbers(2, 3, 4), "v": numbers(2, 2, 3, 4, 2)}, tmp_path)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
def test_antialias(mode: str, exclude: int, tmp_path: Path) -> None:
    model = scaled(
        "2,3,16,12", "2,3,6,18", [1.0, 1.0, 0.4, 1.5],
        f'mode="{mode}", antialias=1, exclude_outside={exclude}',
    )  # fmt: skip
    agree(model, {"x": numbers(2, 3, 16, 12)}, tmp_path)


def test_a_region(tmp_path: Path) -> None:
    model = with_weights(
        parsed(
            "g (float[1,1,8,8] x, float[8] roi, int64[4] s) => (float[1,1,5,6] y) {"
            ' y = Resize<mode="linear", coordinate_transformation_mode="tf_crop_and_resize",'
            " extrapolation_value=7.0>(x, roi, , s) }"
        ),
        roi=np.asarray([0, 0, 0.3, -0.2, 1, 1, 1.2, 0.8], np.float32),
        s=np.asarray([1, 1, 5, 6], np.int64),
    )
    agree(model, {"x": numbers(1, 1, 8, 8)}, tmp_path)


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_whole_numbers_by_nearest(dtype: str, tmp_path: Path) -> None:
    model = with_weights(
        parsed(
            f"g ({dtype}[1,2,3,4] x, float[4] s) => ({dtype}[1,2,6,8] y) {{ y = Resize(x,,s) }}"
        ),
        s=np.asarray([1, 1, 2, 2], np.float32),
    )
    agree(model, {"x": np.arange(24, dtype=dtype).reshape(1, 2, 3, 4)}, tmp_path)


QUANTIZED = """g (float[1,4,5,6] x, float one, int8 p, float two, int8 q, float[4] s)
    => (float[1,4,K,L] y) {
    a = QuantizeLinear(x, one, p)  b = DequantizeLinear(a, one, p)
    c = Resize<%s>(b, , s)
    d = QuantizeLinear(c, two, q)  y = DequantizeLinear(d, two, q) }"""


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("scales", [(2.0, 2.0), (1.6, 0.5)])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_in_integers(mode: str, scales: tuple[float, float], other: bool, tmp_path: Path) -> None:
    """Within one step of ONNX Runtime, whose floats are rounded once; nearest that keeps its
    scale exactly."""
    scale = np.asarray(0.03, np.float32)
    model = with_weights(
        parsed(QUANTIZED % f'mode="{mode}"'),
        one=scale, p=np.asarray(3, np.int8), two=np.asarray(0.041, np.float32) if other else scale,
        q=np.asarray(-5 if other else 3, np.int8), s=np.asarray([1, 1, *scales], np.float32),
    )  # fmt: skip
    step = 0.0411 if other or mode != "nearest" else 1e-5
    agree(model, {"x": numbers(1, 4, 5, 6)}, tmp_path, atol=step)
    if mode != "cubic" and scales[0] == 2.0:
        assert [kind for kind in kinds(model) if kind.startswith("RESIZE_")]


def test_what_is_refused() -> None:
    model = parsed(
        "g (uint8[1,2,3,4] x, float[N,1,H,W] z, float[4] s) => (uint8[1,2,6,8] y, float[N,1,P,Q] w)"
        ' { y = Resize<mode="linear">(x, , s)  w = Resize<mode="linear", antialias=1>(z, , s) }'
    )
    model = with_weights(model, s=np.asarray([1, 1, 2, 2], np.float32))
    reasons = [item.reason for item in lower(model).refusals]
    assert len(reasons) == 2
    assert "uint8" in reasons[0] and "antialias" in reasons[1]
