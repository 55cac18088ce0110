"""What XNNPACK takes, by LiteRT itself, and what the GPU delegate's list has."""

from contextlib import closing
from pathlib import Path

import numpy as np

from emitters.tflite.delegates import left_by_gpu, told
from emitters.tflite.session import open_file
from tests.operators.cases import parsed
from tests.tflite_emitter.running import REQUEST, emitted, lowered

MIXED = """
g (float[2,6] x) => (float[2,6] y, float[2,6] z, float[2,6] w) <int64 axis = {1}> {
  a = Exp (x) b = CumSum (a, axis) y = Sigmoid (b)
  c = Abs (x) d = Sqrt (c) z = Add (d, y) w = Round (z)
}"""

FEEDS = {"x": np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)}


def test_what_xnnpack_leaves_is_told(tmp_path: Path) -> None:
    path = emitted(parsed(MIXED), tmp_path)
    with closing(open_file(path, REQUEST)) as session:
        session.run(FEEDS)
        assert session.runtime["delegated"] == "XNNPACK leaves 1 of 7 operators: 1 CUMSUM"
    with closing(open_file(path, REQUEST, xnnpack=False)) as alone:
        alone.run(FEEDS)
        assert "delegated" not in alone.runtime
    path = emitted(parsed("g (float[2] x) => (float[2] y) { y = Sigmoid (x) }"), tmp_path)
    with closing(open_file(path, REQUEST)) as session:
        assert "delegated" not in session.runtime
        session.run({"x": np.zeros(2, np.float32)})
        assert session.runtime["delegated"] == "XNNPACK takes all 1 operators"


def test_the_gpu_list_is_gone_by() -> None:
    model = lowered(parsed(MIXED)).model
    assert left_by_gpu(model) == {"ABS": 1, "CUMSUM": 1, "EXP": 1, "ROUND": 1, "SQRT": 1}
    assert told(model) == [
        "the GPU delegate's published list lacks 5 of 7 operators, which stay on the CPU: "
        "1 ABS, 1 CUMSUM, 1 EXP, 1 ROUND, 1 SQRT"
    ]
    taken = lowered(parsed("g (float[2,4] x) => (float[2,4] y) { y = Relu (x) }")).model
    assert told(taken) == ["the GPU delegate's published list has all 1 operators"]


def test_newer_versions_are_not_on_the_gpu_list() -> None:
    old = parsed("g (float[1,1,1,2,4] x) => (float[2,1,1,2,4] y) { y = Concat <axis=0> (x, x) }")
    new = parsed("""g (float[1,2,3,4,5] x) => (float[1,2,3,4,2] y)
        <int64[1] a = {0}, int64[1] b = {2}, int64[1] c = {4}, int64[1] d = {1}> {
            y = Slice (x, a, b, c, d)
        }""")
    assert [sum(left_by_gpu(lowered(one).model).values()) for one in (old, new)] == [0, 1]
