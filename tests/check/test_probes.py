"""Probes: what is tried, asked of the source first, and what counts as parting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.check.accuracy import AccuracyResult, Tried, comparer_for
from converter.check.answers import Answers
from converter.check.comparison import Comparison
from converter.check.gates import Limits
from converter.check.probes import BYTES, LEAST, Builder, Kind, Probe, Probes, rows_of
from converter.check.trying import Trier, run_probes
from converter.check.unsteady import run_shaken
from converter.errors import ModelError
from converter.ir.indexed import entries_of
from converter.ir.model import Model, TensorSpec
from converter.runtime.ort import OrtSession
from converter.samples import Sample, Samples
from converter.samples.generated import RandomSamples
from tests.passes.models import ListedSamples

LINE = "(float[batch, 4] x) => (float[batch, 4] y)"


def model(text: str, opset: int = 18) -> Model:
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    return Model.wrap(onnx_ir.from_proto(onnx.parser.parse_model(f"{head} g {text}")))


def sampled(read: Model, count: int = 8, **sizes: int) -> Samples:
    return RandomSamples(count, read.inputs, sizes, 0, "random")


def probes(read: Model, samples: Samples | None = None, *, exact: bool = True) -> Probes:
    return Builder.of(read, samples or sampled(read), exact=exact, seed=0).build()


def names(found: Probes) -> list[str]:
    return [name for item in found.items for name in (item.rows or (item.name,))]


def tried(source: Model, artifact: Model, samples: Samples | None = None) -> list[Tried]:
    """What an artifact's probes tell; both run in ONNX Runtime."""
    session, running = OrtSession(artifact.graph), OrtSession(source.graph)
    found = probes(source, samples)
    ran = run_probes(found.answered(Answers(running.run), source.outputs), session)
    trier = Trier(
        Limits.by_precision("fp32"),
        lambda feeds, seed: run_shaken(lambda: running, feeds, seed),
        source.outputs,
        usual={"y": 1.0},
    )
    return list(trier.judge(AccuracyResult(Comparison(0, ())), ran).tried)


def missed(source: Model, artifact: Model, samples: Samples | None = None) -> list[str]:
    return [item.probe for item in tried(source, artifact, samples) if item.missed]


def test_a_batch_samples_and_edges() -> None:
    found = names(probes(model(f"{LINE} {{ y = Relu(x) }}")))
    assert found[:3] == ["row 1", "row 2", "row 3"]
    assert {"zeros", "ones", "pairs of equal values", "large values"} < set(found)
    assert {"NaN in x", "a second call"} < set(found) and "infinity in x" not in found
    handled = model(f"{LINE} {{ n = IsInf(x) y = Cast<to = 1>(n) }}")
    assert "infinity in x" in names(probes(handled))
    lower = probes(model(f"{LINE} {{ y = Relu(x) }}"), exact=False)
    assert {item.kind for item in lower.items} == {"mixes", "rows", "again"}


def test_few_samples_without_a_batch_are_mixed() -> None:
    read = model("(float[2, 4] x) => (float[2, 4] y) { y = Relu(x) }")
    found = [item.kind for item in probes(read, sampled(read, 3)).items]
    assert found.count("mix") == 5 and "mixes" not in found
    assert "mix" not in [item.kind for item in probes(read, sampled(read, 8)).items]


def test_inputs_say_what_edges_are() -> None:
    read = model(
        "(int64[batch, 3] ids, bool[batch, 3] mask) => (float[batch, 3, 2] y) "
        "<float[7, 2] table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}> "
        "{ at = Identity(ids) y = Gather(table, at) }"
    )
    assert entries_of(read.graph.graph) == {"ids": 7}
    found = set(names(probes(read)))
    assert {"mask all False", "mask all True", "ids all 6, the largest", "ids all the same"} < found
    assert not any("2^24" in name for name in found)


