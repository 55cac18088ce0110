"""Weights that stay compressed in the package, and are there once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.coreml_file import coremltools
from converter.ort import OrtSession
from converter.quantize.weight_only_storage import WeightStorage
from tests.coreml_emitter.running import (
    Model,
    agree,
    emitted,
    kinds,
    numbers,
    parsed,
    run_package,
    with_weights,
)

STORED = {
    "int8-weights": (16, "constexpr_affine_dequantize"),
    "int4-weights": (18, "constexpr_blockwise_shift_scale"),
    "palettized": (17, "constexpr_lut_to_dense"),
}


def recurrent(op: str, attributes: str = "") -> Model:
    """Two directions of 32 hidden elements, weights of so many gates."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    model = parsed(f"""
        g (float[s, b, 64] x, float[2, {gates * 32}, 64] w, float[2, {gates * 32}, 32] r,
           float[2, {gates * 64}] c) => (float[s, 2, b, 32] y, float[2, b, 32] h) {{
            y, h = {op} <hidden_size = 32, direction = "bidirectional"{attributes}> (x, w, r, c)
        }}""")
    made = {
        "w": numbers(2, gates * 32, 64, seed=1) / 4,
        "r": numbers(2, gates * 32, 32, seed=2) / 4,
        "c": numbers(2, gates * 64, seed=3),
    }
    return with_weights(model, **made)


@pytest.mark.parametrize("precision", STORED)
@pytest.mark.parametrize(
    ("op", "attributes", "own"),
    [("LSTM", "", "lstm"), ("RNN", "", "rnn"), ("LSTM", ", clip = 0.5", "while_loop"),
     ("GRU", "", "while_loop"), ("GRU", ", linear_before_reset = 1", "while_loop")],
)  # fmt: skip
def test_of_recurrent_operators(
    op: str, attributes: str, own: str, precision: str, tmp_path: Path
) -> None:
    """Each direction's weights, of the state and of the input; GRU's last gate may be apart. Gates
    that MIL has in another order take their scales and tables with them."""
    target, kind = STORED[precision]
    net = recurrent(op, attributes)
    made = WeightStorage(net, precision).lower().model
    path = emitted(made, tmp_path, target=target, precision=precision)
    found = kinds(path)
    assert own in found
    apart = op == "GRU" and not attributes
    assert found.count(kind) == (6 if apart else 4)
    weights = path / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    whole = sum(value.const_value.size for value in net.graph.graph.initializers.values())
    assert weights.stat().st_size < whole * 4 * 0.45
    session = OrtSession(made.graph, plain=True)
    for steps in (1, 6):
        feeds = {"x": numbers(steps, 2, 64)}
        expected = session.run(feeds)
        for name, array in run_package(path, feeds).items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-4)
    session.close()


def test_older_systems_get_the_numbers_of_recurrent_weights(tmp_path: Path) -> None:
    made = WeightStorage(recurrent("LSTM"), "int8-weights").lower().model
    agree(made, {"x": numbers(3, 2, 64)}, tmp_path, target=15, rtol=1e-4, atol=1e-4)
    assert "constexpr" not in " ".join(kinds(tmp_path / "model.mlpackage"))


HALVES = """
g (float16[batch,64,6,6] x, int64[batch,3] ids, float16[48,64,3,3] w1, float16[48,40] w2,
   float16[100,40] table) => (float16[batch,40] y, float16[batch,3,40] e)
{
  a = Conv <pads=[1,1,1,1]> (x, w1)
  m = GlobalAveragePool (a)
  f = Flatten (m)
  y = MatMul (f, w2)
  e = Gather (table, ids)
}"""


@pytest.mark.parametrize("precision", STORED)
def test_beside_float16(precision: str, tmp_path: Path) -> None:
    """What the weights become is float16, as what they are multiplied with."""
    target, kind = STORED[precision]
    shapes = {"w1": (48, 64, 3, 3), "w2": (48, 40), "table": (100, 40)}
    weights = {name: (numbers(*shape) / 8).astype(np.float16) for name, shape in shapes.items()}
    model = with_weights(parsed(HALVES), **weights)
    made = WeightStorage(model, precision).lower().model
    path = emitted(made, tmp_path, target=target, precision=f"fp16+{precision}")
    assert _types(path, kind) == ["FLOAT16"] * 3
    feeds = {"x": numbers(2, 64, 6, 6).astype(np.float16), "ids": np.array([[1, 2, 3], [99, 0, 5]])}
    expected = OrtSession(made.graph, plain=True).run(feeds)
    for name, array in run_package(path, feeds).items():
        np.testing.assert_allclose(array, expected[name], rtol=2e-2, atol=5e-3)


def _types(package: Path, kind: str) -> list[str]:
    """The types that a package's operations of a kind give."""
    coremltools()
    from coremltools.proto import MIL_pb2, Model_pb2

    path = package / "Data" / "com.apple.CoreML" / "model.mlmodel"
    function = Model_pb2.Model.FromString(path.read_bytes()).mlProgram.functions["main"]
    operations: Any = function.block_specializations[function.opset].operations
    made = [op.outputs[0].type.tensorType.dataType for op in operations if op.type == kind]
    return [MIL_pb2.DataType.Name(dtype) for dtype in made]


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


def test_a_weight_is_stored_once_whichever_branch_has_it(tmp_path: Path) -> None:
    model = parsed("""g (float[2, 64] x, float[64, 64] w, bool c) => (float[2, 64] y) {
        y = If (c) <then_branch = t () => (float[2, 64] p) { a = MatMul(x, w) p = MatMul(a, w) },
                    else_branch = e () => (float[2, 64] q) { q = MatMul(x, w) }>
    }""")
    path = emitted(with_weights(model, w=numbers(64, 64)), tmp_path)
    weights = path / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    assert weights.stat().st_size < 1.5 * 64 * 64 * 4


def test_a_weight_of_both_products_is_stored_once(tmp_path: Path) -> None:
    model = parsed("""g (float[2, 64] x, float[64, 64] w) => (float[2, 64] y)
        { a = MatMul(x, w)  y = MatMul(a, w) }""")
    path = emitted(with_weights(model, w=numbers(64, 64)), tmp_path)
    weights = path / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    assert weights.stat().st_size < 1.5 * 64 * 64 * 4
