"""Each library as a pass, on small models and on real ones."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest

from converter import plugins
from converter.ir.model import IR_VERSION, OPSET
from converter.passes.base import ModelPass, Promises, SimplifyingPass, used_domains
from converter.passes.libraries.onnxscript import RULES
from converter.passes.order import SIMPLIFY_PASSES
from converter.verify import Verifier, build_probes, run_passes
from tests.passes.fusing import fused
from tests.passes.models import ops, run, text_model
from tests.passes.real import MODELS, real_model, real_samples

LIBRARIES = ["onnxscript", "onnxslim", "onnxsim", "ort-basic"]

SMALL = [
    ("""m (float[batch,2,4,4] x) => (float[batch,2,4,4] y)
     <float[2,2,1,1] w = {1,2,3,4}, float[2] s = {1,2}, float[2] b = {3,4}, float[2] m = {5,6},
      float[2] v = {1,2}> { a = Conv(x, w)  y = BatchNormalization(a, s, b, m, v) }""",
     {"Conv": 1}),
    ("""m (float[2,3,4] x) => (float[2,12] y) <int64[1] i = {0}, int64[1] e = {-1}>
     { s = Shape(x)  n = Gather(s, i)  t = Concat<axis: int = 0>(n, e)  y = Reshape(x, t) }""",
     {"Reshape": 1}),
]  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("text", "expected"), SMALL, ids=["batch-norm", "shape arithmetic"])
def test_does_what_it_is_for(library: str, text: str, expected: dict[str, int]) -> None:
    model = fused(text_model(text), plugins.load("passes", library))
    assert ops(model) == expected


def test_what_onnx_runtime_adds_has_names_that_it_does_not_give_again() -> None:
    """It calls what it adds "gemm_output_shape_token_3", say, and fails where there is one."""
    model = text_model(
        """m (float[2,3,4] x) => (float[2,3,4] y) <float[4] b = {1,2,3,4}>
        { p = MatMul(x, w) q = Add(p, b) r = Softmax(q) s = MatMul(r, w) y = Add(s, b) }""",
        w=np.arange(16, dtype=np.float32).reshape(4, 4),
    )
    names = {*"xbwpqrsy"}
    model.graph = plugins.load("passes", "ort-basic")(model.graph).model
    values = [value for node in model.nodes() for value in (*node.inputs, *node.outputs)]
    added = {value.name or "" for value in values if value is not None} - names
    assert ops(model)["Gemm"] == 2
    assert added and all(name.startswith("basic_") for name in added)


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_a_caller_sees_stays(library: str) -> None:
    model = text_model("""
        m (float[batch,time,8] x) => (float[batch,time,8] y, float[batch,8] z)
        <int64[1] axis = {1}>
        { a = Identity(x)  y = Relu(a)  m = ReduceMean(y, axis)  z = Squeeze(m, axis) }""")
    promises = Promises.of(model.graph)
    plugins.load("passes", library)(model.graph)
    assert promises.broken_by(model.graph) == ""
    assert model.outputs[1].shape == ("batch", 8)


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_stays_in_standard_operators_and_packed(library: str) -> None:
    """Gelu, which ONNX Runtime's higher levels would fuse into com.microsoft operators; quantized
    weights."""
    model = text_model(
        """m (float[batch,8] x) => (float[batch,8] y)
        <float r = {1.4142135}, float one = {1}, float half = {0.5}, float[8] b = {
        1,2,3,4,5,6,7,8}>
        { m = MatMul(x, w) a = Add(m, b) d = Div(a, r)  e = Erf(d)  f = Add(e, one)
          g = Mul(a, f)  y = Mul(g, half) }""",
        w=np.arange(64, dtype=np.float32).reshape(8, 8),
    )
    plugins.load("passes", library)(model.graph)
    assert used_domains(model.graph) == {""}
    assert set(model.graph.opset_imports) == {""}
    assert (model.opset, model.graph.ir_version) == (OPSET, IR_VERSION)
    model = text_model(
        """m (float[batch,128] x, int8[128,128] w) => (float[batch,128] y) <float s = {0.5}>
        { d = DequantizeLinear(w, s)  y = MatMul(x, d) }""",
        w=np.ones((128, 128), np.int8),
    )
    plugins.load("passes", library)(model.graph)
    assert model.graph.graph.initializers["w"].dtype == onnx_ir.DataType.INT8
    assert "DequantizeLinear" in ops(model)


def test_onnxscript_runs_without_its_tolerant_rules() -> None:
    assert not {"mul_by_1_rule", "add_0_rule", "sub_0_rule", "div_by_1_rule"} & set(RULES)
    model = text_model(
        "m (float[4] x) => (float[4] y) <float e = {1e-10}> { a = Abs(x) b = Add(a, e) y = Log(b) }"
    )
    plugins.load("passes", "onnxscript")(model.graph)
    assert np.isfinite(run(model, {"x": np.zeros(4, np.float32)})["y"]).all()


def test_passes_do_not_load_torch() -> None:
    model = text_model("m (float[2] x) => (float[2] y) { a = Identity(x) y = Exp(a) }")
    loaded = "torch" in sys.modules
    for name in SIMPLIFY_PASSES:
        plugins.load("passes", name)(model.graph)
    assert ("torch" in sys.modules) == loaded


@pytest.mark.parametrize("name", SIMPLIFY_PASSES)
def test_passes_say_what_their_result_depends_on(name: str) -> None:
    step = plugins.load("passes", name)
    assert isinstance(step, SimplifyingPass) and isinstance(step, ModelPass)
    assert step.name == name and step.summary
    key = step.key()
    assert key["pass"] == name and key["versions"]
    assert all(version[0].isdigit() for version in key["versions"].values())


FEWEST = {
    "basic-pitch": 180, "ocr-det": 297, "ocr-rec": 190, "ocr-cls": 126, "silero": 84,
    "silero-op15": 40, "silero-half": 40, "silero-sequence": 25, "silero-ifless": 90,
    "minilm-int8": 376,
}  # fmt: skip
"""As many nodes as may be left: as few as the best of the four alone leaves, or fewer."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_real_models(name: str) -> None:
    model, samples = real_model(name), real_samples(name)
    before = model.node_count()
    verifier = Verifier(model, build_probes(model, samples, {}))
    steps = [plugins.load("passes", step) for step in SIMPLIFY_PASSES]
    result = run_passes(model, steps, verifier)
    assert model.node_count() == before
    assert result.node_count() <= FEWEST[name], result.history
    assert Promises.of(model.graph).broken_by(result.graph) == ""
    assert set(result.graph.opset_imports) <= {"", "ai.onnx.ml"}
    assert not any(r.status == "failed" for r in result.history), result.history
    onnx.checker.check_model(onnx_ir.to_proto(result.graph), full_check=True)
    assert all(node.name for node in result.nodes())
    assert Verifier(model, build_probes(model, samples, {})).compare(result).ok


PROGRAM = """
import hashlib, sys
from pathlib import Path
from converter import plugins
from converter.ir.model import Model
from converter.passes.order import SIMPLIFY_PASSES
from converter.verify import Verifier, run_passes

model = Model.load(Path(sys.argv[1]))
steps = [plugins.load("passes", name) for name in SIMPLIFY_PASSES]
result = run_passes(model, steps, Verifier(model, []))
for record in result.history:
    print(record.name, record.status, record.nodes_after, file=sys.stderr)
result.save(Path(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["silero", "ocr-rec"])
def test_same_bytes_with_any_hash_seed(name: str, tmp_path: Path) -> None:
    source = tmp_path / "source.onnx"
    onnx.save(onnx_ir.to_proto(real_model(name).graph), source)
    digests, histories = set(), set()
    for seed in ("0", "1", "4242"):
        target = tmp_path / f"{seed}.onnx"
        command = [sys.executable, "-c", PROGRAM, str(source), str(target)]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
        assert done.returncode == 0, done.stderr
        digests.add(hashlib.sha256(target.read_bytes()).hexdigest())
        histories.add(done.stderr)
    assert len(digests) == 1, histories
