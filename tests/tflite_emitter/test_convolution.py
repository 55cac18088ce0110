"""Conv and ConvTranspose in every form, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter.ir import Model
from emitters.tflite.lowering import lower
from tests.tflite_emitter.running import agree, kinds, numbers, operators, parsed, with_weights


def _model(
    op: str,
    x: str,
    weights: tuple[int, ...],
    attributes: str = "",
    *,
    bias: int = 0,
    rank: int | None = None,
) -> Model:
    """One operator of constant weights; ``x`` is the input's shape as text."""
    shape = ",".join(map(str, weights))
    free = ",".join(f"o{axis}" for axis in range(len(weights) if rank is None else rank))
    given = {"w": numbers(*weights, seed=1)}
    declared, extra = f"float[{shape}] w", "w"
    if bias:
        given["b"] = numbers(bias, seed=2)
        declared, extra = f"{declared}, float[{bias}] b", "w, b"
    body = f"{{ y = {op} {attributes} (x, {extra}) }}"
    return with_weights(
        parsed(f"g (float[{x}] x, {declared}) => (float[{free}] y) {body}"), **given
    )


CONVS = {
    "one axis": ("2,3,9", (4, 3, 3), "<pads=[1,1], strides=[2]>"),
    "one axis, dilated": ("1,3,12", (4, 3, 3), "<dilations=[3], pads=[4,2]>"),
    "one axis, each channel": ("1,6,9", (6, 1, 3), "<group=6, pads=[1,1]>"),
    "groups": ("1,4,7,6", (6, 2, 3, 2), "<group=2, pads=[1,0,1,1]>"),
    "groups, dilated": ("1,4,9,9", (8, 1, 3, 3), "<group=4, dilations=[2,2]>"),
    "groups with a channel": ("1,4,7,7", (12, 1, 3, 3), "<group=4, strides=[2,1]>"),
    "uneven pads": ("1,2,7,8", (3, 2, 3, 3), "<pads=[0,1,2,0], strides=[2,2]>"),
    "same upper": ("1,2,7,8", (3, 2, 4, 3), '<auto_pad="SAME_UPPER", strides=[2,3]>'),
    "same lower": ("1,2,7,8", (3, 2, 4, 3), '<auto_pad="SAME_LOWER", strides=[2,3]>'),
    "valid": ("1,2,7,8", (3, 2, 4, 3), '<auto_pad="VALID">'),
    "three axes": ("1,2,5,6,7", (3, 2, 3, 2, 3), "<pads=[1,0,1,1,1,1], strides=[2,1,2]>"),
    "three axes, dilated": ("1,2,6,6,6", (3, 2, 2, 2, 2), "<dilations=[2,1,3]>"),
    "three axes, groups": ("1,4,4,4,4", (6, 2, 2, 2, 2), "<group=2>"),
}


@pytest.mark.parametrize("name", CONVS)
def test_conv(name: str, tmp_path: Path) -> None:
    x, weights, attributes = CONVS[name]
    model = _model("Conv", x, weights, attributes, bias=weights[0])
    agree(model, {"x": numbers(*map(int, x.split(",")))}, tmp_path)


FREE: dict[str, tuple[str, tuple[int, ...], str, list[tuple[int, ...]]]] = {
    "one axis": ("n,3,l", (4, 3, 3), "<pads=[1,1], strides=[2]>", [(1, 3, 9), (2, 3, 16)]),
    "same upper": (
        "n,2,h,w", (3, 2, 4, 3), '<auto_pad="SAME_UPPER", strides=[2,3]>',
        [(1, 2, 7, 8), (2, 2, 10, 9)],
    ),
    "same lower": (
        "n,2,h,8", (3, 2, 4, 3), '<auto_pad="SAME_LOWER", strides=[2,3]>',
        [(1, 2, 7, 8), (1, 2, 10, 8)],
    ),
    "pads": ("1,2,h,w", (3, 2, 3, 3), "<pads=[1,1,1,1], strides=[2,2]>", [(1, 2, 7, 8)]),
    "three axes": ("n,2,d,h,w", (3, 2, 2, 2, 2), "<pads=[1,1,1,1,1,1]>", [(2, 2, 3, 4, 5)]),
}  # fmt: skip


