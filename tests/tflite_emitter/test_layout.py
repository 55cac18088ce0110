"""Channels last inside, the interface as it was, few transposes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from converter.ir import Model
from tests.tflite_emitter.running import agree, kinds, lowered, numbers, parsed, with_weights

TWO_CONVS = """
g (float[batch,3,8,8] x, float[4,3,3,3] w1, float[4] b1, float[5,4,1,1] w2)
  => (float[batch,5,8,8] y)
{
  a = Conv <pads=[1,1,1,1]> (x, w1, b1)
  b = Relu (a)
  y = Conv (b, w2)
}"""


def _two_convs() -> Model:
    return with_weights(
        parsed(TWO_CONVS), w1=numbers(4, 3, 3, 3), b1=numbers(4), w2=numbers(5, 4, 1, 1, seed=1)
    )


def test_one_transpose_in_and_one_out(tmp_path: Path) -> None:
    model = _two_convs()
    assert lowered(model).transposes == 2
    assert kinds(model) == ["TRANSPOSE", "CONV_2D", "CONV_2D", "TRANSPOSE"]
    agree(model, {"x": numbers(1, 3, 8, 8)}, tmp_path)


def test_the_batch_stays_free(tmp_path: Path) -> None:
    agree(_two_convs(), {"x": numbers(3, 3, 8, 8)}, tmp_path)


def test_what_has_channels_last_already_needs_none(tmp_path: Path) -> None:
    model = with_weights(
        parsed("""
g (float[1,8,8,3] x, float[4,3,3,3] w) => (float[1,6,6,4] y) {
  a = Transpose <perm=[0,3,1,2]> (x)
  b = Conv (a, w)
  y = Transpose <perm=[0,2,3,1]> (b)
}"""),
        w=numbers(4, 3, 3, 3),
    )
    assert kinds(model) == ["CONV_2D"]
    agree(model, {"x": numbers(1, 8, 8, 3)}, tmp_path)


def test_a_residual_block_stays_inside(tmp_path: Path) -> None:
    model = with_weights(
        parsed("""
g (float[1,4,8,8] x, float[4,4,3,3] w, float[4,1,1] scale) => (float[1,4] y) {
  a = Conv <pads=[1,1,1,1]> (x, w)
  b = Mul (a, scale)
  c = Add (b, x)
  d = GlobalAveragePool (c)
  y = Flatten (d)
}"""),
        w=numbers(4, 4, 3, 3),
        scale=numbers(4, 1, 1),
    )
    assert Counter(kinds(model))["TRANSPOSE"] == 1
    agree(model, {"x": numbers(1, 4, 8, 8)}, tmp_path)


def test_an_image_of_one_channel_needs_no_transpose(tmp_path: Path) -> None:
    model = with_weights(
        parsed("g (float[1,1,8,8] x, float[1,1,3,3] w) => (float[1,1,6,6] y) { y = Conv (x, w) }"),
        w=numbers(1, 1, 3, 3),
    )
    assert "TRANSPOSE" not in kinds(model)
    found = agree(model, {"x": numbers(1, 1, 8, 8)}, tmp_path)
    assert np.abs(found["y"]).max() > 0.1
