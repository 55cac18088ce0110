"""What simplifiers are known to get wrong, and what happens here when they do."""

import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx_ir
import pytest

from converter import plugins
from converter.ir.model import Model
from converter.passes.libraries import tools
from converter.passes.libraries.library import LibraryError
from converter.passes.libraries.onnxslim import OnnxslimParameters, OnnxslimSimplifier
from converter.verify import Verifier, build_probes, run_passes
from tests.passes.models import ListedSamples, noise, run, text_model


def _verifier(model: Model) -> Verifier:
    return Verifier(model, build_probes(model, ListedSamples([noise(model, batch=1)]), {}))


def _wrongly_declared() -> Model:
    model = text_model("""m (float[batch,6] x) => (float[batch,2,3] y) <int64[1] t = {3}>
        { s = Shape(x)  i = Shape<start: int = 0, end: int = 1>(x)
          n = Constant<value = int64[1] {2}>()
          u = Concat<axis: int = 0>(i, n, t)  a = Reshape(x, u)  y = Neg(a) }""")
    model.graph.graph.outputs[0].shape = onnx_ir.Shape([1, 2, 3])
    return model


@pytest.mark.parametrize("library", ["onnxscript", "onnxslim", "onnxsim", "ort-basic"])
def test_a_wrong_declared_output_shape_changes_no_result(library: str) -> None:
    model = _wrongly_declared()
    result = run_passes(model, [plugins.load("passes", library)], _verifier(model))
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(run(result, {"x": x})["y"], run(model, {"x": x})["y"])
    assert result.outputs[0].shape == (1, 2, 3)


Child = Callable[[str], None]


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    """Makes a script the simplifiers' process, until the test is over."""

    def replacing(body: str) -> None:
        script = tmp_path / "child.py"
        script.write_text("import json, os, sys, time\n" + textwrap.dedent(body))
        tools.stop_tools()
        monkeypatch.setattr(tools, "COMMAND", (sys.executable, str(script)))

    yield replacing
    tools.stop_tools()


MODEL = "m (float[batch,4] x) => (float[batch,4] y) { a = Identity(x)  y = Exp(a) }"
DIES = "sys.stdin.readline(); os.kill(os.getpid(), 9)"


@pytest.mark.parametrize(("body", "reason"), [
    ("sys.stdin.readline(); os.kill(os.getpid(), 11)", "onnxslim crashed: .* SIGSEGV"),
    (DIES, "onnxslim crashed: .* SIGKILL"),
    ("sys.stdin.readline(); print('oh', file=sys.stderr); sys.exit(3)", "code 3; oh"),
    ("sys.stdin.readline(); time.sleep(99)", "onnxslim took longer than 1 s"),
])  # fmt: skip
def test_a_library_that_crashes_or_hangs_costs_only_itself(
    body: str, reason: str, child: Child
) -> None:
    child(body)
    model = text_model(MODEL)
    slim = OnnxslimSimplifier(OnnxslimParameters(time_limit=1))
    start = time.monotonic()
    result = run_passes(model, [slim, plugins.load("passes", "cleanup")], _verifier(model))
    assert time.monotonic() - start < 8
    crashed, cleaned = result.history
    assert (crashed.status, cleaned.status) == ("failed", "changed")
    assert re.search(reason, crashed.detail), crashed.detail


def test_the_next_call_starts_a_new_child(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tools.COMMAND
    child(DIES)
    with pytest.raises(LibraryError, match="crashed"):
        tools.run_tool("onnxslim", text_model(MODEL).graph)
    monkeypatch.setattr(tools, "COMMAND", command)
    with pytest.raises(LibraryError, match="KeyError"):  # in the library's own words
        tools.run_tool("no such tool", text_model(MODEL).graph)
    result = tools.run_tool("onnxslim", text_model(MODEL).graph)
    assert [node.op_type for node in result.graph] == ["Exp"]


@pytest.mark.parametrize(
    "written", ["b'no model'", "b''", "open(p['source'], 'rb').read().replace(b'Exp', b'Foo')"]
)
def test_what_a_library_writes_is_not_believed(
    written: str, child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(f"""
    request = json.loads(sys.stdin.readline())
    p = request["params"]
    open(p["result"], "wb").write({written})
    print(json.dumps({{"id": request["id"], "result": {{}}}}), flush=True)
    sys.stdin.read()
    """)
    model = text_model("m (float[batch,4] x) => (float[batch,4] y) { a = Exp(x)  y = Exp(a) }")
    monkeypatch.setattr(OnnxslimSimplifier, "must_shrink", False)
    slim = OnnxslimSimplifier(OnnxslimParameters(time_limit=60))
    record = run_passes(model, [slim], _verifier(model)).history[0]
    assert record.status in ("failed", "rolled-back") and record.detail
