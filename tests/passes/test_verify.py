"""What surrounds a pass: nothing wrong gets through, nothing is run for nothing."""

import errno
import re
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx_ir
import pytest
from onnx_ir.passes import PassResult

from converter.errors import MachineError, ModelError, UsageError
from converter.ir import Model
from converter.ort import OrtSession
from converter.passes.base import ModelPass, SimplifyingPass
from converter.passes.cleanup import Cleanup
from converter.verify import Verifier, build_probes, run_passes
from converter.verify.differences import Tolerance, difference
from converter.verify.probes import Probe
from tests.passes.models import Array, ListedSamples, noise, text_model

THREE = np.float32([1, 2, 3])

GATHER = "m (int64[batch] i) => (float[batch] y) <float[2] t = {1,2}> { y = Gather(t, i) }"
Change = Callable[[onnx_ir.Model], object]


def _log_model() -> Model:
    return text_model(
        "m (float[batch,4] x) => (float[batch,4] y) <float e = {1e-10}>"
        "{ a = Abs(x)  b = Add(a, e)  c = Log(b)  d = Identity(c)  y = Mul(d, d) }"
    )


def a_pass(
    name: str, change: Change, base: type[ModelPass] = SimplifyingPass, shrinks: bool = False
) -> ModelPass:
    """A pass that does ``change``."""

    class Made(base):  # type: ignore[misc, valid-type]
        summary = "of a test"
        must_shrink = shrinks

        def call(self, model: onnx_ir.Model) -> PassResult:
            change(model)
            return PassResult(model, True)

    Made.name = name
    return Made()


def _probes(model: Model, *feeds: dict[str, Array]) -> list[Probe]:
    return build_probes(model, ListedSamples(feeds), {})


def _verifier(model: Model, *feeds: dict[str, Array]) -> Verifier:
    return Verifier(model, _probes(model, *feeds or (noise(model, n, batch=1) for n in range(2))))


def _drop(op_type: str) -> Change:
    def change(model: onnx_ir.Model) -> None:
        for node in list(model.graph):
            if node.op_type == op_type:
                node.outputs[0].replace_all_uses_with(node.inputs[0])
                model.graph.remove(node, safe=True)

    return change


def test_a_pass_that_drops_the_epsilon_before_a_log_is_named_and_undone() -> None:
    model = _log_model()
    bad = a_pass("drops-epsilon", _drop("Add"))
    result = run_passes(model, [bad, Cleanup()], _verifier(model))
    first, second = result.history
    assert (first.name, first.status) == ("drops-epsilon", "rolled-back")
    assert "on zeros, output y: infinite in 4 values, was in 0" in first.detail
    assert second.status == "changed"
    assert [node.op_type for node in result.nodes()] == ["Abs", "Add", "Log", "Mul"]


def test_random_inputs_would_not_have_shown_it() -> None:
    model, bad = _log_model(), _log_model()
    _drop("Add")(bad.graph)
    only = [probe for probe in _probes(model, noise(model, batch=1)) if probe.kind == "sample"]
    assert Verifier(model, only).compare(bad).ok


def _unsorted(model: onnx_ir.Model) -> None:
    nodes = list(model.graph)
    model.graph.remove(nodes[0])
    model.graph.append(nodes[0])


def _raise(model: onnx_ir.Model) -> None:
    raise ValueError("it is broken")


FIVE = onnx_ir.Shape(["batch", 5])
WRONG: list[tuple[Change, str, str]] = [
    (lambda m: setattr(m.graph.outputs[0], "shape", FIVE), "failed",
     r"output y is now float32\[batch, 5\], not"),
    (lambda m: setattr(m.graph[0], "domain", "com.microsoft"), "failed",
     "operators of com.microsoft came in"),
    (lambda m: setattr(m.graph.outputs[0], "name", "z"), "failed", "the outputs are now z"),
    (lambda m: m.opset_imports.update({"": 21}), "failed", "opset 21"),
    (_raise, "failed", "it is broken"),
    (_unsorted, "failed", "it left an invalid graph"),
    (lambda m: setattr(m.graph[0], "op_type", "NoSuchOperator"), "rolled-back", "NoSuchOperator"),
    (_drop("Log"), "rolled-back", "off by"),
    (lambda model: None, "unchanged", ""),
]  # fmt: skip


@pytest.mark.parametrize(("change", "status", "detail"), WRONG)
def test_what_is_wrong_is_undone_and_named(change: Change, status: str, detail: str) -> None:
    model = _log_model()
    before = onnx_ir.to_proto(model.graph).SerializeToString()
    result = run_passes(model, [a_pass("it", change)], _verifier(model))
    record = result.history[-1]
    assert record.status == status
    assert record.nodes_after == record.nodes_before
    assert re.search(detail, record.detail), record.detail
    assert onnx_ir.to_proto(result.graph).SerializeToString() == before
    assert onnx_ir.to_proto(model.graph).SerializeToString() == before


