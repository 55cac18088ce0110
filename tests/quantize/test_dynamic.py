"""int8-dynamic: weights that are shared, factors of Gemm, recurrent layers, what stays."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.acceptance.cli import typed, written

Array = np.ndarray[Any, Any]


def weights(*shape: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 0.3).astype(np.float32)


PRODUCTS: dict[str, tuple[str, dict[str, Array], int]] = {
    "a weight that two take": (
        """g (float[batch, 16] x, float[batch, 16] y) => (float[batch, 24] z) {
        a = Gemm <transB = 1> (x, w, b) c = Gemm <transB = 1> (y, w, b) z = Sub (a, c) }""",
        {"w": weights(24, 16), "b": weights(24)},
        2,
    ),
    "Gemm's factors": (
        """g (float[batch, 16] x) => (float[batch, 24] z) {
        z = Gemm <alpha = 0.5, beta = 3.0> (x, w, b) }""",
        {"w": weights(16, 24), "b": weights(24)},
        1,
    ),
    "a batch of matrices": (
        "g (float[batch, 2, 5, 16] x) => (float[batch, 2, 5, 24] z) { z = MatMul (x, w) }",
        {"w": weights(2, 16, 24)},
        1,
    ),
}


@pytest.mark.parametrize("what", PRODUCTS)
def test_products(what: str, tmp_path: Path) -> None:
    text, constants, count = PRODUCTS[what]
    found, ops = converted(tmp_path, text, **constants)
    assert ops["MatMulInteger"] == count
    (item,) = found["artifacts"]
    assert item["lowered_share"] == 1.0
    assert item["stored"]["int8"] == constants["w"].size


def test_lstm_and_gru(tmp_path: Path) -> None:
    text = """g (float[steps, batch, 16] x) => (float[steps, 2, batch, 8] z, float[1, batch, 8] h) {
        z = LSTM <hidden_size = 8, direction = "bidirectional"> (x, lw, lr, lb)
        u, h = GRU <hidden_size = 8> (x, gw, gr) }"""
    found, ops = converted(
        tmp_path, text, "--dim steps=7", lw=weights(2, 32, 16), lr=weights(2, 32, 8),
        lb=weights(2, 64), gw=weights(1, 24, 16, seed=1), gr=weights(1, 24, 8, seed=2),
    )  # fmt: skip
    assert (ops["DynamicQuantizeLSTM"], ops["LSTM"], ops["GRU"]) == (1, 0, 1)
    assert "ONNX Runtime has no GRU with int8 weights" in json.dumps(found)


def test_what_stays_on_request(tmp_path: Path) -> None:
    text = """g (float[batch, 16] x) => (float[batch, 8] z) {
        [first] a = Gemm (x, w, b) [second] z = MatMul (a, v) }"""
    constants = {"w": weights(16, 24), "b": weights(24), "v": weights(24, 8)}
    _, ops = converted(tmp_path, text, "--keep-float Gemm", **constants)
    assert (ops["Gemm"], ops["MatMulInteger"]) == (1, 1)


def test_a_gru_alone_is_unlowered(tmp_path: Path) -> None:
    text = """g (float[steps, batch, 16] x) => (float[1, batch, 8] h) {
        u, h = GRU <hidden_size = 8> (x, w, r) }"""
    constants = {"w": weights(1, 24, 16), "r": weights(1, 24, 8)}
    found, ops = converted(tmp_path, text, "--dim steps=7", **constants)
    assert ops["GRU"] == 1
    assert found["artifacts"][0]["lowered_share"] == 0


def converted(
    folder: Path, text: str, options: str = "", **constants: Array
) -> tuple[dict[str, Any], Counter[str]]:
    """The report of a conversion to int8-dynamic, and the operators of its file."""
    written(folder / "m.onnx", text, **constants)
    line = "convert m.onnx --precision int8-dynamic --samples random:4 --no-bench --out out"
    typed(f"{line} {options}", folder)
    (file,) = (folder / "out").rglob("*.onnx")
    ops = Counter(node.op_type for node in onnx.load(file).graph.node)
    return json.loads((folder / "out" / "report.json").read_text()), ops
