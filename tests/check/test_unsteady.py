"""Samples on which rounding decides: proven by the source itself, or not at all."""

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
