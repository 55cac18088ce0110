"""Convolutions and poolings between Q and DQ, to the step, against ONNX Runtime's reals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import pytest

from converter.ir import Model
from converter.ort import OrtSession
from emitters.lowering.folding import fill_in
from tests.tflite_emitter.running import Array, emitted, kinds, numbers, parsed, run_file

SCALE = {"x": 0.03, "y": 0.11}
POINT = {"int8": {"x": 5, "y": -9}, "uint8": {"x": 133, "y": 119}}


def _quantized(
    operator: str,
    x: str,
    rank: int,
    weights: Array | None = None,
    *,
    dtype: str = "int8",
    axis: int | None = None,
    outputs: int = 0,
    same: bool = False,
) -> Model:
    """Q(operator(DQ(x), DQ(w), DQ(b))) with integers outside; per-channel with ``axis``.

    Args:
        operator: As text, of ``r``, ``v`` and ``c``.
        outputs: How many channels the bias has.
        same: Whether the output has the input's scales.
    """
    free = ",".join(f"o{place}" for place in range(rank))
    point = POINT[dtype]
    to = ("x", "x") if same else ("y", "y")
    lines = ["r = DequantizeLinear (x, xs, xz)"]
    given: dict[str, Any] = {
        "xs": np.float32(SCALE["x"]), "xz": np.asarray(point["x"], dtype),
        "ys": np.float32(SCALE[to[0]]), "yz": np.asarray(point[to[1]], dtype),
    }  # fmt: skip
    if weights is not None:
        count = 1 if axis is None else weights.shape[axis]
        scales = np.linspace(0.01, 0.02, count).astype(np.float32)
        given["w"], given["ws"] = weights, scales if axis is not None else scales[0]
        lines.append(f"v = DequantizeLinear <axis={axis or 0}> (w, ws)")
        if outputs:
            repeated = np.tile(scales, outputs // count)
            given["b"] = np.arange(-outputs, outputs, 2).astype(np.int32) * 300
            given["bs"] = (np.float32(SCALE["x"]) * repeated).astype(np.float32)
            lines.append("c = DequantizeLinear <axis=0> (b, bs)")
    lines += [f"a = {operator}", "y = QuantizeLinear (a, ys, yz)"]
    model = parsed(f"g ({dtype}[{x}] x) => ({dtype}[{free}] y) {{ {' '.join(lines)} }}")
    return _initialized(model, given)


def _initialized(model: Model, given: dict[str, Any]) -> Model:
    """With constants for the names that nothing makes."""
    values = {
        value.name: value for node in model.nodes() for value in node.inputs if value is not None
    }
    for name, array in given.items():
        tensor = onnx_ir.Tensor(np.asarray(array), name=name)
        value = values[name]
        value.const_value, value.type = tensor, onnx_ir.TensorType(tensor.dtype)
        value.shape = onnx_ir.Shape(tensor.shape)
        model.graph.graph.register_initializer(value)
    fill_in(model.graph)
    return model


def _agree(model: Model, shape: tuple[int, ...], folder: Path) -> None:
    """Within a step, and nearly all to the step: halves are rounded to even there, away from zero
    here."""
    dtype = model.inputs[0].dtype
    limits = np.iinfo(dtype)
    x = np.random.default_rng(3).integers(limits.min, limits.max + 1, shape).astype(dtype)
    expected = OrtSession(model.graph, plain=True).run({"x": x})["y"]
    path = emitted(model, folder)
    for xnnpack in (False, True):
        found = run_file(path, {"x": x}, xnnpack=xnnpack)["y"]
        assert found.dtype == expected.dtype and found.shape == expected.shape
        apart = np.abs(found.astype(int) - expected.astype(int))
        assert apart.max() <= 1 and (apart == 0).mean() > 0.95
    assert len(np.unique(expected)) > 10


def _int8(*shape: int) -> Array:
    return np.asarray(np.clip(numbers(*shape, seed=5) * 40, -127, 127), np.int8)


CONVS = {
    "two axes": ("Conv <pads=[1,1,1,1]> (r, v, c)", (1, 3, 7, 6), (6, 3, 3, 3), 0),
    "one scale": ("Conv (r, v, c)", (1, 3, 7, 6), (6, 3, 3, 3), None),
    "no bias": ("Conv <pads=[1,1,2,2]> (r, v)", (1, 3, 7, 6), (6, 3, 3, 3), 0),
    "one axis": ("Conv <pads=[1,1]> (r, v, c)", (1, 3, 9), (6, 3, 3), 0),
    "groups": ("Conv <group=3> (r, v, c)", (1, 6, 7, 6), (6, 2, 3, 3), 0),
    "each channel": ("Conv <group=6, pads=[1,0,1,0]> (r, v, c)", (1, 6, 7, 6), (6, 1, 3, 3), 0),
    "same lower": (
        'Conv <auto_pad="SAME_LOWER", strides=[2,2]> (r, v, c)', (1, 3, 6, 6), (6, 3, 3, 3), 0,
    ),
    "three axes": ("Conv (r, v, c)", (1, 2, 4, 4, 4), (6, 2, 2, 2, 2), 0),
    "transposed": (
        "ConvTranspose <strides=[2,2], pads=[1,1,1,1]> (r, v, c)", (1, 3, 5, 4), (3, 6, 4, 4), 1,
    ),
    "transposed, cut": (
        "ConvTranspose <strides=[2,2], pads=[1,1,0,1]> (r, v, c)", (1, 3, 5, 4), (3, 6, 3, 3), None,
    ),
    "transposed, one axis": ("ConvTranspose <strides=[2]> (r, v)", (1, 3, 5), (3, 6, 3), 1),
    "transposed, groups": (
        "ConvTranspose <group=2, strides=[2,2]> (r, v, c)", (1, 4, 5, 4), (4, 3, 3, 3), 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", CONVS)
def test_conv(name: str, dtype: str, tmp_path: Path) -> None:
    operator, x, weights, axis = CONVS[name]
    model = _quantized(
        operator, ",".join(map(str, x)), len(x), _int8(*weights), dtype=dtype, axis=axis,
        outputs=6 if "c)" in operator else 0,
    )  # fmt: skip
    if name != "three axes":
        assert "DEQUANTIZE" not in kinds(model)
    _agree(model, x, tmp_path)


def test_weights_with_a_zero_point_are_computed_in_reals(tmp_path: Path) -> None:
    model = _initialized(
        parsed("""
