"""Whole conversions to tensorrt-rtx, of real models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from converter import api
from converter.errors import DependencyError, UnsupportedError, UsageError
from converter.plugins import load
from emitters.tensorrt.libraries import has_gpu
from tests.tensorrt.models import saved, text_model
from tests.tensorrt.test_support import UNSUPPORTED

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(has_gpu(), reason="it is about machines without a GPU"),
]


def converted(source: str, out: Path, **options: Any) -> Any:
    asked = {"to": ["tensorrt-rtx"], "bench": True, "bench_seconds": 0.1, **options}
    return api.convert(source, out=str(out), **asked).report


@pytest.fixture(scope="module")
def mnist(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    out = tmp_path_factory.mktemp("mnist") / "out"
    precisions = ["fp32", "fp16", "int8"]
    report = converted("zoo:ccexam-mnist", out, precision=precisions, weight_methods=["none"])
    return out, report


def test_three_precisions_with_their_shares(mnist: tuple[Path, Any]) -> None:
    _, report = mnist
    types = {"fp32": "float32", "fp16": "float16", "int8": "int8"}
    assert [item.precision for item in report.artifacts] == list(types)
    for item in report.artifacts:
        assert item.details["requested_precision"][types[item.precision]]["macs"] == 1.0
        assert item.accuracy.outputs[0].cosine > 0.999
        assert any(line.startswith("requested precision: ") for line in item.decisions)
    sizes = [item.bytes for item in report.artifacts]
    assert sizes[0] > 1.5 * sizes[1]


def test_nothing_says_that_an_engine_ran(mnist: tuple[Path, Any]) -> None:
    out, report = mnist
    for item in report.artifacts:
        assert item.runtime["stands_for"] == "model.plan"
        assert item.latency == [] and item.ratios == []
        (gate,) = [gate for gate in item.gates if gate.name == "runs"]
        assert gate.status == "not judged" and "was not run" in gate.why
    loud = [alert for alert in report.alerts if alert.loud and "HAS NOT BEEN RUN" in alert.text]
    assert all(any(item.title in alert.text for alert in loud) for item in report.artifacts)
    assert "HAS NOT BEEN RUN" in (out / "report.html").read_text()


def test_versions_are_in_the_manifest(mnist: tuple[Path, Any]) -> None:
    out, _ = mnist
    manifest = json.loads((out / "manifest.json").read_text())
    assert "tensorrt-rtx" in json.dumps(manifest["versions"])
    text = (out / "tensorrt-rtx" / "int8" / "engine.json").read_text()
    assert str(out) not in text and str(Path.home()) not in text


def test_a_second_run_gives_the_same_files(mnist: tuple[Path, Any], tmp_path: Path) -> None:
    out, _ = mnist
    precisions = ["fp32", "fp16", "int8"]
    again = tmp_path / "somewhere" / "else" / "altogether"
    again.parent.mkdir(parents=True)
    converted(
        "zoo:ccexam-mnist", again, precision=precisions, weight_methods=["none"], check=False,
        bench=False,
    )  # fmt: skip
    files = sorted(path.relative_to(again) for path in (again / "tensorrt-rtx").rglob("*.*"))
    assert len(files) == 12
    for file in files:
        assert (again / file).read_bytes() == (out / file).read_bytes(), file


def test_an_engine_is_looked_into_and_checked_by_itself(mnist: tuple[Path, Any]) -> None:
    plan = mnist[0] / "tensorrt-rtx" / "int8" / "model.plan"
    facts = api.inspect_artifact(str(plan))
    assert facts is not None and facts["engine"].startswith("tensorrt-rtx 1.")
    assert facts["built for"] == "compute capability 8.6, 8.9, 12.0"
    with pytest.raises(DependencyError, match="can't be measured here"):
        api.bench(str(plan), "zoo:ccexam-mnist")


def test_a_plan_is_opened_without_the_model_it_came_from(
    mnist: tuple[Path, Any], tmp_path: Path
) -> None:
    """No parser reads it, and none is needed: what stops it here is the lack of a GPU."""
    plan = mnist[0] / "tensorrt-rtx" / "int8" / "model.plan"
    with pytest.raises(DependencyError, match="can't be measured here"):
        api.bench(str(plan))
    with pytest.raises(UsageError, match="is a TensorRT engine"):
        api.inspect(str(plan))
    text = tmp_path / "notes.txt"
    text.write_text("no model")
    with pytest.raises(UsageError, match="no artifact that can be run"):
        api.bench(str(text))


def test_other_shapes_and_options(tmp_path: Path) -> None:
    """A model with free height and width, for one device, at shapes of its own."""
    shapes = "x:1x3x48x192,4x3x48x192,16x3x48x320"
    report = converted(
        "zoo:pp-ocr-cls", tmp_path / "out", precision=["fp32"], shapes=[shapes], tf32=False,
        compute_capabilities=["8.9"], bench=False,
    )  # fmt: skip
    (item,) = report.artifacts
    assert item.details["compute_capabilities"] == ["8.9"]
    assert item.details["profiles"][0]["x"][2] == (16, 3, 48, 320)
    assert item.details["options"]["tf32"] is False


def test_a_model_that_cannot_be_taken_is_refused_before_anything_else(tmp_path: Path) -> None:
    source = saved(text_model(UNSUPPORTED), tmp_path)
    with pytest.raises(UnsupportedError) as error:
        converted(str(source), tmp_path / "out", dims={"n": 1})
    assert [item.op for item in error.value.items] == ["Unique", "Det"]
    assert not (tmp_path / "out").exists()


def test_int8_dynamic_and_a_lacking_option(tmp_path: Path) -> None:
    source = saved(text_model(UNSUPPORTED), tmp_path)
    with pytest.raises(UsageError, match="int8-dynamic"):
        converted(str(source), tmp_path / "out", precision=["int8-dynamic"])
    with pytest.raises(UsageError, match="of the options"):
        converted(str(source), tmp_path / "out", refit=True)


def test_both_targets_are_registered() -> None:
    assert load("emitters", "tensorrt").scheme == "tensorrt-s8"
    assert load("emitters", "tensorrt-rtx").scheme == "tensorrt-s8"
