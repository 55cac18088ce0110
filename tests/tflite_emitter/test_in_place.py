"""What LiteRT writes over its input, while others still read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tflite_emitter.running import agree, kinds, numbers, parsed

WRITES = {
    "softmax": "z = Softmax <axis=1> (b)",
    "product": "z = Mul (b, b2)",
    "difference": "d = Sigmoid (b2) z = Sub (b, d)",
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("batch", ["1", "n"])
def test_a_view_of_what_is_read_later(name: str, batch: str, tmp_path: Path) -> None:
    """``a`` is in the memory of ``x0``, ``b`` is ``a``: ``z`` may not be written over it."""
    model = parsed(f"""
g (float[{batch},3,8,8] x) => (float[{batch},9,64] y, float[{batch},3,64] z)
  <int64[3] s = {{0,3,64}}, float[9,1,1] w = {{1,2,3,4,5,6,7,8,9}},
   float[3,3,1,1] k = {{1,2,3,4,5,6,7,8,9}}, float[3,1,1] m = {{1,2,3}}, float[1] b2 = {{0.5}}>
  {{ x0 = Conv (x, k) a = Mul (x0, m) b = Reshape (a, s)
     {WRITES[name]}  y = Conv <group=3> (b, w) }}""")
    agree(model, {"x": numbers(1, 3, 8, 8)}, tmp_path, rtol=1e-4, atol=1e-4)


def test_no_copy_where_nothing_reads_later() -> None:
    model = parsed("""
g (float[1,3,8,8] x) => (float[1,3,64] z)
  <int64[3] s = {1,3,64}, float[3,1,1] m = {1,2,3}>
  { a = Mul (x, m) b = Reshape (a, s) z = Softmax <axis=2> (b) }""")
    assert "TRANSPOSE" not in kinds(model)
