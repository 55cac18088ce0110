"""What surrounds a pass: nothing wrong gets through, nothing is run for nothing."""

import errno
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import onnx_ir
import pytest
from onnx_ir.passes import PassResult

from converter.analysis.batch import check_batch
from converter.analysis.macs import PLAIN_RATE
from converter.errors import MachineError, ModelError, UsageError
from converter.ir.model import Model
from converter.passes.base import ModelPass, SimplifyingPass
from converter.passes.cleanup.cleanup import Cleanup
from converter.runtime.ort import OrtSession
from converter.verify import Verdict, Verifier, build_probes, effort, run_passes
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


def _put(op_type: str) -> Change:
    """Puts an operator before the last node: Identity is right, others are wrong."""

    def change(model: onnx_ir.Model) -> None:
        node = model.graph[-1]
        made = onnx_ir.node(op_type, [node.inputs[0]])
        made.outputs[0].name = f"put {len(model.graph)}"
        model.graph.insert_before(node, made)
        node.replace_input_with(0, made.outputs[0])

    return change


def test_a_pass_that_drops_the_epsilon_before_a_log_is_named_and_undone() -> None:
    """Random inputs would not have shown it."""
    model = _log_model()
    bad = a_pass("drops-epsilon", _drop("Add"))
    result = run_passes(model, [bad, Cleanup()], _verifier(model))
    first, second = result.history
    assert (first.name, first.status) == ("drops-epsilon", "rolled-back")
    assert "on zeros, output y: infinite in 4 values, was in 0" in first.detail
    assert second.status == "changed"
    assert [node.op_type for node in result.nodes()] == ["Abs", "Add", "Log", "Mul"]
    only = [probe for probe in _probes(model, noise(model, batch=1)) if probe.kind == "sample"]
    wrong = model.copy()
    _drop("Add")(wrong.graph)
    assert Verifier(model, only).compare(wrong).ok


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


def test_growth_without_use_is_undone_and_many_small_steps_do_not_add_up() -> None:
    model = _log_model()
    step = a_pass("grows", _put("Identity"), shrinks=True)
    record = run_passes(model, [step], _verifier(model)).history[-1]
    assert (record.status, record.detail) == ("rolled-back", "no gain: nodes grew from 5 to 6")
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


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Model]:
    """The models that were compared."""
    seen: list[Model] = []
    really = Verifier.compare

    def compare(self: Verifier, candidate: Model) -> Verdict:
        seen.append(candidate)
        return really(self, candidate)

    monkeypatch.setattr(Verifier, "compare", compare)
    return seen


CHAINS = [
    ("Identity Identity Identity Identity", 1),
    ("Identity Identity Neg Identity Identity", 5),
    ("Neg Identity Identity Identity", 4),
    ("Identity Identity Identity Neg", 4),
    ("Identity Exp Identity Identity Neg Identity", 9),
    ("Neg", 1),
]


@pytest.mark.parametrize(("chain", "most"), CHAINS)
def test_a_chain_is_compared_once_and_halves_find_what_is_wrong(
    chain: str, most: int, compared: list[Model]
) -> None:
    model = _log_model()
    put = chain.split()
    steps = [a_pass(f"{at} {op_type}", _put(op_type)) for at, op_type in enumerate(put)]
    result = run_passes(model, steps, _verifier(model))
    wrong = [record.name for record in result.history if record.status == "rolled-back"]
    assert wrong == [step.name for step in steps if not step.name.endswith("Identity")]
    assert [node.op_type for node in result.nodes()].count("Identity") == 1 + put.count("Identity")
    assert not {"Neg", "Exp"} & {node.op_type for node in result.nodes()}
    assert len(compared) <= most
    for record in result.history:
        said = record.detail.startswith("on sample s0, output y: off by")
        assert said == (record.status == "rolled-back")
        assert record.nodes_after == record.nodes_before + (record.status == "changed")


def test_figures_are_of_all_that_was_compared_or_of_each(compared: list[Model]) -> None:
    model = _log_model()
    steps = [a_pass(name, _put("Identity")) for name in ("one", "two", "three")]
    told: list[str] = []
    *others, last = run_passes(model, steps, _verifier(model), told.append).history
    assert told == ["one", "two", "three", "comparing what 3 passes made: 14 runs"]
    assert [record.cosine for record in others] == [None, None] and len(compared) == 1
    assert last.max_abs == 0 and last.detail == "compared together with one, two"
    each = run_passes(model, steps, _verifier(model), singly=True).history
    assert all(record.max_abs == 0 and not record.detail for record in each)
    assert len(compared) == 4


