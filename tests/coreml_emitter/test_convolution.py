"""Conv, ConvTranspose, Col2Im and DeformConv, in what the official node tests leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.quantize.weight_only_storage import WeightStorage
from tests.coreml_emitter.nodes import Node, agree_all, one
from tests.coreml_emitter.running import (
    agree,
    emitted,
    kinds,
    numbers,
    parsed,
    refusals,
    with_weights,
)

CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 6, 9), (4, 3, 3), {"group": 2, "strides": [2], "pads": [0, 2]}),
    ((1, 4, 7, 8), (8, 1, 3, 2), {"group": 4, "dilations": [2, 1], "pads": [1, 0, 3, 2]}),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 1), {"strides": [2, 1, 3], "pads": [1, 0, 0, 0, 2, 1]}),
    ((1, 2, 9, 8), (3, 2, 4, 3), {"auto_pad": "SAME_LOWER", "strides": [3, 2]}),
    ((1, 2, 5, 8), (3, 2, 2, 3), {"auto_pad": "VALID"}),
]
TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 4, 5), (4, 3, 3), {"strides": [2], "pads": [1, 0], "output_padding": [1]}),
    ((2, 4, 5, 4), (4, 3, 3, 2), {"group": 2, "strides": [2, 3], "output_padding": [1, 2]}),
    ((1, 2, 4, 5), (2, 3, 3, 3), {"dilations": [2, 1], "strides": [1, 2], "pads": [2, 1, 0, 1]}),
    ((1, 2, 4, 5), (2, 3, 3, 3), {"output_shape": [10, 9], "strides": [2, 2]}),
    ((1, 2, 4, 5), (2, 3, 2, 2), {"output_shape": [9, 11], "strides": [2, 2]}),
    ((1, 2, 4, 5), (2, 3, 4, 3), {"auto_pad": "SAME_LOWER", "strides": [1, 2]}),
    ((1, 2, 4, 5), (2, 3, 5, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((1, 2, 3, 4, 2), (2, 2, 2, 3, 2), {"strides": [2, 1, 2], "pads": [0, 1, 0, 1, 1, 0]}),
]


@pytest.mark.parametrize("target", [15, 17])
def test_conv(target: int) -> None:
    nodes = [
        Node("Conv", {"x": sizes, "w": numbers(*weight), "b": numbers(weight[0])}, attributes)
        for sizes, weight, attributes in CONVOLUTIONS
    ]
    agree_all(nodes, target=target)


def test_same_padding_of_free_sizes() -> None:
    inputs = {"x": ("n", 2, "h", "w"), "w": numbers(3, 2, 4, 3)}
    nodes = [
        Node("Conv", inputs, {"auto_pad": f"SAME_{mode}", "strides": [stride, stride]})
        for mode in ("UPPER", "LOWER")
        for stride in (1, 2, 3)
    ]
    agree_all(nodes, [{"n": 2, "h": h, "w": w} for h, w in ((9, 8), (7, 10), (5, 5))])


@pytest.mark.parametrize("target", [16, 17])
def test_computed_weights(target: int) -> None:
    inputs: dict[str, Any] = {"x": (1, 2, 9, "w"), "w": (3, 2, 3, 2), "b": (3,)}
    attributes = {"dilations": [2, 3], "pads": [1, 0, 1, 2]}
    agree_all([Node("Conv", inputs, attributes)], [{"w": 11}], target=target)


def test_half_precision() -> None:
    half = np.float16
    inputs = {"x": ("n", 4, 8, 8), "w": numbers(4, 4, 3, 3).astype(half), "b": np.ones(4, half)}
    nodes = [Node(op, inputs, {"pads": [1, 1, 1, 1]}) for op in ("Conv", "ConvTranspose")]
    found = agree_all(nodes, [{"n": 2}], dtype="float16", rtol=1e-2, atol=1e-2)
    assert found["0_y"].dtype == half


def test_conv_of_four_axes_is_refused() -> None:
    model = one("Conv", {"x": (1, 1, 2, 2, 2, 2), "w": np.ones((1, 1, 1, 1, 1, 1), np.float32)})
    assert "5 axes" in refusals(model)[0].reason


def test_a_plain_conv_is_one_operation(tmp_path: Path) -> None:
    inputs = {"x": ("n", 2, 8, 8), "w": numbers(3, 2, 3, 3), "b": numbers(3)}
    model = one("Conv", inputs, auto_pad="SAME_UPPER", strides=[2, 2])
    assert kinds(emitted(model, tmp_path)) == ["conv"]


# -- ConvTranspose -----------------------------------------------------------------------


@pytest.mark.parametrize("target", [15, 17])
def test_conv_transpose(target: int) -> None:
    nodes = []
    for sizes, weight, attributes in TRANSPOSED:
        bias = numbers(weight[1] * attributes.get("group", 1))
        inputs = {"x": sizes, "w": numbers(*weight), "b": bias}
        nodes.append(Node("ConvTranspose", inputs, attributes))
    agree_all(nodes, target=target)


def test_conv_transpose_of_free_sizes() -> None:
    inputs = {"x": ("n", 2, "h", "w"), "w": numbers(2, 3, 3, 4), "b": numbers(3)}
    attributes = {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2]}
    sizes = [{"n": 1, "h": 4, "w": 5}, {"n": 2, "h": 3, "w": 7}]
    agree_all([Node("ConvTranspose", inputs, attributes)], sizes)


def test_computed_weights_of_a_conv_transpose() -> None:
    inputs = {"x": (1, 2, 4, 4), "w": (2, 3, 3, 3), "b": (3,)}
    agree_all([Node("ConvTranspose", inputs, {"strides": [2, 2]})])
    assert "iOS17" in refusals(one("ConvTranspose", inputs), 16)[0].remedy


# -- Col2Im and DeformConv ---------------------------------------------------------------


@pytest.mark.parametrize(("kind", "tolerance"), [("float32", 1e-5), ("float16", 1e-2)])
def test_col2im(kind: str, tolerance: float) -> None:
    block = np.asarray([2, 3])
    rest = {"x": ("n", 3 * 6, 9), "image": np.asarray([7, 9]), "block": block}
    over = {"x": (1, 2 * 6, 24), "image": np.asarray([5, 6]), "block": block}
    nodes = [
        Node("Col2Im", rest, {"strides": [2, 3], "pads": [0, 0, 0, 1]}),
        Node("Col2Im", over, {"dilations": [1, 2], "pads": [1, 1, 1, 1]}),
    ]
    agree_all(nodes, [{"n": 2}, {"n": 1}], dtype=kind, rtol=tolerance, atol=tolerance)


def test_deform_conv() -> None:
    inputs = {
        "x": ("n", 4, 5, 9),
        "w": numbers(6, 2, 3, 2),
        "offset": ("n", 2 * 2 * 6, 3, 4),
        "b": numbers(6),
        "mask": ("n", 2 * 6, 3, 4),
    }
    attributes = {"group": 2, "offset_group": 2, "strides": [2, 2], "pads": [1, 0, 1, 0]}
    model = one("DeformConv", inputs, dilations=[1, 2], **attributes)
    feeds = {
        "x": numbers(2, 4, 5, 9),
        "offset": 3 * numbers(2, 24, 3, 4, seed=1),
        "mask": numbers(2, 12, 3, 4, seed=2),
    }
    agree(model, feeds)


def test_a_constant_that_is_subtracted_stays_as_it_is() -> None:
    """coremltools' own fusing of biases negates it where it lies, for all who have it."""
    model = parsed("""
        g (float[2, 3, 5, 5] x, float[6, 3, 1, 1] w) => (float[2, 6, 5, 5] y, float[2, 6, 5, 5] z)
        <float[6, 1, 1] c = {1, 2, 3, 4, 5, 6}> {
            a = Conv(x, w)
            y = Sub(a, c)
            b = Relu(x)
            d = Conv(b, w)
            z = Add(d, c)
        }""")
    model = with_weights(model, w=numbers(6, 3, 1, 1))
    agree(model, {"x": numbers(2, 3, 5, 5)})


def test_a_compressed_weight_before_a_transpose_and_a_bias() -> None:
    model = parsed("""
        g (float[2, 32, 3, 3] x, float[48, 32, 1, 1] w, float[48] c) => (float[2, 3, 3, 48] y) {
            a = Conv(x, w)
            t = Transpose<perm = [0, 2, 3, 1]>(a)
            y = Add(t, c)
        }""")
    model = with_weights(model, w=numbers(48, 32, 1, 1) / 8, c=numbers(48))
    made = WeightStorage(model, "int8-weights").lower().model
    agree(made, {"x": numbers(2, 32, 3, 3)})


def test_a_border_of_what_becomes_channels() -> None:
    """coremltools' own moving of a pad behind a transpose has no place for it."""
    model = parsed("""
        g (float[1, 1, 1] x, float[1, 5, 2] w) => (float[1, 1, 2] y)
        <int64[6] pads = {0, 0, 2, 0, 0, 2}, float[1] value = {-2}> {
            a = Pad(x, pads, value)
            b = Transpose<perm = [0, 2, 1]>(a)
            y = Conv<pads = [1, 1]>(b, w)
        }""")
    agree(with_weights(model, w=numbers(1, 5, 2)), {"x": numbers(1, 1, 1)})
