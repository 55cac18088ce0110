"""Bodies of If and Loop as models of their own: taken out, run, measured, lowered, put back."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

from bench.precision_checks import cosine
from converter.analysis.intermediate_outputs import open_tapped
from converter.ir.model import Model
from converter.precision.body_samples import opened
from converter.precision.calibrate.observe import observable
from converter.precision.calibrate.ranges import collect
from converter.precision.fp16.half import to_half
from converter.precision.int8.bias_correction import correct_biases
from converter.precision.int8.dynamic import quantize_dynamically
from converter.precision.int8.insert import quantize
from converter.precision.int8.rounding import round_by_gptq
from converter.precision.int8.scheme import ONNXRUNTIME_CPU
from converter.precision.subgraphs import bodies, copy_of, take_out
from converter.runtime.ort import OrtSession
from emitters.tensorrt.scheme import TENSORRT
from tests.passes.models import Array, ListedSamples, ops, run
from tests.quantize.small import with_weights
from tests.quantize.test_placement import kernels

BRANCHES = """
g (float[n,6] x, bool c) => (float[n,4] y) { [n_first] a = MatMul (x, w0) [n_if] y = If (c) <
   then_branch = t () => (float[n,4] p) {
      [n_p] p0 = MatMul (a, w1) [n_relu] p1 = Relu (p0) [n_q] p = MatMul (p1, w2) },
   else_branch = e () => (float[n,4] q) { [n_e] q = MatMul (x, w3) }> }"""

ROUNDS = """
g (float[n,6] x, int64 count) => (float[n,6] y) {
   go = Constant <value = bool {1}> () [n_loop] y = Loop (count, go, x) <
      body = b (int64 i, bool more, float[n,6] s) => (bool again, float[n,6] z) {
         again = Identity (more)
         [n_m] m = MatMul (s, w0) [n_t] t = Tanh (m) [n_z] z = Add (t, x) }> }"""

NESTED = """
g (float[n,6] x, bool c, bool d) => (float[n,6] y) { [n_if] y = If (c) <
   then_branch = t () => (float[n,6] p) { [n_a] a = MatMul (x, w0) [n_in] p = If (d) <
      then_branch = t2 () => (float[n,6] r) { [n_r] r = MatMul (a, w1) },
      else_branch = e2 () => (float[n,6] s) { [n_s] s = Neg (a) }> },
   else_branch = e () => (float[n,6] q) { [n_q] q = Neg (x) }> }"""


def branches() -> Model:
    return with_weights(BRANCHES, 0.5, w0=(6, 6), w1=(6, 8), w2=(8, 4), w3=(6, 4))


def rounds() -> Model:
    return with_weights(ROUNDS, 0.5, w0=(6, 6))


def nested() -> Model:
    return with_weights(NESTED, 0.5, w0=(6, 6), w1=(6, 6))


def feeds(number: int = 12, /, **more: list[Any]) -> ListedSamples:
    rng = np.random.default_rng(0)
    items = [{"x": rng.standard_normal((4, 6)).astype(np.float32)} for _ in range(number)]
    for name, values in more.items():
        for at, item in enumerate(items):
            item[name] = np.array(values[at % len(values)])
    return ListedSamples(items)


def close(model: Model, other: Model, samples: ListedSamples) -> float:
    """The smallest cosine of the first output."""
    before, after = OrtSession(model.graph, plain=True), OrtSession(other.graph)
    return min(cosine(before.run(s.feeds)["y"], after.run(s.feeds)["y"]) for s in samples)


def test_a_body_goes_back_as_it_was_and_a_copy_leaves_its_model_alone() -> None:
    model = branches()
    before = onnx.printer.to_text(model.to_proto())
    for node, branch in list(bodies(model.graph.graph)):
        body = take_out(node, branch)
        onnx.checker.check_model(body.model.to_proto(), full_check=True)
        body.put_back()
    assert onnx.printer.to_text(model.to_proto()) == before
    model = nested()
    before = onnx.printer.to_text(model.to_proto())
    ((node, branch),) = bodies(model.graph.graph)
    copy = copy_of(node, branch)
    assert [spec.name for spec in copy.model.inputs] == ["x", "d"]
    assert [n.name for n, _ in bodies(copy.model.graph.graph)] == ["n_in"]
    assert onnx.printer.to_text(model.to_proto()) == before
    assert not any(
        use.node.graph is copy.model.graph.graph for v in model.initializers() for use in v.uses()
    )


def test_a_branch_is_run_on_the_samples_that_take_it() -> None:
    model, samples = branches(), feeds(6, c=[True, False, True])
    found = {body.branch: list(runs) for body, runs in opened(model, samples)}
    assert [run.name for run in found["then_branch"]] == ["s0", "s2", "s3", "s5"]
    assert [run.name for run in found["else_branch"]] == ["s1", "s4"]
    whole = {s.name: open_tapped(model.graph, ["a"]).run(s.feeds) for s in samples}
    for one in found["then_branch"]:
        np.testing.assert_allclose(one.feeds["a"], whole[one.name]["a"], rtol=1e-6)


def test_a_loop_is_run_round_by_round() -> None:
    model, samples = rounds(), feeds(2, count=[3, 0])
    ((body, runs),) = opened(model, samples)
    inputs = list(runs)
    assert [one.name for one in inputs] == ["s0.0", "s0.1", "s0.2"]
    assert [int(one.feeds["i"]) for one in inputs] == [0, 1, 2]
    session = OrtSession(body.model.graph)
    last = session.run(inputs[-1].feeds)["z"]
    first = next(iter(samples)).feeds
    np.testing.assert_allclose(last, run(model, first)["y"], rtol=1e-5)


def test_tensors_in_bodies_are_measured() -> None:
    model, samples = nested(), feeds(20, c=[True], d=[True, False])
    assert set(observable(model)) == {"x", "y", "a", "p", "r"}
    ranges = collect(model, samples)
    inside = np.stack([s.feeds["x"] @ weight(model, "w0") for s in samples])
    assert ranges.extremes("a") == pytest.approx((inside.min(), inside.max()), rel=1e-5)
    assert ranges.tally("r").count == 10 * 4 * 6


def weight(model: Model, name: str) -> Array:
    return model.graph.graph.initializers[name].const_value.numpy()  # type: ignore[union-attr]


@pytest.mark.parametrize("scheme", [ONNXRUNTIME_CPU, TENSORRT], ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("kind", ["branches", "rounds", "nested"])
def test_int8_in_bodies(kind: str, scheme: Any) -> None:
    model = {"branches": branches, "rounds": rounds, "nested": nested}[kind]()
    more = {"count": [2]} if kind == "rounds" else {"c": [True, False], "d": [True, True, False]}
    samples = feeds(48, **{k: v for k, v in more.items() if k in {s.name for s in model.inputs}})
    ranges = collect(model, samples)
    made = quantize(model, ranges, scheme)
    products = [n.name for n in model.nodes() if n.op_type == "MatMul"]
    assert set(products) <= set(made.lowered)
    onnx.checker.check_model(made.model.to_proto(), full_check=True)
    names = [value.name for node in made.model.nodes() for value in node.outputs if value.name]
    assert len(names) == len(set(names))
    assert not [v.name for v in made.model.initializers() if not v.uses()]
    assert close(model, made.model, samples) > 0.99
    rounded = round_by_gptq(model, ranges, scheme, samples)
    assert set(rounded) == {v.name for v in model.initializers()}
    better = quantize(model, ranges, scheme, rounded=rounded)
    corrected = correct_biases(model, better, samples)
    onnx.checker.check_model(corrected.model.to_proto(), full_check=True)
    assert close(model, corrected.model, samples) > 0.99


def test_integer_kernels_run_inside(tmp_path: Path) -> None:
    model, samples = nested(), feeds(20, c=[True], d=[True])
    made = quantize(model, collect(model, samples), ONNXRUNTIME_CPU)
    kernels(made.model, tmp_path)
    found = ops(Model.load(tmp_path / "optimized.onnx"))
    assert "MatMul" not in found
    assert sum(found[op] for op in ("QLinearMatMul", "MatMulIntegerToFloat", "QGemm")) == 2


def test_a_body_that_too_few_samples_run_stays_float() -> None:
    model, samples = branches(), feeds(20, c=[False] * 9 + [True])
    made = quantize(model, collect(model, samples), ONNXRUNTIME_CPU)
    assert {"n_first", "n_e"} <= set(made.lowered)
    reasons = {kept.node: kept.reason for kept in made.kept}
    assert reasons["n_p"] == reasons["n_q"] == "too few samples run the body that it is in"
    assert close(model, made.model, samples) > 0.99


def test_what_stays_in_a_body_on_request() -> None:
    model, samples = branches(), feeds(20, c=[True, False])
    ranges = collect(model, samples)
    made = quantize(model, ranges, ONNXRUNTIME_CPU, keep=["n_p", "n_e"])
    assert {kept.node for kept in made.kept} >= {"n_p", "n_e"}
    assert {"n_first", "n_q"} <= set(made.lowered)


def test_fp16_knows_what_bodies_hold() -> None:
    model, samples = branches(), feeds(40, c=[True, False])
    assert {"n_p", "n_q", "n_e"} <= set(to_half(model, collect(model, samples)).lowered)
    (large,) = (value for value in model.initializers() if value.name == "w1")
    large.const_value = onnx_ir.tensor(weight(model, "w1") * np.float32(2e4), name="w1")
    made = to_half(model, collect(model, samples))
    reasons = {kept.node: kept.reason for kept in made.kept}
    assert "float16 ends at 65504" in reasons["n_p"]


def test_int8_dynamic_leaves_bodies_valid() -> None:
    model, samples = branches(), feeds(4, c=[True, False])
    made = quantize_dynamically(model)
    assert close(model, made.model, samples) > 0.98
    assert ops(made.model)["MatMulInteger"] >= 1