def test_sizes_and_the_budget() -> None:
    read = model("(float[batch, n] x) => (float[batch, n] y) { y = Relu(x) }")
    samples = sampled(read, n=6)
    found = {item.name: item for item in probes(read, samples).items}
    sizes = [found[f"other sizes, {name}"].feeds["x"].shape[1] for name in
             ("odd", "smaller", "larger")]  # fmt: skip
    assert sizes == [7, 3, 12]
    costly = Builder(read.inputs, samples, macs=LEAST // 4).build()
    assert [item.kind for item in costly.items] == ["mixes"]
    assert len(costly.items[0].rows) == 2
    assert "other sizes, larger" in costly.left_out
    assert not Builder(read.inputs, samples, macs=LEAST).build().items
    large = Builder(read.inputs, samples, size=BYTES // 5).build()
    assert [len(item.rows) for item in large.items] == [2, 0, 0, 0]  # and what is smaller


def test_sizes_without_a_window_are_none() -> None:
    read = model(
        "(float[1, 1, h, w] x) => (float[1, 1, a, b] y) "
        "{ p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) "
        "y = MaxPool<kernel_shape = [3, 3]>(p) }"
    )
    sizes = {item.name for item in probes(read, sampled(read, h=8, w=8)).items}
    assert "other sizes, larger" in sizes and "other sizes, smaller" not in sizes


def test_the_source_is_asked_first() -> None:
    read = model(f"{LINE} {{ y = Relu(x) }}")

    def refusing(feeds: Any) -> dict[str, Any]:
        if len(feeds["x"]) > 1:
            raise ModelError("one at a time")
        return {"y": np.maximum(feeds["x"], 0)}

    found = list(probes(read).answered(Answers(refusing), read.outputs))
    batches = [item for item in found if item[0].kind in ("mixes", "rows")]
    assert [item.feeds["x"].shape[0] for item, _ in batches] == [3, 5]
    for item, given in batches:  # answered row by row
        assert np.array_equal(given["y"], np.maximum(item.feeds["x"], 0))
    assert {"zeros", "large values"} < {item.name for item, _ in found}  # each alone


@pytest.mark.parametrize(("source", "wrong", "probe"), [
    ("y = Relu(x)", "m = ReduceMax<keepdims = 1>(x, zero) y = Mul(x, m)", "row 1 of a batch of 3"),
    ("y = Clip(x, low, high)", "y = Identity(x)", "large values"),
    ("n = IsNaN(x) y = Where(n, none, x)", "y = Identity(x)", "NaN in x"),
])  # fmt: skip
def test_parting(source: str, wrong: str, probe: str) -> None:
    weights = "<int64[1] zero = {0}, float low = {-30}, float high = {30}, float none = {0}>"
    right, other = (model(f"{LINE} {weights} {{ {text} }}") for text in (source, wrong))
    assert probe in missed(right, other)
    assert missed(right, right) == []


def test_what_rounding_explains_counts_for_nothing() -> None:
    weights = "<float big = {1e6}, float thousand = {1000}>"
    wave = model(f"{LINE} {weights} {{ a = Mul(x, big) y = Sin(a) }}")
    same = model(f"{LINE} {weights} {{ b = Mul(x, thousand) a = Mul(b, thousand) y = Sin(a) }}")
    assert missed(wave, same) == []


@pytest.mark.parametrize(("of", "counts"), [
    (lambda x: np.nan_to_num(x, nan=0), True),
    (lambda x: np.nan_to_num(x, nan=5), False),
    # a ReLU that takes NaN for 0, as TensorFlow's does; for the sample it is 0 as well
    (lambda x: np.fmax(np.tile(-x.sum(-1, keepdims=True), 4), 0), False),
])  # fmt: skip
def test_nan_counts_where_it_is_handled_on_purpose(of: Callable[[Any], Any], counts: bool) -> None:
    read = model(f"{LINE} {{ y = Relu(x) }}")

    def source(feeds: Any) -> dict[str, Any]:
        return {"y": of(feeds["x"])}

    ones = ListedSamples([{"x": np.ones((1, 4), np.float32)}])
    found = [item.name for item, _ in probes(read, ones).answered(Answers(source), read.outputs)]
    assert ("NaN in x" in found) is counts


def test_what_the_artifact_refuses() -> None:
    free = model("(float[batch, n] x) => (float[batch, n] y) { y = Relu(x) }")
    fixed = model(
        "(float[batch, n] x) => (float[batch, n] y) <int64[2] shape = {-1, 6}> "
        "{ y = Reshape(x, shape) }"
    )
    found = [item for item in tried(free, fixed, sampled(free, n=6)) if item.missed]
    assert any(
        "refuses an input that the source takes" in item.missed.why for item in found if item.missed
    )
    closed = model("(float[batch, 6] x) => (float[batch, 6] y) { y = Relu(x) }")
    assert missed(free, closed, sampled(free, n=6)) == []  # its interface says so


def test_answers_are_kept_and_asked_once(tmp_path: Path) -> None:
    calls = []

    def source(feeds: Any) -> dict[str, Any]:
        calls.append(feeds)
        if feeds["x"][0] < 0:
            raise ModelError("below zero")
        return {"y": feeds["x"] * 2, "s": np.array(["a", "b"], object)}

    answers = Answers(source)
    answers.keep_in(tmp_path)
    good, bad = {"x": np.array([1.0])}, {"x": np.array([-1.0])}
    assert answers.given(good) is not None and answers.given(bad) is None
    answers.keep_in(None)
    again = Answers(source)
    again.look_in(tmp_path)
    found = again.given(good)
    assert found is not None and found["y"] == 2 and found["s"].tolist() == ["a", "b"]
    with pytest.raises(ModelError, match="below zero"):
        again(bad)
    assert len(calls) == 2
    again(good, "again")
    assert len(calls) == 3


def test_rows_of_a_batch() -> None:
    read = model(f"{LINE} {{ y = Relu(x) }}")
    outputs = {"y": np.arange(8.0).reshape(2, 4), "z": np.ones(3)}
    rows = rows_of(outputs, read.outputs, 2)
    assert [row["y"].tolist() for row in rows] == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]
    assert all("z" not in row for row in rows)


def test_the_sample_stays_as_it_is() -> None:
    read = model(f"{LINE} {{ y = Relu(x) }}")
    samples = sampled(read)
    before = [sample.feeds["x"].copy() for sample in samples]
    probes(read, samples)
    assert all(np.array_equal(a, b.feeds["x"]) for a, b in zip(before, samples, strict=True))
    assert isinstance(next(iter(samples)), Sample)


@pytest.mark.parametrize(("kind", "off", "known", "parts"), [
    ("again", 0.03, 0.04, False),  # no more than on the samples, though the one number is small
    ("again", 0.05, 0.04, True),
    ("sizes", 0.025, 0.0, False),  # twice the error that samples may have
    ("sizes", 0.04, 0.0, True),
    ("again", 0.025, 0.0, True),
])  # fmt: skip
def test_a_lower_precision_errs_as_on_its_samples(
    kind: Kind, off: float, known: float, parts: bool
) -> None:
    """int8's norm is within 0.141 of the source's: for 0.1 that is 0.014, at other sizes 0.028."""
    outputs = (TensorSpec("y", "float32", ("batch",)),)
    samples = comparer_for(outputs)
    samples.add({"y": np.float32([1])}, {"y": np.float32([1 + known])}, "a sample")
    trier = Trier(Limits.by_precision("int8"), lambda feeds, seed: {}, outputs, usual={"y": 1.0})
    probe = Probe("a probe", kind, {"x": np.zeros(1, np.float32)})
    ran = [(probe, {"y": np.float32([0.1])}, {"y": np.float32([0.1 + off])})]
    (found,) = trier.judge(AccuracyResult(samples.result()), ran).tried
    assert bool(found.missed) == parts
