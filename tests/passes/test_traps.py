"""What simplifiers are known to get wrong, and what happens here when they do."""

from __future__ import annotations

import re
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx_ir
import onnxscript.optimizer
import pytest

from converter import plugins
from converter.ir import Model
from converter.passes import tools
from converter.passes.library import LibraryError, LibraryPass
from converter.passes.onnxslim_simplifier import OnnxslimParameters, OnnxslimSimplifier
from converter.passes.ort_basic import OrtBasic
from converter.plan import SIMPLIFY_PASSES
from converter.verify import Verifier, build_probes, run_passes
from tests.passes.models import ListedSamples, noise, run, text_model
from tests.passes.real import real_model, real_samples


def _verifier(model: Model) -> Verifier:
    return Verifier(model, build_probes(model, ListedSamples([noise(model, batch=1)]), {}))


class StockOnnxscript(LibraryPass):
    """onnxscript's optimizer with all of its default rules."""

    name = "stock-onnxscript"
    summary = "of a test"
    must_shrink = False

    def simplify(self, model: onnx_ir.Model) -> onnx_ir.Model:
        onnxscript.optimizer.optimize_ir(model)
        return model


@pytest.mark.slow
def test_silence_stays_a_number() -> None:
    """onnxscript's stock rules drop the +1e-10 before basic-pitch's Log."""
    model, samples = real_model("basic-pitch"), real_samples("basic-pitch")
    silence = {"serving_default_input_2:0": np.zeros((1, 43844, 1), np.float32)}
    stock = model.copy()
    StockOnnxscript()(stock.graph)
    assert any(np.isnan(array).any() for array in run(stock, silence).values())

    steps = [StockOnnxscript(), *(plugins.load("passes", name) for name in SIMPLIFY_PASSES)]
    result = run_passes(model, steps, Verifier(model, build_probes(model, samples, {})))
    assert result.history[0].status == "rolled-back"
    assert "on zeros" in result.history[0].detail and "NaN" in result.history[0].detail
    assert not any(np.isnan(array).any() for array in run(result, silence).values())


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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["silero-op15", "silero-half"])
def test_onnxsim_raises_on_nested_ifs_and_the_rest_goes_on(name: str) -> None:
    model, samples = real_model(name), real_samples(name)
    steps = [plugins.load("passes", step) for step in ("onnxsim", "cleanup", "onnxscript")]
    result = run_passes(model, steps, Verifier(model, build_probes(model, samples, {})))
    assert [record.status for record in result.history] == ["failed", "changed", "changed"]
    assert "topologically sorted" in result.history[0].detail


def test_onnx_runtimes_own_operators_do_not_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extended level fuses Conv and LeakyRelu into com.microsoft::FusedConv."""
    monkeypatch.setattr(OrtBasic, "level", "ORT_ENABLE_EXTENDED")
    model = text_model(
        "m (float[batch,1,4,4] x) => (float[batch,1,4,4] y) <float[1,1,1,1] w = {2}>"
        "{ a = Conv(x, w)  b = Identity(a)  y = LeakyRelu(b) }"
    )
    record = run_passes(model, [OrtBasic()], _verifier(model)).history[0]
    assert record.status == "failed"
    assert "operators of com.microsoft came in" in record.detail


def _child(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> None:
    """Makes a script the simplifiers' process."""
    script = folder / "child.py"
    script.write_text("import json, os, sys, time\n" + textwrap.dedent(body))
    tools.stop_tools()
    monkeypatch.setattr(tools, "COMMAND", (sys.executable, str(script)))


@pytest.fixture
def fresh_tools() -> Iterator[None]:
    """Leaves no stand-in behind for the next test."""
    yield
    tools.stop_tools()


def _slim(limit: float = 60) -> OnnxslimSimplifier:
    return OnnxslimSimplifier(OnnxslimParameters(time_limit=limit))


MODEL = "m (float[batch,4] x) => (float[batch,4] y) { a = Identity(x)  y = Exp(a) }"


@pytest.mark.usefixtures("fresh_tools")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("sys.stdin.readline(); os.kill(os.getpid(), 11)", "onnxslim crashed: .* SIGSEGV"),
        ("sys.stdin.readline(); os.kill(os.getpid(), 9)", "onnxslim crashed: .* SIGKILL"),
        ("sys.stdin.readline(); print('oh', file=sys.stderr); sys.exit(3)", "code 3; oh"),
        ("sys.stdin.readline(); time.sleep(99)", "onnxslim took longer than 1 s"),
    ],
)
def test_a_library_that_crashes_or_hangs_costs_only_itself(
    body: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _child(monkeypatch, tmp_path, body)
    model = text_model(MODEL)
    start = time.monotonic()
    result = run_passes(
        model, [_slim(limit=1), plugins.load("passes", "cleanup")], _verifier(model)
    )
    assert time.monotonic() - start < 8
    crashed, cleaned = result.history
    assert crashed.status == "failed"
    assert re.search(reason, crashed.detail), crashed.detail
    assert cleaned.status == "changed"


@pytest.mark.usefixtures("fresh_tools")
def test_the_next_call_starts_a_new_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        _child(patch, tmp_path, "sys.stdin.readline(); os.kill(os.getpid(), 9)")
        with pytest.raises(LibraryError, match="crashed"):
            tools.run_tool("onnxslim", text_model(MODEL).graph)
    result = tools.run_tool("onnxslim", text_model(MODEL).graph)
    assert [node.op_type for node in result.graph] == ["Exp"]


@pytest.mark.usefixtures("fresh_tools")
@pytest.mark.parametrize(
    "written", ["b'no model'", "b''", "open(p['source'], 'rb').read().replace(b'Exp', b'Foo')"]
)
def test_what_a_library_writes_is_not_believed(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f"""
    request = json.loads(sys.stdin.readline())
    p = request["params"]
    open(p["result"], "wb").write({written})
    print(json.dumps({{"id": request["id"], "result": {{}}}}), flush=True)
    sys.stdin.read()
    """
    _child(monkeypatch, tmp_path, body)
    model = text_model("m (float[batch,4] x) => (float[batch,4] y) { a = Exp(x)  y = Exp(a) }")
    step = _slim()
    type(step).must_shrink = False
    try:
        record = run_passes(model, [step], _verifier(model)).history[0]
    finally:
        type(step).must_shrink = True
    assert record.status in ("failed", "rolled-back") and record.detail


def test_an_exception_in_the_child_is_told_in_the_librarys_words() -> None:
    with pytest.raises(LibraryError, match="KeyError"):
        tools.run_tool("no such tool", text_model(MODEL).graph)
