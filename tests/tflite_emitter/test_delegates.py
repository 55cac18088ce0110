"""What XNNPACK takes, by LiteRT itself, and what the GPU delegate's list has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from emitters.tflite.delegates import left_by_gpu, told
from emitters.tflite.session import open_file
from tests.tflite_emitter.running import REQUEST, emitted, lowered, parsed

MIXED = """
g (float[2,6] x) => (float[2,6] y, float[2,6] z, float[2,6] w) {
  a = Exp (x)
  axis = Constant <value = int64 {1}> ()
  b = CumSum (a, axis)
  y = Sigmoid (b)
  c = Abs (x)
  d = Sqrt (c)
  z = Add (d, y)
  w = Round (z)
}"""


def test_what_xnnpack_leaves_is_told(tmp_path: Path) -> None:
    path = emitted(parsed(MIXED), tmp_path)
    session = open_file(path, REQUEST)
    alone = open_file(path, REQUEST, xnnpack=False)
    try:
        for one in (session, alone):
            one.run({"x": np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)})
        said = session.runtime["delegated"]
        assert "delegated" not in alone.runtime
    finally:
        session.close()
        alone.close()
    left = _profile(path)
    assert said == f"XNNPACK leaves {len(left)} of 7 operators: 1 CUMSUM"
    assert left == ["CUMSUM"]


def _profile(path: Path) -> list[str]:
    """What runs outside of the delegate: the operators whose results LiteRT stores, which others
    than the delegate make."""
    kinds = OpResolverType
    made = {
        kind: Interpreter(str(path), experimental_op_resolver_type=kind)
        for kind in (kinds.AUTO, kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    }
    left = []
    feeds = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)
    plain, fast = made[kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES], made[kinds.AUTO]
    for interpreter in made.values():
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], feeds)
        interpreter.invoke()
    pieces = [op for op in fast._get_ops_details() if op["op_name"] == "DELEGATE"]
    given = {int(out) for piece in pieces for out in piece["outputs"]}
    taken = {int(one) for piece in pieces for one in piece["inputs"]}
    for operator in plain._get_ops_details():
        outputs = {int(out) for out in operator["outputs"]}
        if not outputs & given and outputs & taken:
            left.append(operator["op_name"])
    return left


def test_all_taken(tmp_path: Path) -> None:
    path = emitted(parsed("g (float[2] x) => (float[2] y) { y = Sigmoid (x) }"), tmp_path)
    session = open_file(path, REQUEST)
    assert "delegated" not in session.runtime
    session.run({"x": np.zeros(2, np.float32)})
    assert session.runtime["delegated"] == "XNNPACK takes all 1 operators"
    session.close()


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
    model = lowered(
        parsed("g (float[1,1,1,2,4] x) => (float[2,1,1,2,4] y) { y = Concat <axis=0> (x, x) }")
    ).model
    assert left_by_gpu(model) == {}
    wide = parsed("""g (float[1,2,3,4,5] x) => (float[1,2,3,4,2] y) {
  a = Constant <value = int64[1] {0}> ()
  b = Constant <value = int64[1] {2}> ()
  c = Constant <value = int64[1] {4}> ()
  d = Constant <value = int64[1] {1}> ()
  y = Slice (x, a, b, c, d)
}""")
    assert sum(left_by_gpu(lowered(wide).model).values()) == 1
