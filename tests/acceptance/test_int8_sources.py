"""Sources that compute in int8: their layers run in int8 kernels, and are held to int8's limits."""

from pathlib import Path

import numpy as np
import pytest

from converter.check.kernels import kernels_of
from converter.runtime.ort import OrtSession
from tests.acceptance.cli import typed, written
from tests.tflite.real import real_file

STREAM = """m (float[1, 3, 1, 8] x, int8[1, 2, 1, 8] state)
        => (float[1, 4] y, int8[1, 2, 1, 8] state_out)
    <float s = {0.02}, int8 z = {-28}, float t = {0.05}, int8 low = {-128}, int8 wz = {0},
     int64[1] from = {-2}, int64[1] end = {99}, int64[1] axis = {1}, int64[2] flat = {1, 8},
     int64[8] pads = {0, 1, 0, 0, 0, 0, 0, 0}> {
    q = QuantizeLinear(x, s, z) c = Concat<axis = 1>(state, more, q)
    state_out = Slice(c, from, end, axis) p = Pad(c, pads, z)
    n = Transpose<perm = [0, 3, 1, 2]>(p) r = DequantizeLinear(n, s, z)
    v0 = DequantizeLinear(w0, t, wz) a = Conv(r, v0) b = Relu(a)
    f = Reshape(b, flat) g = QuantizeLinear(f, t, low) h = DequantizeLinear(g, t, low)
    v1 = DequantizeLinear(w1, t, wz) o = Gemm(h, v1) i = QuantizeLinear(o, t, wz)
    y = DequantizeLinear(i, t, wz) }"""
"""A step of a stream, as an int8 TFLite file's: between Q/DQ and a Conv are a Concat with a state
and constants, a Pad, a Transpose, a Reshape; the state stays int8."""


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    shapes = {"more": (1, 1, 1, 8), "w0": (8, 8, 7, 1), "w1": (8, 4)}
    weights = {k: rng.integers(-40, 40, shape).astype(np.int8) for k, shape in shapes.items()}
    written(tmp_path / "m.onnx", STREAM, **weights)
    values = {"x": rng.standard_normal((8, 1, 3, 1, 8)).astype(np.float32)}
    values["state"] = rng.integers(-128, 128, (8, 1, 2, 1, 8)).astype(np.int8)
    (tmp_path / "s").mkdir()
    for number in range(8):
        np.savez(tmp_path / f"s/{number}.npz", **{k: v[number] for k, v in values.items()})
    return tmp_path


def test_what_moves_integers_keeps_no_layer_in_float32(stream: Path) -> None:
    assert kernels_of(stream / "m.onnx").in_float == {"Conv": 1}
    line = "convert m.onnx --samples s --to onnx,ort --no-bench --out out --json"
    assert typed(line, stream).json["report"]["verdict"] == "passed"
    made = stream / "out/onnx/fp32/model.onnx"
    found = kernels_of(made)
    assert (found.fused, found.in_float) == (2, {})
    ours, theirs = (OrtSession(path, plain=True) for path in (made, stream / "m.onnx"))
    for path in sorted((stream / "s").iterdir()):
        feeds = dict(np.load(path))
        for name, array in theirs.run(feeds).items():
            np.testing.assert_array_equal(ours.run(feeds)[name], array, name, strict=True)


def test_a_tflite_file_of_states(tmp_path: Path) -> None:
    """Nine of its fourteen convolutions ran in float32."""
    line = f"convert {real_file('okay-nabu')} --samples random:8 --to onnx --no-bench --out out"
    typed(line, tmp_path)
    found = kernels_of(tmp_path / "out/onnx/fp32/model.onnx")
    assert (found.fused, found.in_float) == (15, {})


def test_what_rounds_is_held_to_its_limits(stream: Path) -> None:
    line = "convert m.onnx --samples s --to tflite --no-bench --out out --json"
    (artifact,) = typed(line, stream).json["report"]["artifacts"]
    limits = {gate["name"]: gate["limit"] for gate in artifact["gates"]}
    assert limits["cosine"] == 0.99


def test_what_stores_integers_alone_is_not(tmp_path: Path) -> None:
    graph = """m (float[batch, 2, 8, 8] x) => (float[batch, 4, 8, 8] y) <float t = {0.05}>
        { v = DequantizeLinear(w, t) y = Conv(x, v) }"""
    weights = np.random.default_rng(0).integers(-40, 40, (4, 2, 1, 1)).astype(np.int8)
    written(tmp_path / "m.onnx", graph, w=weights)
    line = "convert m.onnx --samples random:8 --to tflite --no-bench --out out --json"
    (artifact,) = typed(line, tmp_path).json["report"]["artifacts"]
    assert {gate["limit"] for gate in artifact["gates"] if gate["name"] == "cosine"} == {0.9999}
