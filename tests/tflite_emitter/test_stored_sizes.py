"""A file of free sizes is prepared as it is stored, as on Android, not only once it is resized."""

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tests.acceptance.cli import typed, written

CASES = {
    "window": "=> (float[k, 4] y) <int64[2] t = {-1, 4}> { c = Conv<strides = [2]>(x, w)"
    " d = Transpose<perm = [0, 2, 1]>(c) y = Reshape(d, t) }",
    "linear": "=> (float[batch, 1, 3] y) { y = MatMul(x, m) }",
    "split": "=> (float[batch, 1, 4] y, float[batch, 1, k] z) <int64[2] s = {4, 8}>"
    " { y, z = Split<axis = 2>(x, s) }",
    "reshape": "=> (float[batch, 6, k] y) <int64[3] t = {0, 6, -1}> { y = Reshape(x, t) }",
    "any": "=> (float[batch, 1, n] y) { y = Relu(x) }",
}
"""Of x [batch, 1, n]; the last one runs at any size."""


@pytest.mark.parametrize("case", CASES)
def test_it_is_prepared_as_it_is_stored(case: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {"w": (4, 1, 5), "m": (12, 3)}
    used = {name: shape for name, shape in shapes.items() if f", {name})" in CASES[case]}
    weights = {name: rng.standard_normal(shape).astype("f") for name, shape in used.items()}
    written(tmp_path / "m.onnx", f"m (float[batch, 1, n] x) {CASES[case]}", **weights)
    x = rng.standard_normal((3, 1, 12)).astype("f")
    np.savez(tmp_path / "s.npz", x=x)
    line = "convert m.onnx --samples s.npz --to tflite --no-bench --out out --json"
    (made,) = typed(line, tmp_path).json["report"]["artifacts"]
    path = str(tmp_path / "out/tflite/fp32/model.tflite")
    for kind in (OpResolverType.AUTO, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
        opened = Interpreter(path, experimental_op_resolver_type=kind)
        opened.allocate_tensors()
        (given,) = opened.get_input_details()
        assert given["shape"].tolist() == [1, 1, 1 if case == "any" else 12]
        assert given["shape_signature"].tolist() == [-1, 1, -1]
    told = " ".join(made["decisions"])
    assert ("prepare the file at 1: x_dim2 = 12 (the first sample's)" in told) == (case != "any")
