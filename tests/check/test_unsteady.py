"""Samples on which rounding decides: proven by the source itself, or not at all."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from converter.check.accuracy import check_accuracy
from converter.check.gates import GateResult, Limits, judge
from converter.check.matching import Matching
from converter.check.unsteady import Unsteady
from converter.ir.lists import Rows
from converter.runtime.ort import OrtSession
from converter.samples import Sample

# The score and box of the best of four, which another runtime weighs in another way.
BEST = """<ir_version: 9, opset_import: ["" : 20]>
g (float[4] x) => (float[1] scores, float[1,4] boxes)
<int64[1] k = {1}, float[4] weights = {1, 1, %s, 1},
 float[4,4] table = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}> {
    weighed = Mul (x, weights)
    best, row = TopK (weighed, k)
    scores = Gather (x, row)
    boxes = Gather (table, row)
}"""
LIMITS = Limits(0.9999)


def opened(path: Path, weight: float) -> OrtSession:
    onnx.save(onnx.parser.parse_model(BEST % f"{weight:.9f}"), path)
    return OrtSession(path)


def checked(folder: Path, *inputs: list[float], weight: float) -> tuple[dict[str, GateResult], int]:
    """The gates of an artifact that weighs the third, and how often the source ran anew."""
    source, artifact = opened(folder / "net.onnx", 1), opened(folder / "other.onnx", weight)
    runs: list[OrtSession] = []
    feeds = [{"x": np.array(values, np.float32)} for values in inputs]
    samples = [Sample(f"photo {number}", each) for number, each in enumerate(feeds)]

    def again() -> OrtSession:
        runs.append(source)
        return source

    matching = Matching.of([Rows(("scores", "boxes"), 0)], LIMITS.cosine)
    unsteady = Unsteady(again, LIMITS, (), matching)
    wanted = [source.run(each) for each in feeds]
    result = check_accuracy(wanted, artifact, samples, matching=matching, unsteady=unsteady)
    return {gate.name: gate for gate in judge(LIMITS, result)}, len(runs)


def test_a_choice_that_rounding_makes_is_the_sources_own(tmp_path: Path) -> None:
    steady, tied = [0.1, 0.9, 0.2, 0.3], [0.8, 0.2, 0.8, 0.1]
    gates, runs = checked(tmp_path, steady, tied, steady, weight=1 + 2**-23)
    assert 1 <= runs <= 8
    assert (gates["cosine"].status, gates["scale"].status) == ("passed", "passed")
    assert "on 1 of 3 samples (photo 1) rounding decides" in gates["cosine"].why
    gates, runs = checked(tmp_path, steady, steady, weight=1 + 2**-23)
    assert runs == 0 and "rounding" not in gates["cosine"].why


@pytest.mark.parametrize("third", [0.79, 0.7999])
def test_other_choices_are_missed_gates(tmp_path: Path, third: float) -> None:
    values = [0.8, 0.8, third, 0.1]
    gates, runs = checked(tmp_path, values, values, weight=1.02)
    assert gates["cosine"].status == "failed"
    assert runs == 8  # the second isn't looked into
    assert "rounding decides" not in gates["cosine"].why


# The difference of two sums that are nearly the same: little more than rounding is left. The order
# of what they sum is a runtime's own.
CANCEL = """<ir_version: 9, opset_import: ["" : 20]>
g (float[1,256] x) => (float[1,8] scores) {
    ordered = Gather <axis = 1> (x, order)
    one = MatMul (ordered, weight)
    other = MatMul (ordered, near)
    left = Sub (one, other)
    scores = Add (left, bias)
}"""
RNG = np.random.default_rng(3)
WEIGHT = RNG.standard_normal((256, 8)).astype(np.float32)
NEAR = (WEIGHT + 3e-4 * RNG.standard_normal((256, 8))).astype(np.float32)
STEADY = np.where(np.arange(8) < 4, NEAR, 0).astype(np.float32)


def summed(path: Path, order: np.ndarray, near: np.ndarray, bias: np.ndarray) -> OrtSession:
    model = onnx.parser.parse_model(CANCEL)
    arrays = {"order": order, "weight": WEIGHT[order], "near": near[order], "bias": bias}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in arrays.items())
    onnx.save(model, path)
    return OrtSession(path)


def varied(
    folder: Path, near: np.ndarray = NEAR, channel: int = 0, bias: float = 0
) -> tuple[dict[str, GateResult], int]:
    """The gates of an artifact that sums in another order and adds ``bias`` to a channel, and how
    often the source ran anew."""
    rng, added = np.random.default_rng(5), np.zeros(8, np.float32)
    source = summed(folder / "net.onnx", np.arange(256), near, added)
    added[channel] = bias
    artifact = summed(folder / "other.onnx", rng.permutation(256), near, added)
    limits, runs = Limits.by_precision("fp32"), list[OrtSession]()

    def again() -> OrtSession:
        runs.append(source)
        return source

    rows = rng.standard_normal((4, 1, 256)).astype(np.float32)
    samples = [Sample(f"row {number}", {"x": row}) for number, row in enumerate(rows)]
    wanted = [source.run(sample.feeds) for sample in samples]
    unsteady = Unsteady(again, limits, (), Matching())
    result = check_accuracy(wanted, artifact, samples, unsteady=unsteady)
    return {gate.name: gate for gate in judge(limits, result)}, len(runs)


def test_rounding_is_taken_off_an_error(tmp_path: Path) -> None:
    gates, runs = varied(tmp_path)
    assert {gate.status for gate in gates.values()} == {"passed"}
    assert runs == 32
    with_it = re.search(r"it was (\S+) before the source's own rounding", gates["variation"].why)
    assert with_it and float(with_it[1]) > gates["variation"].limit > gates["variation"].value


def test_what_rounding_does_not_explain_is_missed(tmp_path: Path) -> None:
    gates, runs = varied(tmp_path, bias=1.5e-4)
    missed = [name for name, gate in gates.items() if gate.status == "failed"]
    assert missed == ["variation", "channel"]
    assert runs == 32
    assert "it was" in gates["channel"].why


def test_rounding_of_a_channel_is_no_excuse_for_another(tmp_path: Path) -> None:
    gates, runs = varied(tmp_path, STEADY, channel=6, bias=0.1)
    assert gates["channel"].status == "failed" and "channel 6" in gates["channel"].why
    assert runs == 8 and "rounding was taken off" not in gates["channel"].why
