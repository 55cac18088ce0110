"""Outputs that can't tell a right artifact from a wrong one: found, and tried on other inputs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.check.accuracy import AccuracyResult, check_accuracy
from converter.check.gates import GateResult, Limits, judge
from converter.check.metrics import Comparer
from converter.check.probing import Prober, other_inputs
from converter.ir.dependence import constant_outputs
from converter.ir.model import TensorSpec
from converter.report.model import verdict_of
from converter.runtime.ort import OrtSession
from converter.samples import Sample
from tests.check.tiny import open_model
from tests.passes.models import ListedSamples, text_model

LIMITS = Limits(0.9999)


def compared(*references: object, **known: dict[str, float]) -> AccuracyResult:
    """One float output that the candidate gives as the reference does."""
    comparer = Comparer(**known)  # type: ignore[arg-type]
    for values in references:
        array = np.asarray(values, np.float32)
        comparer.add({"y": array}, {"y": array.copy()})
    return AccuracyResult(comparer.result())


@pytest.mark.parametrize(("references", "blind"), [
    (([1, 2], [1, 3]), ""),
    (([0, 0], [0, 0]), "zero"),
    (([0, 0], [0]), "zero"),
    (([0, 0], [0, 1e-30]), ""),
    (([1, 2], [1, 2]), "constant"),
    (([1e6, 1], [1e6, 1.5]), "constant"),
    (([1, 2], [1, np.nan]), ""),
    (([1, 2], [1, 2, 3]), ""),
    (([1, 2],), "one sample"),
    (([], []), "empty"),
    (([np.nan, np.inf], [np.nan, np.nan]), "not finite"),
    (([np.nan, 1], [np.nan, 1]), "constant"),
])  # fmt: skip
def test_what_tells_nothing(references: tuple[object, ...], blind: str) -> None:
    assert compared(*references).comparison.outputs[0].blind == blind


def test_rounding_of_a_known_range_tells_nothing() -> None:
    tiny = ([1e-9, 3e-8], [2e-8, 1e-9])
    assert compared(*tiny).comparison.outputs[0].blind == ""
    assert compared(*tiny, ranges={"y": 1.0}).comparison.outputs[0].blind == "zero"


def statuses(gates: list[GateResult]) -> dict[str, str]:
    return {gate.name: gate.status for gate in gates}


def test_nan_of_the_source() -> None:
    """Alone it is a missed gate; in parts, it is said how much was compared."""
    gates = judge(LIMITS, compared([np.nan, np.nan], [np.inf, np.nan]))
    assert statuses(gates)["cosine"] == "failed" and verdict_of(gates) == "failed"
    (why,) = [gate.why for gate in gates if gate.status == "failed"]
    assert why.startswith("the source itself gives only NaN or Inf on every sample (y)")
    accuracy = compared([1, np.nan, np.inf], [2, np.nan, 3])
    gates = judge(LIMITS, accuracy)
    assert verdict_of(gates) == "passed" and accuracy.comparison.outputs[0].compared == 3
    (why,) = [gate.why for gate in gates if gate.name == "cosine"]
    assert "3 of 6 values compared" in why


@pytest.mark.parametrize("values", [([0, 0], [0, 0]), ([3, 4], [3, 4]), ([], []), ([0, 0],)])
def test_what_tells_nothing_is_not_judged(values: tuple[object, ...]) -> None:
    accuracy = compared(*values)
    gates = judge(LIMITS, accuracy)
    assert verdict_of(gates) == "not judged" and statuses(gates)["judged"] == "not judged"
    assert gates[-1].why.startswith("y (")
    strict = judge(Limits(0.9999, strict=True), accuracy)
    assert verdict_of(strict) == "failed"
    known = AccuracyResult(accuracy.comparison, constant=("y",))
    assert verdict_of(judge(LIMITS, known)) == "passed"


def test_what_may_be_constant() -> None:
    """One sample; an output that depends on no input, if its value is right; integers beside
    floats that were judged."""
    assert verdict_of(judge(LIMITS, compared([1, 2]))) == "passed"
    wrong, both, alone = Comparer(), Comparer(), Comparer()
    for value in (1.0, 2.0):
        wrong.add({"y": np.array([1.0, 2])}, {"y": np.array([2.0, 1])})
        outputs = {"scores": np.array([value, 3]), "label": np.array([1])}
        both.add(outputs, outputs)
        alone.add({"label": outputs["label"]}, {"label": outputs["label"]})
    gates = judge(LIMITS, AccuracyResult(wrong.result(), constant=("y",)))
    assert verdict_of(gates) == "failed"
    assert verdict_of(judge(LIMITS, AccuracyResult(both.result()))) == "passed"
    assert verdict_of(judge(LIMITS, AccuracyResult(alone.result()))) == "not judged"


def shifted(folder: Path, shift: float, factor: float = 1.0) -> OrtSession:
    """``y = relu(factor * x - shift)``."""
    model = text_model(f"""
        m (float[batch,64] x) => (float[batch,64] y)
        <float f = {{{factor}}}, float b = {{{shift}}}>
        {{ m = Mul(x, f) s = Sub(m, b) y = Relu(s) }}""")
    return open_model(folder, model.to_proto())


def probed(
    source: OrtSession, artifact: OrtSession, limits: Limits = LIMITS, count: int = 2, **fields: Any
) -> list[GateResult]:
    """The gates of an artifact whose source was run on zeros alone."""
    zeros = {"x": np.zeros((1, 64), np.float32)}
    samples = ListedSamples([Sample(f"zeros {n}", zeros) for n in range(count)])
    samples.inputs = (TensorSpec("x", "float32", ("batch", 64), **fields),)
    accuracy = check_accuracy([source.run(s.feeds) for s in samples], artifact, samples)
    accuracy = Prober(source.run, artifact, samples, limits).probe(accuracy)
    return judge(limits, accuracy)


def test_other_inputs_judge_what_the_samples_do_not_and_find_what_is_wrong(tmp_path: Path) -> None:
    for shift, where in ((0.0, "of about 1"), (20.0, "of about 10"), (5000.0, "large values")):
        session = shifted(tmp_path, shift)
        gates = probed(session, session)
        assert verdict_of(gates) == "passed" and where in gates[-1].why, gates[-1].why
    dead = shifted(tmp_path, 1e9)
    gates = probed(dead, dead)
    assert verdict_of(gates) == "not judged"
    assert "zero on all 2 samples and on 8 other inputs" in gates[-1].why
    source, dead, larger = (shifted(tmp_path, *ab) for ab in ((0.0,), (1e9,), (0.0, 1.1)))
    assert statuses(probed(source, dead))["cosine on other inputs"] == "failed"
    assert statuses(probed(source, larger))["scale on other inputs"] == "failed"
    # a lower precision need not hold beyond its samples
    gates = probed(source, dead, Limits(0.99, exact=False))
    assert verdict_of(gates) == "not judged" and "off on" in gates[-1].why


def test_one_sample_shows_whether_the_artifact_follows_its_inputs(tmp_path: Path) -> None:
    source, stuck = shifted(tmp_path, -3.0, 1.0), shifted(tmp_path, -3.0, 0.0)
    gates = probed(source, stuck, count=1)
    assert statuses(gates)["judged on other inputs"] == "failed"
    other = shifted(tmp_path, -3.0, 2.0)  # it agrees on the sample, which is what was asked
    assert verdict_of(probed(source, other, count=1)) == "passed"
    assert verdict_of(probed(stuck, stuck, count=1)) == "not judged"


def test_other_inputs_keep_to_the_ranges(tmp_path: Path) -> None:
    spec = TensorSpec("x", "float32", ("batch", 64), value_range=(0.0, 1.0))
    seen = {"x": np.zeros((1, 64), np.float32)}
    for _, feeds in other_inputs((spec,), seen, 0):
        assert feeds["x"].dtype == np.float32 and feeds["x"].shape == (1, 64)
        assert 0 <= feeds["x"].min() <= feeds["x"].max() <= 1
    session = shifted(tmp_path, 5.0)
    assert verdict_of(probed(session, session, value_range=(0.0, 1.0))) == "not judged"


def test_which_outputs_depend_on_no_input() -> None:
    branch = "g () => (float[2] inside) { inside = Identity(x) }"
    model = text_model(f"""
        m (float[2] x) => (float[2] fixed, float[2] fed, float[2] branched, int64[1] size)
        {{
            c = Constant<value_floats = [1.0, 2.0]>()  yes = Constant<value = bool {{1}}>()
            fixed = Add(c, c)  fed = Add(x, c)  size = Shape(x)
            branched = If(yes) <then_branch = {branch}, else_branch = {branch}> }}""")
    assert constant_outputs(model.graph.graph) == ["fixed", "size"]