def test_nothing_runs_where_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    model = text_model("m (float[2] x) => (float[2] y) { y = Exp(x) }")
    Cleanup()(model.graph)
    verifier = _verifier(model)
    monkeypatch.setattr(OrtSession, "__init__", lambda *a, **k: pytest.fail("a session was made"))
    relabel = a_pass("relabel", lambda m: m.graph[0].metadata_props.update(note="seen"))
    history = run_passes(model, [Cleanup(), relabel], verifier).history
    assert [record.status for record in history] == ["unchanged", "unchanged"]


def test_growth_without_use_is_undone() -> None:
    def grow(model: onnx_ir.Model) -> None:
        node = model.graph[-1]
        twice = onnx_ir.node("Identity", [node.inputs[0]])
        model.graph.insert_before(node, twice)
        node.replace_input_with(0, twice.outputs[0])
        twice.outputs[0].name = "twice"

    model = _log_model()
    step = a_pass("grows", grow, shrinks=True)
    record = run_passes(model, [step], _verifier(model)).history[-1]
    assert (record.status, record.detail) == ("rolled-back", "no gain: nodes grew from 5 to 6")


def test_many_small_steps_do_not_add_up() -> None:
    model = text_model(
        "m (float[4] x) => (float[4] y) <float k = {1}> { a = Mul(x, k) y = Neg(a) }"
    )

    def scale(graph: onnx_ir.Model) -> None:
        value = graph.graph.initializers["k"]
        assert value.const_value is not None
        value.const_value = onnx_ir.tensor(value.const_value.numpy() * np.float32(1.00004))

    steps = [a_pass(f"step {number}", scale) for number in range(5)]
    history = run_passes(model, steps, _verifier(model)).history
    assert [record.status for record in history] == [*["changed"] * 2, *["rolled-back"] * 3]
    assert "compared with the original" in history[2].detail


def test_shapes_that_a_pass_repairs_are_what_the_next_one_keeps() -> None:
    def repair(model: onnx_ir.Model) -> None:
        model.graph.outputs[0].shape = onnx_ir.Shape(["batch", 4])

    model = _log_model()
    model.graph.graph.outputs[0].shape = onnx_ir.Shape(["who", "knows"])
    steps = [a_pass("repair", repair, ModelPass), Cleanup()]
    result = run_passes(model, steps, _verifier(model))
    assert [record.status for record in result.history] == ["changed", "changed"]
    assert result.outputs[0].shape == ("batch", 4)


@pytest.mark.parametrize(
    "error", [MachineError("disk full"), OSError(errno.ENOSPC, "disk full"), MemoryError()]
)
def test_the_machine_giving_out_is_not_swallowed(error: Exception) -> None:
    def fail(model: onnx_ir.Model) -> None:
        raise error

    model = _log_model()
    with pytest.raises(MachineError):
        run_passes(model, [a_pass("it", fail)], _verifier(model))


def test_a_sample_that_the_original_refuses_is_the_callers_error() -> None:
    model = text_model(GATHER)
    with pytest.raises(ModelError, match="does not run on sample s0"):
        _verifier(model, {"i": np.array([7])}).compare(model.copy())


def test_an_edge_that_the_original_refuses_is_skipped_and_reported() -> None:
    model = text_model(GATHER.replace("2] t = {1,2}", "1] t = {1}"))
    verdict = _verifier(model, {"i": np.array([0])}).compare(model.copy())
    assert verdict.ok
    (said,) = verdict.skipped
    assert said.startswith("integers of 1: the original refuses it")


def test_a_random_output_is_compared_in_shape_alone() -> None:
    model = text_model(
        "m (float[4] x) => (float[4] y, float[4] z)"
        "{ a = RandomNormalLike(x) y = Add(x, a) z = Neg(x) }"
    )
    verdict = _verifier(model).compare(model.copy())
    assert verdict.ok and verdict.skipped == ("output y: it is random",)