g (uint8[1,3,6,6] x) => (uint8[1,4,4,4] y) {
  r = DequantizeLinear (x, xs, xz)
  v = DequantizeLinear (w, ws, wz)
  a = Conv (r, v)
  y = QuantizeLinear (a, ys, yz)
}"""),
        {
            "xs": np.float32(0.03), "xz": np.uint8(100), "ws": np.float32(0.02), "wz": np.uint8(90),
            "w": np.random.default_rng(0).integers(0, 256, (4, 3, 3, 3)).astype(np.uint8),
            "ys": np.float32(0.3), "yz": np.uint8(128),
        },
    )  # fmt: skip
    _agree(model, (1, 3, 6, 6), tmp_path)


def test_q_linear_conv_is_a_conv_in_integers(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    model = _initialized(
        parsed("""
g (uint8[1,3,6,6] x) => (uint8[1,4,4,4] y)
  { y = QLinearConv (x, xs, xz, w, ws, wz, ys, yz, b) }"""),
        {
            "xs": np.float32(0.03), "xz": np.uint8(100),
            "ws": np.asarray([0.01, 0.02, 0.03, 0.04], np.float32), "wz": np.zeros(4, np.int8),
            "w": generator.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
            "ys": np.float32(0.4), "yz": np.uint8(128),
            "b": np.asarray([1000, -2000, 0, 50], np.int32),
        },
    )  # fmt: skip
    assert "CONV_2D" in kinds(model) and "DEQUANTIZE" not in kinds(model)
    _agree(model, (1, 3, 6, 6), tmp_path)


POOLS = {
    "max": ("MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (r)", True),
    "max, other scales": ("MaxPool <kernel_shape=[3,3], pads=[1,0,1,1]> (r)", False),
    "max, dilated": ("MaxPool <kernel_shape=[2,2], dilations=[2,2]> (r)", True),
    "average": ("AveragePool <kernel_shape=[3,3], strides=[2,2]> (r)", True),
    "average, other scales": ("AveragePool <kernel_shape=[2,2], strides=[2,2]> (r)", False),
    "average, dilated": ("AveragePool <kernel_shape=[2,3], dilations=[2,1]> (r)", False),
    "average, dilated, same scales": (
        "AveragePool <kernel_shape=[3,3], dilations=[2,1]> (r)", True,
    ),
    "average, padded": (
        "AveragePool <kernel_shape=[3,3], pads=[1,1,0,1], count_include_pad=1> (r)", False,
    ),
    "average, counted": (
        "AveragePool <kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1> (r)", True,
    ),
    "average, not counted": ("AveragePool <kernel_shape=[3,3], pads=[1,1,0,1]> (r)", True),
    "average, ceil": ("AveragePool <kernel_shape=[3,3], strides=[2,2], ceil_mode=1> (r)", True),
    "global average": ("GlobalAveragePool (r)", False),
}  # fmt: skip


def test_an_average_in_other_scales_stays_in_integers() -> None:
    model = _quantized(POOLS["average, other scales"][0], "1,40,8,8", 4)
    assert kinds(model) == ["TRANSPOSE", "DEPTHWISE_CONV_2D", "TRANSPOSE"]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", POOLS)
def test_pool(name: str, dtype: str, tmp_path: Path) -> None:
    operator, same = POOLS[name]
    model = _quantized(operator, "1,40,8,8", 4, dtype=dtype, same=same)
    _agree(model, (1, 40, 8, 8), tmp_path)


FREE = {
    "conv": ("Conv <pads=[1,1,1,1], strides=[2,2]> (r, v, c)", (6, 4, 3, 3), 0),
    "same lower": ('Conv <auto_pad="SAME_LOWER", strides=[2,2]> (r, v, c)', (6, 4, 3, 3), 0),
    "transposed": ("ConvTranspose <strides=[2,2], pads=[1,1,0,0]> (r, v, c)", (4, 6, 3, 3), 1),
    "transposed, groups": ("ConvTranspose <group=2, strides=[2,2]> (r, v, c)", (4, 3, 3, 3), 1),
    "max": ("MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (r)", None, 0),
    "average": ("AveragePool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (r)", None, 0),
}


@pytest.mark.parametrize("name", FREE)
def test_over_free_dimensions(name: str, tmp_path: Path) -> None:
    operator, weights, axis = FREE[name]
    given = None if weights is None else _int8(*weights)
    outputs = 6 if "c)" in operator else 0
    model = _quantized(operator, "n,4,h,w", 4, given, axis=axis, outputs=outputs)
    _agree(model, (2, 4, 9, 8), tmp_path)


def test_a_bias_of_other_scales_is_computed_in_reals(tmp_path: Path) -> None:
    model = _quantized("Conv (r, v, c)", "1,3,7,6", 4, _int8(6, 3, 3, 3), axis=0, outputs=6)
    scales = model.graph.graph.initializers["bs"]
    scales.const_value = onnx_ir.Tensor(np.full(6, 0.001, np.float32), name="bs")
    assert "DEQUANTIZE" in kinds(model)
    _agree(model, (1, 3, 7, 6), tmp_path)
