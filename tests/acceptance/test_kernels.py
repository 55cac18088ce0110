"""What a target's kernels don't take, written otherwise: whole models through the command line."""

from pathlib import Path

import numpy as np

from tests.acceptance.cli import typed, written

GRAPH = """m (float[rows, 6] x, bool[rows, 6] mask, bool few) => (float[k, 6] best,
    bool[rows, 6] turned, float[p, q] y) <int64[1] zero = {0}, int64[1] one = {1}, int64 two = {2},
    int64[6] steps, int64[2] pairs = {2, -1}> {
    s = Shape (x) h = Div (s, two) k = Slice (h, zero, one)
    best, at = TopK <axis = 0> (x, k)
    turned = ReverseSequence <time_axis = 0, batch_axis = 1> (mask, steps)
    y = If (few) <then_branch = t () => (float[p, q] r) { u = Reshape (x, pairs) r = Neg (u) },
                  else_branch = e () => (float[p, q] r) { r = Exp (x) }> }"""
"""As many as half the rows, booleans turned, and a branch that no odd number of rows fits into."""


def test_litert_takes_what_it_has_no_kernel_for(tmp_path: Path) -> None:
    steps = np.array([1, 3, 2, 4, 1, 2])
    written(tmp_path / "m.onnx", GRAPH, steps=steps)
    rng = np.random.default_rng(0)
    (tmp_path / "samples").mkdir()
    for number, rows in enumerate((5, 8)):
        x, mask = rng.standard_normal((rows, 6)).astype(np.float32), rng.random((rows, 6)) < 0.5
        few = np.array(rows % 2 == 0)
        np.savez(tmp_path / f"samples/{number}.npz", x=x, mask=mask, few=few)
    line = "convert m.onnx --samples samples --to tflite --no-bench --out out --json"
    report = typed(line, tmp_path).json["report"]
    assert report["verdict"] == "passed"