def test_a_pass_that_is_wrong_at_batch_2_alone_is_found_in_a_chain() -> None:
    model = text_model("""m (float[batch,4] x) => (float[n,k] y) <int64[2] t = {0, -1}>
        { a = Abs(x)  r = Reshape(a, t)  y = Neg(r) }""")

    def settle(model: onnx_ir.Model) -> None:
        model.graph.initializers["t"].const_value = onnx_ir.tensor(np.array([1, -1]), name="t")

    steps = [a_pass(str(at), _put("Identity")) for at in range(3)]
    steps.insert(1, a_pass("settles", settle))
    history = run_passes(model, steps, _verifier(model)).history
    assert [record.status for record in history] == ["changed", "rolled-back", *["changed"] * 2]
    assert "its shape is 1x8, was 2x4" in history[1].detail


def test_of_passes_that_are_wrong_together_the_later_one_is_undone() -> None:
    def negate(model: onnx_ir.Model) -> None:
        marked = any((node.outputs[0].name or "").startswith("put") for node in model.graph)
        _put("Neg" if marked else "Identity")(model)

    def history(*steps: ModelPass) -> list[tuple[str, str]]:
        model = _log_model()
        done = run_passes(model, steps, _verifier(model)).history
        return [(record.name, record.status) for record in done]

    mark, neg, drop = a_pass("mark", _put("Identity")), a_pass("neg", negate), Cleanup()
    assert history(neg, drop) == [("neg", "changed"), ("cleanup", "changed")]
    found = history(drop, mark, neg, drop)
    assert found == [
        *(("cleanup", "changed"), ("mark", "changed"), ("neg", "rolled-back")),
        ("cleanup", "changed"),
    ]


def test_a_broken_pass_is_named_and_not_those_after_it() -> None:
    def unknown(model: onnx_ir.Model) -> None:
        model.graph[0].op_type = "NoSuchOperator"

    model = _log_model()
    history = run_passes(model, [a_pass("breaks", unknown), Cleanup()], _verifier(model)).history
    assert [record.status for record in history] == ["rolled-back", "changed"]
    assert "NoSuchOperator" in history[0].detail


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


def test_what_the_original_refuses_or_draws() -> None:
    """A sample is the caller's error; an edge is skipped, and a random output, and that is said."""
    model = text_model(GATHER)
    with pytest.raises(ModelError, match="does not run on sample s0"):
        _verifier(model, {"i": np.array([7])}).compare(model.copy())
    model = text_model(GATHER.replace("2] t = {1,2}", "1] t = {1}"))
    verdict = _verifier(model, {"i": np.array([0])}).compare(model.copy())
    assert verdict.ok
    (said,) = verdict.skipped
    assert said.startswith("integers of 1: the original refuses it")
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


@pytest.mark.parametrize(("before", "after", "reason"), [
    (THREE, np.float32([1, 2, np.nan]), "NaN in 1 values, was in 0"),
    (THREE, np.float32([1, 2, np.inf]), "infinite in 1 values, was in 0"),
    (THREE, np.float32([1, 2, 3.01]), "off by 0.01"),
    (THREE, np.float32([1, 2]), "its shape is 2, was 3"),
    (THREE, np.float32([1, 2, 3.00001]), ""),
    (np.float32([1, np.inf]), np.float32([1, -np.inf]), "ANY"),
    (np.array([10**9]), np.array([10**9 + 1]), "ANY"),
    (np.array(["a"]), np.array(["b"]), "ANY"),
    (np.array([1]), np.array([1], np.int32), "ANY"),
])  # fmt: skip
def test_difference(before: Array, after: Array, reason: str) -> None:
    found = difference(before, after, Tolerance(1e-4, 0.99999)).reason
    assert bool(found) == bool(reason) and (reason == "ANY" or found.startswith(reason))


def test_probes_cover_samples_edges_and_a_batch() -> None:
    """Wherever the batch is; integers stay what the sample has while floats are silent."""
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
    model = text_model("m (float[2,batch] x) => (float[2,batch] y) { y = Exp(x) }")
    named = {probe.name: probe for probe in _probes(model, noise(model, batch=1))}
    assert named["another batch size"].feeds["x"].shape == (2, 2)
    nodes = "r = Cast<to: int = 1>(rate) y = Mul(x, r)"
    model = text_model(f"m (float[2] x, int64 rate) => (float[2] y) {{ {nodes} }}")
    feeds = {"x": np.float32([1, 2]), "rate": np.array(16000)}
    named = {probe.name: probe for probe in _probes(model, feeds)}
    assert named["zeros"].feeds["rate"] == 16000
    assert named["integers of 0"].feeds["rate"] == 0


def test_a_rewrite_for_the_samples_sizes_alone_is_wrong() -> None:
    model = text_model("""m (float[batch,time,4] x) => (float[batch,n] y) <int64[2] t = {0, -1}>
        { a = Neg(x)  y = Reshape(a, t) }""")
    special = model.copy()
    target = onnx_ir.tensor(np.array([-1, 24]), name="t")
    special.graph.graph.initializers["t"].const_value = target
    verifier = _verifier(model, *(noise(model, seed, batch=1, time=6) for seed in range(3)))
    verdict = verifier.compare(special)
    assert not verdict.ok and verdict.reason.startswith("on other sizes")