@pytest.mark.parametrize("name", FREE)
def test_conv_over_free_dimensions(name: str, tmp_path: Path) -> None:
    x, weights, attributes, sizes = FREE[name]
    model = _model("Conv", x, weights, attributes)
    for size in sizes:
        agree(model, {"x": numbers(*size)}, tmp_path)


@pytest.mark.parametrize("shape", ["1,4,16", "n,4,l"])
def test_a_network_of_one_axis_stays_images(shape: str, tmp_path: Path) -> None:
    model = with_weights(
        parsed(f"""
g (float[{shape}] x, float[4,4,3] v, float[4,4,3] w) => (float[o,4,p] y) {{
  a = Conv <pads=[1,1]> (x, v)
  b = Relu (a)
  c = Conv <pads=[1,1]> (b, w)
  d = Add (b, c)
  e = Tanh (d)
  y = Conv (e, w)
}}"""),
        v=numbers(4, 4, 3),
        w=numbers(4, 4, 3, seed=1),
    )
    made = kinds(model)
    inner = made[made.index("CONV_2D") : len(made) - made[::-1].index("CONV_2D")]
    assert inner == ["CONV_2D", "CONV_2D", "ADD", "TANH", "CONV_2D"]
    agree(model, {"x": numbers(1, 4, 16)}, tmp_path)


@pytest.mark.parametrize("group", [1, 2, 4])
def test_computed_weights_and_bias(group: int, tmp_path: Path) -> None:
    each = 4 // group
    model = parsed(f"""
g (float[1,4,6,6] x, float[4,{each},3,3] w, float[4] b) => (float[1,4,4,4] y)
  {{ v = Exp (w) y = Conv <group={group}> (x, v, b) }}""")
    feeds = {"x": numbers(1, 4, 6, 6), "w": numbers(4, each, 3, 3, seed=1), "b": numbers(4)}
    agree(model, feeds, tmp_path, rtol=1e-4, atol=1e-4)


def test_weights_of_float16_stay_so(tmp_path: Path) -> None:
    model = with_weights(
        parsed("""
g (float16[1,8,6,6] x, float16[16,8,3,3] w) => (float16[1,16,4,4] y) { y = Conv (x, w) }"""),
        w=numbers(16, 8, 3, 3).astype(np.float16),
    )
    assert kinds(model).count("TRANSPOSE") == 2
    found = agree(
        model, {"x": numbers(1, 8, 6, 6).astype(np.float16)}, tmp_path, rtol=1e-2, atol=5e-2
    )
    assert found["y"].dtype == np.float16


@pytest.mark.parametrize("group", [1, 2])
def test_weights_of_float16_of_a_transposed_conv(group: int, tmp_path: Path) -> None:
    model = with_weights(
        parsed(f"""
g (float16[1,16,5] x, float16[16,16,6] w) => (float16[1,{16 * group},14] y)
  {{ y = ConvTranspose <strides=[2], group={group}> (x, w) }}"""),
        w=numbers(16, 16, 6).astype(np.float16),
    )
    weights = [op for op in operators(model) if op.op == "DEQUANTIZE"]
    assert any(op.inputs[0] is not None and op.inputs[0].is_constant for op in weights)
    x = numbers(1, 16, 5).astype(np.float16)
    agree(model, {"x": x}, tmp_path, rtol=1e-2, atol=5e-2)


