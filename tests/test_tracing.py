"""The step trace: what it compares, and what it leaves out and says so."""

from pathlib import Path

import pytest

from converter import api
from converter.pipeline import tracing
from converter.report.layerwise_error import AlongReport
from tests.acceptance.cli import small_cnn


def along(folder: Path, **options: object) -> tuple[list[AlongReport], list[str]]:
    small_cnn(folder / "model.onnx")
    source = str(folder / "model.onnx")
    made = api.convert(source, bench=False, out=str(folder / "out"), overwrite=True, **options)
    assert made.report is not None
    cached = [item.step for item in made.report.timings if item.cached]
    return made.report.along, cached


@pytest.mark.slow
def test_each_step_that_changed_the_model(tmp_path: Path) -> None:
    found, _ = along(tmp_path, precision=["fp32", "fp16"], samples="random:8")
    steps = [("read", "simplified"), ("simplified", "fp16")]
    assert [(item.before, item.after) for item in found] == steps
    assert [item.samples for item in found] == [tracing.SAMPLES] * 2
    assert found[0].exact and not found[1].exact
    again, cached = along(tmp_path, precision=["fp32", "fp16"], samples="random:8")
    assert again == found
    assert {"trace:simplify", "trace:quantize:fp16"} <= set(cached)


@pytest.mark.slow
def test_a_step_that_changed_nothing(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    small_cnn(first / "model.onnx")
    api.convert(str(first / "model.onnx"), bench=False, out=str(tmp_path / "made"))
    simplified = tmp_path / "made/onnx/fp32/model.onnx"
    made = api.convert(str(simplified), bench=False, keep_steps=True, out=str(tmp_path / "again"))
    assert made.report is not None and made.report.along == []


def test_large_models_are_left_out_and_all_without_a_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "LARGEST", 1000)
    (found,), _ = along(tmp_path, cache=False, keep_steps=True)
    assert found.skipped.endswith("modelyard diff compares such models") and not found.points
    found, _ = along(tmp_path, check=False, keep_steps=True)
    assert found == []
