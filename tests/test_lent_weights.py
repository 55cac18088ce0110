"""Large models in memory are opened in ONNX Runtime without a copy of their weights."""

import sys
from pathlib import Path

import numpy as np
import pytest

from converter.runtime import ort
from converter.runtime.ort import OrtSession
from converter.runtime.ort_integers import saturates
from tests.operators.cases import parsed, with_weights

WIDTH, COUNT = 2048, 6


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort, "_LARGE", 1000)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from Linux's /proc")
@pytest.mark.skipif(saturates(), reason="weights of int8 are stored as uint8 here")
@pytest.mark.parametrize("plain", [False, True])
def test_weights_of_int8_are_lent(plain: bool) -> None:
    rng = np.random.default_rng(0)
    weights = {f"w{n}": rng.integers(-127, 127, (WIDTH, WIDTH), np.int8) for n in range(COUNT)}
    given = ", ".join(f"int8[{WIDTH},{WIDTH}] {name}" for name in weights)
    nodes = " ".join(
        f"q{n} = QuantizeLinear (x{n}, s, z) d{n} = DequantizeLinear (q{n}, s, z) "
        f"r{n} = DequantizeLinear (w{n}, t) x{n + 1} = MatMul (d{n}, r{n})"
        for n in range(COUNT)
    )
    ends = f"(float[1,{WIDTH}] x0, {given}) => (float[1,{WIDTH}] x{COUNT})"
    scales = "<float s = {0.03}, uint8 z = {128}, float t = {0.0003}>"
    model = with_weights(parsed(f"g {ends} {scales} {{ {nodes} }}"), **weights)
    OrtSession(model.graph, plain=plain).close()  # whatever is loaded for it
    _most()
    before = _most()
    session = OrtSession(model.graph, plain=plain)
    assert _most() - before < COUNT * WIDTH**2 / 2
    assert session.run({"x0": np.ones((1, WIDTH), np.float32)})["x6"].any()


def test_what_is_computed_from_weights_beforehand_is_right() -> None:
    """ONNX Runtime reads some weights before it has what is lent to it."""
    table = np.random.default_rng(0).standard_normal((512, 256), np.float32)
    graph = """g (float[1,8,256] x, float[512,256] w) => (float[1,8,256] y)
        <int64[1] from = {3}, int64[1] end = {11}, int64[1] axis = {0}> {
            p = Slice (w, from, end, axis) y = Add (x, p) }"""
    session = OrtSession(with_weights(parsed(graph), w=table).graph)
    found = session.run({"x": np.zeros((1, 8, 256), np.float32)})["y"]
    np.testing.assert_array_equal(found[0], table[3:11])


def _most() -> int:
    """The most bytes that have been resident since this was called last."""
    status = Path("/proc/self/status").read_text()
    most = int(status.split("VmHWM:")[1].split()[0]) * 1024
    Path("/proc/self/clear_refs").write_text("5")  # the most is what there is now: proc(5)
    return most