TRANSPOSED = {
    "one axis": ("1,3,5", (3, 4, 3), "<strides=[2], pads=[1,1], output_padding=[1]>"),
    "twice as large": ("1,3,5,4", (3, 4, 4, 4), "<strides=[2,2], pads=[1,1,1,1]>"),
    "output padding": (
        "1,3,5,4", (3, 4, 3, 3), "<strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]>",
    ),
    "more than there is": ("1,3,5,4", (3, 4, 2, 3), "<strides=[3,2], output_padding=[2,1]>"),
    "uneven pads": ("1,3,5,4", (3, 4, 3, 3), "<strides=[2,3], pads=[0,1,2,0]>"),
    "groups": ("1,4,5,4", (4, 3, 3, 3), "<group=2, strides=[2,2], pads=[1,1,1,1]>"),
    "each channel": ("1,4,5,4", (4, 1, 4, 4), "<group=4, strides=[2,2], pads=[1,1,1,1]>"),
    "dilated": ("1,3,5,4", (3, 4, 3, 2), "<dilations=[2,3], strides=[1,2], pads=[1,0,2,1]>"),
    "same upper": ("1,3,5,4", (3, 4, 3, 4), '<auto_pad="SAME_UPPER", strides=[2,3]>'),
    "same lower": ("1,3,5,4", (3, 4, 3, 4), '<auto_pad="SAME_LOWER", strides=[2,3]>'),
    "output shape": ("1,3,5,4", (3, 4, 3, 3), "<output_shape=[10,9], strides=[2,2]>"),
    "three axes": (
        "1,2,3,4,3", (2, 3, 3, 3, 2), "<strides=[2,1,2], pads=[1,0,0,1,1,0]>",
    ),
    "three axes, groups": ("1,4,3,3,3", (4, 1, 2, 2, 2), "<group=2, strides=[2,2,2]>"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSPOSED)
def test_conv_transpose(name: str, tmp_path: Path) -> None:
    x, weights, attributes = TRANSPOSED[name]
    groups = 2 if "group=2" in attributes else 4 if "group=4" in attributes else 1
    model = _model("ConvTranspose", x, weights, attributes, bias=weights[1] * groups)
    agree(model, {"x": numbers(*map(int, x.split(",")))}, tmp_path)


LARGER_PIXELS = {
    "kernel of the stride": ((3, 4, 2, 2), "<strides=[2,2]>", ["CONV_2D", "DEPTH_TO_SPACE"]),
    "kernel of two strides": (
        (3, 4, 4, 4), "<strides=[2,2], pads=[1,1,1,1]>",
        ["PAD", "CONV_2D", "DEPTH_TO_SPACE", "STRIDED_SLICE"],
    ),
    "pads of a pixel": (
        (3, 4, 6, 6), "<strides=[2,2], pads=[2,2,2,2]>", ["CONV_2D", "DEPTH_TO_SPACE"],
    ),
    "other pads behind": (
        (3, 4, 8, 8), "<strides=[4,4], pads=[5,0,1,7]>",
        ["PAD", "CONV_2D", "DEPTH_TO_SPACE", "STRIDED_SLICE"],
    ),
    "no stride": ((3, 4, 3, 3), "<strides=[1,1], pads=[1,1,1,1]>", ["CONV_2D"]),
    "rows as they are": ((3, 4, 1, 4), "<strides=[1,2]>", ["PAD", "CONV_2D", "RESHAPE"]),
    "strides that differ": (
        (3, 4, 4, 4), "<strides=[2,4], pads=[1,0,1,0]>", ["TRANSPOSE_CONV"],
    ),
    "a kernel too small": ((3, 4, 1, 1), "<strides=[2,2]>", ["TRANSPOSE_CONV"]),
}  # fmt: skip


@pytest.mark.parametrize("batch", ["2", "n"])
@pytest.mark.parametrize("name", LARGER_PIXELS)
def test_a_transposed_conv_is_one_of_larger_pixels(name: str, batch: str, tmp_path: Path) -> None:
    weights, attributes, made = LARGER_PIXELS[name]
    model = _model("ConvTranspose", f"{batch},3,5,4", weights, attributes, bias=4)
    found = [op for op in kinds(model) if op != "TRANSPOSE"]
    assert batch == "n" or found == made
    agree(model, {"x": numbers(2, 3, 5, 4)}, tmp_path)


def test_an_activation_behind_a_transposed_conv_is_fused(tmp_path: Path) -> None:
    model = with_weights(
        parsed("""
g (float[n,3,5,4] x, float[3,4,4,4] w) => (float[n,4,10,8] y)
  { z = ConvTranspose <strides=[2,2], pads=[1,1,1,1]> (x, w) y = Relu (z) }"""),
        w=numbers(3, 4, 4, 4),
    )
    assert "RELU" not in kinds(model)
    agree(model, {"x": numbers(2, 3, 5, 4)}, tmp_path)


FREE_TRANSPOSED = {
    "one axis": ("n,3,l", (3, 4, 3), "<strides=[2], pads=[1,1]>", (2, 3, 5)),
    "twice as large": ("n,3,h,w", (3, 4, 4, 4), "<strides=[2,2], pads=[1,1,1,1]>", (2, 3, 5, 4)),
    "cut": ("1,3,h,4", (3, 4, 3, 3), "<strides=[2,2], pads=[1,0,1,1]>", (1, 3, 5, 4)),
    "groups": ("n,4,h,w", (4, 3, 3, 3), "<group=2, strides=[2,2], pads=[1,1,1,1]>", (2, 4, 5, 4)),
    "same": ("1,3,h,w", (3, 4, 3, 4), '<auto_pad="SAME_UPPER", strides=[2,3]>', (1, 3, 5, 4)),
    "three axes": ("n,2,d,h,w", (2, 3, 3, 3, 2), "<strides=[2,1,2]>", (2, 2, 3, 4, 3)),
}


@pytest.mark.parametrize("name", FREE_TRANSPOSED)
def test_conv_transpose_over_free_dimensions(name: str, tmp_path: Path) -> None:
    x, weights, attributes, size = FREE_TRANSPOSED[name]
    agree(_model("ConvTranspose", x, weights, attributes), {"x": numbers(*size)}, tmp_path)


def test_computed_weights_of_a_transposed_conv(tmp_path: Path) -> None:
    model = parsed("""
g (float[1,3,5,5] x, float[3,4,3,3] w) => (float[1,4,11,11] y)
  { v = Abs (w) y = ConvTranspose <strides=[2,2]> (x, v) }""")
    feeds = {"x": numbers(1, 3, 5, 5), "w": numbers(3, 4, 3, 3, seed=1)}
    agree(model, feeds, tmp_path)


def test_four_spatial_axes_are_refused() -> None:
    refusals = lower(_model("Conv", "1,1,3,3,3,3", (1, 1, 2, 2, 2, 2))).refusals
    assert "spatial axes" in refusals[0].reason


@pytest.mark.parametrize("channels", [3, 200])
def test_conv_integer_is_exact(channels: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    model = with_weights(
        parsed(f"""
g (uint8[1,{channels},7,7] x, uint8[4,{channels},3,3] w, uint8 p, uint8 q)
  => (int32[1,4,7,7] y) {{ y = ConvInteger <pads=[1,1,1,1]> (x, w, p, q) }}"""),
        w=generator.integers(0, 256, (4, channels, 3, 3)).astype(np.uint8),
        p=np.asarray(7, np.uint8),
        q=np.asarray(200, np.uint8),
    )
    x = generator.integers(0, 256, (1, channels, 7, 7)).astype(np.uint8)
    agree(model, {"x": x}, tmp_path, rtol=0, atol=0)


@pytest.mark.parametrize("batch", ["2", "n"])
@pytest.mark.parametrize(
    ("attributes", "groups", "sets", "out"),
    [
        ("pads=[1,1,1,1], strides=[2,1]", 1, 1, (4, 6)),
        ("pads=[0,1,1,0], group=2, offset_group=2", 2, 2, (6, 5)),
        ("dilations=[2,1], offset_group=4", 1, 4, (3, 4)),
    ],
)
def test_deform_conv(
    attributes: str, groups: int, sets: int, out: tuple[int, int], batch: str, tmp_path: Path
) -> None:
    """Offsets reach beyond the image on all sides."""
    weights = numbers(6, 4 // groups, 3, 3, seed=1)
    places = f"{out[0]},{out[1]}"
    model = with_weights(
        parsed(f"""
g (float[{batch},4,7,6] x, float[6,{4 // groups},3,3] w, float[{batch},{18 * sets},{places}] o,
   float[6] b, float[{batch},{9 * sets},{places}] m) => (float[{batch},6,{places}] y)
  {{ y = DeformConv <kernel_shape=[3,3], {attributes}> (x, w, o, b, m) }}"""),
        w=weights,
        b=numbers(6),
    )
    feeds = {
        "x": numbers(2, 4, 7, 6),
        "o": 3 * numbers(2, 18 * sets, *out, seed=2),
        "m": numbers(2, 9 * sets, *out, seed=3),
    }
    agree(model, feeds, tmp_path, rtol=1e-4, atol=1e-4)