def test_an_ill_conditioned_input_is_no_reason_to_refuse() -> None:
    """The mean and the factor in another order."""
    text = """m (float[1,64] x) => (float[1,64] y)
        <float k = {0.1}, float e = {1e-20}, int64[1] axis = {1}> {
            s = Mul(x, k)  m = ReduceMean(s, axis)  c = Sub(s, m)  q = Mul(c, c)
            v = ReduceMean(q, axis)  r = Sqrt(v)  d = Add(r, e)  y = Div(c, d) }"""
    other = text.replace("m = ReduceMean(s, axis)", "b = ReduceMean(x, axis)  m = Mul(b, k)")
    verdict = _verifier(text_model(text)).compare(text_model(other))
    assert verdict.ok, verdict.reason


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (THREE, np.float32([1, 2, np.nan]), "NaN in 1 values, was in 0"),
        (THREE, np.float32([1, 2, np.inf]), "infinite in 1 values, was in 0"),
        (THREE, np.float32([1, 2, 3.01]), "off by 0.01"),
        (THREE, np.float32([1, 2]), "its shape is 2, was 3"),
        (THREE, np.float32([1, 2, 3.00001]), ""),
        (np.float32([1, np.inf]), np.float32([1, -np.inf]), "ANY"),
        (np.array([10**9]), np.array([10**9 + 1]), "ANY"),
        (np.array(["a"]), np.array(["b"]), "ANY"),
        (np.array([1]), np.array([1], np.int32), "ANY"),
    ],
)
def test_difference(before: Array, after: Array, reason: str) -> None:
    found = difference(before, after, Tolerance(1e-4, 0.99999)).reason
    assert bool(found) == bool(reason) and (reason == "ANY" or found.startswith(reason))


def test_probes_cover_samples_edges_and_a_batch() -> None:
    model = _log_model()
    probes = _probes(model, *(noise(model, seed, batch=1) for seed in range(6)))
    assert [probe.name for probe in probes] == [
        *("sample s0", "batch of s1 and s2 and s3", "zeros", "tiny values", "minus ones"),
        *("large values", "ones"),
    ]
    assert probes[1].feeds["x"].shape == (3, 4)
    assert {probe.feeds["x"].dtype for probe in probes} == {np.dtype("float32")}
    probes = _probes(model, noise(model, batch=1))
    assert (probes[1].name, probes[1].feeds["x"].shape) == ("batch of s0 and zeros", (2, 4))


def test_a_rewrite_for_the_samples_sizes_alone_is_wrong() -> None:
    model = text_model("""m (float[batch,time,4] x) => (float[batch,n] y) <int64[2] t = {0, -1}>
        { a = Neg(x)  y = Reshape(a, t) }""")
    special = model.copy()
    target = onnx_ir.tensor(np.array([-1, 24]), name="t")
    special.graph.graph.initializers["t"].const_value = target
    verifier = _verifier(model, *(noise(model, seed, batch=1, time=6) for seed in range(3)))
    verdict = verifier.compare(special)
    assert not verdict.ok and verdict.reason.startswith("on other sizes")


def test_a_batch_that_does_not_come_first_is_tried_at_another_size() -> None:
    model = text_model("m (float[2,batch] x) => (float[2,batch] y) { y = Exp(x) }")
    probes = {probe.name: probe for probe in _probes(model, noise(model, batch=1))}
    assert probes["another batch size"].feeds["x"].shape == (2, 2)


def test_without_samples_sizes_are_needed() -> None:
    model = text_model("m (float[batch,time] x) => (float[batch,time] y) { y = Exp(x) }")
    with pytest.raises(UsageError, match="the size of time"):
        build_probes(model, None, {})
    probes = build_probes(model, None, {"time": 3})
    assert probes[0].name == "noise" and probes[0].feeds["x"].shape == (1, 3)


def test_floats_are_silent_while_integers_stay_what_the_sample_has() -> None:
    nodes = "r = Cast<to: int = 1>(rate) y = Mul(x, r)"
    model = text_model(f"m (float[2] x, int64 rate) => (float[2] y) {{ {nodes} }}")
    feeds = {"x": np.float32([1, 2]), "rate": np.array(16000)}
    probes = {probe.name: probe for probe in _probes(model, feeds)}
    assert probes["zeros"].feeds["rate"] == 16000
    assert probes["integers of 0"].feeds["rate"] == 0


def test_a_wrong_inner_shape_is_not_believed() -> None:
    """A pass that changes declared shapes alone isn't run on probes: inference has to agree."""

    def declare(model: onnx_ir.Model, shape: onnx_ir.Shape | None) -> None:
        next(iter(model.graph)).outputs[0].shape = shape

    wrong = a_pass("declare", partial(declare, shape=onnx_ir.Shape((1, 1))), ModelPass)
    less = a_pass("say less", partial(declare, shape=None), ModelPass)
    model = text_model("m (float[2,4] x) => (float[2,4] y) { a = Abs(x) y = Neg(a) }")
    verifier = Verifier(model, build_probes(model, None, {}))
    record = run_passes(model, [wrong], verifier).history[-1]
    assert record.status == "rolled-back" and "hape" in record.detail, record
    assert run_passes(model, [less], verifier).history[-1].status == "changed"
