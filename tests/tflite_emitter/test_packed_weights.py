"""Large files are checked with XNNPACK's packed weights in a file, not in memory."""

import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from emitters.tflite import session as sessions
from emitters.tflite.session import open_file
from tests.operators.cases import parsed, with_weights
from tests.tflite_emitter.running import REQUEST, emitted

WIDTH, COUNT = 1024, 12
LEFT = """g (float[2,6] x, int64[2] n) => (float[2,6] y, int64[2] m)
    <int64 axis = {1}> { a = Exp (x) y = CumSum (a, axis) m = Add (n, n) }"""
FREE = "g (float[batch,6] x) => (float[batch,6] y) { y = Exp (x) }"
FOUND = "g (float[2,6] x) => (int64[2,count] y) { a = Relu (x) y = NonZero (a) }"


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "LARGE", 1000)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from Linux's /proc")
def test_packed_weights_are_not_held_beside_the_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [f"w{at}" for at in range(COUNT)]
    given = ", ".join(f"float[{WIDTH},{WIDTH}] {name}" for name in names)
    nodes = " ".join(f"x{at + 1} = MatMul (x{at}, w{at})" for at in range(COUNT))
    ends = f"(float[3,{WIDTH}] x0, {given}) => (float[3,{WIDTH}] x{COUNT})"
    weights = rng.standard_normal((COUNT, WIDTH, WIDTH), np.float32) / np.float32(WIDTH**0.5)
    model = with_weights(
        parsed(f"g {ends} {{ {nodes} }}"), **dict(zip(names, weights, strict=True))
    )
    path = emitted(model, tmp_path)
    feeds = {"x0": rng.standard_normal((3, WIDTH), np.float32)}
    taken, found = {}, {}
    for frugal in (False, True):
        with closing(open_file(path, REQUEST, frugal=frugal)) as session:
            found[frugal] = session.run(feeds)[f"x{COUNT}"]
            status = Path(f"/proc/{session._worker._child.pid}/status").read_text()
            taken[frugal] = int(status.split("VmHWM:")[1].split()[0]) * 1024
    np.testing.assert_array_equal(found[True], found[False])
    assert taken[False] - taken[True] > path.stat().st_size / 2


def test_what_is_left_to_other_kernels_is_run_and_told(tmp_path: Path) -> None:
    path = emitted(parsed(LEFT), tmp_path)
    feeds = {"x": np.ones((2, 6), np.float32), "n": np.arange(2) << 40}
    found = {}
    for frugal in (False, True):
        with closing(open_file(path, REQUEST, frugal=frugal)) as session:
            found[frugal] = session.run(feeds)
    for name, array in found[False].items():
        np.testing.assert_array_equal(found[True][name], array, strict=True)
    assert session.runtime["delegated"] == "XNNPACK leaves some of 3 operators"


def test_shapes_that_hang_on_values_are_the_interpreters(tmp_path: Path) -> None:
    path = emitted(parsed(FOUND), tmp_path)
    for x in (np.ones((2, 6), np.float32), np.zeros((2, 6), np.float32)):
        with closing(open_file(path, REQUEST, frugal=True)) as session:
            np.testing.assert_array_equal(session.run({"x": x})["y"], np.nonzero(x))
            assert "leaves some" not in session.runtime["delegated"]


def test_free_sizes_are_the_interpreters(tmp_path: Path) -> None:
    """LiteRT's compiled models crash where sizes change."""
    with closing(open_file(emitted(parsed(FREE), tmp_path), REQUEST, frugal=True)) as session:
        for rows in (2, 3, 1, 5, 64):
            x = np.full((rows, 6), rows, np.float32)
            np.testing.assert_allclose(session.run({"x": x})["y"], np.exp(x), rtol=1e-6)
        assert "leaves some" not in session.runtime.get("delegated", "")