def _few(model: Model, *feeds: dict[str, Array]) -> list[Probe]:
    return build_probes(model, ListedSamples(feeds), {}, budget=-1)


def test_the_fewest_probes_still_hold_batches_sizes_and_edges() -> None:
    model = text_model("m (float[batch,time,2] x) => (float[batch,time,2] y) { y = Exp(x) }")
    first, quiet, loud = _few(model, *(noise(model, n, batch=1, time=10) for n in range(2)))
    assert (first.name, first.feeds["x"].shape) == ("sample s0", (1, 10, 2))
    stripes, zeros = quiet.feeds["x"]
    assert not zeros.any()
    kinds = np.float32([0, 1e-6, -1, 1]).repeat(2)
    np.testing.assert_array_equal(stripes[:8], np.stack([kinds, kinds], axis=1))
    assert (stripes[8:] == noise(model, 1, batch=1, time=10)["x"][0, 8:]).all()
    assert loud.feeds["x"].shape == (1, 5, 2) and set(loud.feeds["x"].ravel()) == {1e4, -1e4}


def test_the_fewest_probes_have_integers_of_0_and_1() -> None:
    model = text_model(GATHER)
    _, quiet, loud = _few(model, {"i": np.array([0])}, {"i": np.array([1])})
    assert quiet.feeds["i"].tolist() == [1, 0] and loud.feeds["i"].tolist() == [1]


def test_what_the_original_refuses_is_tried_with_less() -> None:
    """A size that a file declares free and isn't; an index of 1, beyond the table."""
    model = text_model("""m (float[batch,time] x, int64[batch] i)
        => (float[batch,4] y, float[batch] z) <float[4] k = {1, 2, 3, 4}, float[1] t = {2}>
        { y = Add(x, k)  z = Gather(t, i) }""")
    few = _few(model, noise(model, batch=1, time=4) | {"i": np.array([0])})
    verdict = Verifier(model, few).compare(model.copy())
    assert verdict.ok and [said.partition(": the original")[0] for said in verdict.skipped] == [
        "large values at other sizes",
        "large values at other sizes, integers as in the sample",
        "large values",
    ]
    clips = text_model("""m (float[batch,4] x) => (float[batch,4] y)
        <float low = {-9}, float high = {9}> { a = Clip(x, low, high)  y = Neg(a) }""")
    unclipped, few = clips.copy(), _few(clips, noise(clips, batch=1))
    _drop("Clip")(unclipped.graph)
    assert Verifier(clips, few).compare(unclipped).reason.startswith("on large values, output y")


def test_the_budget_is_of_multiply_adds() -> None:
    model = text_model(
        "m (float[batch,64] x) => (float[batch,64] y) { y = MatMul(x, w) }",
        w=np.ones((64, 64), np.float32),
    )
    samples = ListedSamples([noise(model, n, batch=1) for n in range(2)])
    runs = 8 * 64 * 64  # the first alone, both, the first with zeros, and five edges
    assert len(build_probes(model, samples, {}, budget=runs)) == 7
    few = build_probes(model, samples, {}, budget=runs - 1)
    assert [probe.macs for probe in few] == [4096, 8192, 4096]
    assert effort(few) == "6 runs"
    slow = [replace(probe, macs=int(PLAIN_RATE)) for probe in few]
    assert effort(slow) == "6 runs, about 6.0 s"


def test_without_samples_sizes_are_needed() -> None:
    model = text_model("m (float[batch,time] x) => (float[batch,time] y) { y = Exp(x) }")
    with pytest.raises(UsageError, match="the size of time"):
        build_probes(model, None, {})
    probes = build_probes(model, None, {"time": 3})
    assert probes[0].name == "noise" and probes[0].feeds["x"].shape == (1, 3)


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


def test_what_the_check_of_the_batch_ran_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what a rewrite gives is compared with just that."""
    model, ran, run = _log_model(), [0], OrtSession.run

    def counting(session: OrtSession, feeds: dict[str, Array]) -> dict[str, Array]:
        ran[0] += 1
        return run(session, feeds)

    monkeypatch.setattr(OrtSession, "run", counting)
    feeds = noise(model, batch=1)
    probes, known = _probes(model, feeds), check_batch(model, feeds).runs
    ran[0] = 0
    verifier = Verifier(model, probes, known=known)
    assert verifier.compare(model.copy()).ok
    assert ran[0] == 2 * len(probes) - 1
    wrong = [(given, {name: array[:, :2] for name, array in gave.items()}) for given, gave in known]
    verdict = Verifier(model, probes, known=wrong).compare(model.copy())
    assert not verdict.ok
    assert verdict.reason.startswith(f"on {probes[0].name}")
