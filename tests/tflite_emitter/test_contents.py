"""What is counted in a file: multiply-adds at the samples' sizes, bodies and shared bytes once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter.ir import Model
from converter.plugins import Artifact
from emitters.tflite.emitter import TfliteEmitter
from tests.tflite_emitter.running import REQUEST, emitted, numbers, parsed, with_weights

FREE = """
g (float[batch,length,8] x, float[8,16] w, float[16,4] v) => (float[batch,4] y)
{
  a = MatMul (x, w)
  t = Transpose <perm=[0,2,1]> (a)
  s = MatMul (a, t)
  axes = Constant <value = int64[1] {1}> ()
  r = ReduceMean <keepdims=0> (a, axes)
  b = MatMul (r, v)
  u = ReduceMean <keepdims=1> (s)
  f = Flatten (u)
  y = Add (b, f)
}"""

BRANCH = """
g (float[2,8] x, bool c, float[8,4] w) => (float[2,4] y) {
  y = If (c) <
    then_branch = one () => (float[2,4] a) { a = MatMul (x, w) },
    else_branch = two () => (float[2,4] b) { d = MatMul (x, w)  b = Relu (d) }
  >
}"""


def _counted(model: Model, folder: Path, **sizes: int) -> tuple[list[float | None], dict[str, int]]:
    artifact = Artifact("tflite", "fp32", emitted(model, folder))
    found = TfliteEmitter().contents(artifact, REQUEST, sizes)
    assert {product.computes for product in found.products} == {"float32"}
    return [product.macs for product in found.products], dict(found.stored)


@pytest.mark.parametrize(("length", "batch"), [(1, 1), (20, 1), (5, 3)])
def test_free_sizes_are_those_of_the_samples(tmp_path: Path, length: int, batch: int) -> None:
    model = with_weights(parsed(FREE), w=numbers(8, 16), v=numbers(16, 4))
    macs, stored = _counted(model, tmp_path, batch=batch, length=length)
    rows = batch * length
    assert sorted(macs, key=str) == sorted(
        [rows * 8 * 16, rows * length * 16, batch * 16 * 4], key=str
    )
    assert stored["float32"] >= 4 * (8 * 16 + 16 * 4)


def test_bodies_count_once_each_and_what_they_share_once(tmp_path: Path) -> None:
    model = with_weights(parsed(BRANCH), w=numbers(8, 4))
    macs, stored = _counted(model, tmp_path)
    assert macs == [2 * 8 * 4] * 2
    assert stored["float32"] < 2 * 4 * np.prod((8, 4))
