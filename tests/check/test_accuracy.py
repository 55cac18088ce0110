"""Accuracy end to end on real sessions: stored references, steps, metrics."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from converter import api
from converter.check.accuracy import check_accuracy, compare_steps
from converter.check.reference import ReferenceOutputs
from converter.check.task_metrics import load_metric
from converter.errors import InternalError, ModelError
from converter.ir.model import TensorSpec
from converter.pipeline.steps import artifacts
from converter.runtime.ort import OrtSession
from converter.runtime.session import Timing
from converter.samples import Sample
from tests.acceptance.cli import small_cnn
from tests.check.tiny import classifier, open_model, samples
from tests.passes.models import ListedSamples


class Fixed:
    """A session that gives the same outputs for whatever it is fed."""

    inputs = outputs = (TensorSpec("y", "float32", ()),)
    runtime = {"name": "fixed", "version": "1"}  # noqa: RUF012

    def __init__(self, **outputs: np.ndarray) -> None:
        self.values = outputs

    def run(self, feeds: object) -> dict[str, np.ndarray]:
        return self.values

    def time(self, feeds: object, runs: int, concurrency: int = 1) -> Timing:
        raise AssertionError("nothing is timed here")

    def close(self) -> None: ...


def test_reference_outputs_come_back_as_they_were(tmp_path: Path) -> None:
    values = {
        "float/32": np.array([[1.5, np.nan]], np.float32),
        "file": np.array([1.0], ml_dtypes.bfloat16),
        "../up": np.array(["ä", "dog"], object),
        "scalar": np.array(3, np.int64),
        "empty": np.zeros((0, 2), np.float16),
    }
    source = [Sample("a/b", {}), Sample("c", {})]
    made = ReferenceOutputs.compute(Fixed(**values), source, tmp_path / "ref")
    again = ReferenceOutputs.load(tmp_path / "ref")
    assert again is not None and again.digest == made.digest and again.names == ("a/b", "c")
    for outputs in again:
        assert list(outputs) == list(values)
        for name, array in outputs.items():
            assert (array.dtype, array.shape) == (values[name].dtype, values[name].shape)
            np.testing.assert_array_equal(array, values[name])
    other = ReferenceOutputs.compute(Fixed(**values), source, tmp_path / "other")
    assert other.digest == made.digest
    names = {"000000.npz", "000001.npz", "outputs.json"}
    assert {p.name for p in (tmp_path / "ref").iterdir()} == names
    for name in names:
        assert (tmp_path / "ref" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert ReferenceOutputs.load(tmp_path) is None
    (tmp_path / "ref" / "outputs.json").write_text("{")  # as where it was not finished
    assert ReferenceOutputs.load(tmp_path / "ref") is None


def test_the_same_model_has_no_error(tmp_path: Path) -> None:
    session = open_model(tmp_path, classifier())
    labelled = samples(labels=[0] * 12)
    reference = ReferenceOutputs.compute(session, labelled, tmp_path / "ref")
    result = check_accuracy(reference, session, labelled, metrics=[load_metric("top1")])
    output = result.comparison.outputs[0]
    assert (output.cosine, output.max_abs, output.argmax_agreement) == (1.0, 0.0, 1.0)
    assert result.metrics[0].drop == 0 and result.metrics[0].samples == 12


def test_a_step_that_loses_something_is_named(tmp_path: Path) -> None:
    source = open_model(tmp_path, classifier())
    data = samples()
    reference = ReferenceOutputs.compute(source, data, tmp_path / "ref")
    scaled = ReferenceOutputs.compute(
        open_model(tmp_path, classifier(1.5)), data, tmp_path / "scaled"
    )
    steps = [("parse", reference), ("scale", scaled), ("emit", scaled), ("same", None)]
    parse, scale, emit, same = compare_steps(reference, steps)
    assert parse.source.max_abs == parse.previous.max_abs == 0
    assert scale.source.sqnr_db == pytest.approx(20 * np.log10(2), abs=1e-3)
    assert scale.previous.max_abs == scale.source.max_abs
    assert emit.previous.max_abs == 0 and emit.source.max_abs == scale.source.max_abs
    assert same.previous.max_abs == 0 and same.source.max_abs == scale.source.max_abs


def test_samples_that_do_not_fit(tmp_path: Path) -> None:
    """Others than the reference's; one that fails is named."""
    session = open_model(tmp_path, classifier())
    reference = ReferenceOutputs.compute(session, samples(3), tmp_path / "ref")
    with pytest.raises(InternalError):
        check_accuracy(reference, session, samples(4))
    wrong = ListedSamples([Sample("photo-7", {"x": np.zeros((1, 3), np.float32)})])
    with pytest.raises(ModelError, match="on the sample photo-7"):
        ReferenceOutputs.compute(session, wrong, tmp_path / "ref")


def test_the_models_before_several_artifacts_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[OrtSession] = []

    class Noted(artifacts.Remembering):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            opened.append(self)

    monkeypatch.setattr(artifacts, "Remembering", Noted)
    to, samples = ["onnx", "ort", "coreml"], "random:2"
    result = api.convert(
        small_cnn(tmp_path / "cnn.onnx"), to=to, out=tmp_path / "out", samples=samples,
        few_samples=True, bench=False, simplify=False, cache=False,
    )  # fmt: skip
    assert result.report is not None
    told = [[step.step for step in artifact.steps] for artifact in result.report.artifacts]
    assert told == [["read", "simplified", f"{target} fp32"] for target in to]
    assert 1 <= len(opened) <= 2  # not one for each target
