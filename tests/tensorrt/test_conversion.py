"""A whole conversion to tensorrt-rtx, of a real model, and its engine looked at again."""

import json
from pathlib import Path
from typing import Any

import pytest

from converter import api
from converter.errors import DependencyError, UsageError
from emitters.tensorrt.libraries import has_gpu

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(has_gpu(), reason="it is about machines without a GPU"),
]


@pytest.fixture(scope="module")
def mnist(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    out = tmp_path_factory.mktemp("mnist") / "out"
    options = {"to": ["tensorrt-rtx"], "precision": ["int8"], "weight_methods": ["none"]}
    return out, api.convert("zoo:ccexam-mnist", out=str(out), bench_seconds=0.1, **options).report


def test_nothing_says_that_an_engine_ran(mnist: tuple[Path, Any]) -> None:
    out, report = mnist
    (item,) = report.artifacts
    assert item.runtime["stands_for"] == "model.plan"
    assert item.details["requested_precision"]["int8"]["macs"] == 1.0
    assert item.latency == [] and item.ratios == []
    (gate,) = [gate for gate in item.gates if gate.name == "runs"]
    assert gate.status == "not judged" and "was not run" in gate.why
    loud = [alert for alert in report.alerts if alert.loud and "HAS NOT BEEN RUN" in alert.text]
    assert any(item.title in alert.text for alert in loud)
    assert "HAS NOT BEEN RUN" in (out / "report.html").read_text()
    assert "tensorrt-rtx" in json.dumps(json.loads((out / "manifest.json").read_text())["versions"])
    text = (out / "tensorrt-rtx" / "int8" / "engine.json").read_text()
    assert str(out) not in text and str(Path.home()) not in text


def test_an_engine_is_looked_into_and_checked_by_itself(mnist: tuple[Path, Any]) -> None:
    plan = mnist[0] / "tensorrt-rtx" / "int8" / "model.plan"
    facts = api.inspect_artifact(str(plan))
    assert facts is not None and facts["engine"].startswith("tensorrt-rtx 1.")
    assert facts["built for"] == "compute capability 8.6, 8.9, 12.0"
    with pytest.raises(DependencyError, match="can't be measured here"):
        api.bench(str(plan), "zoo:ccexam-mnist")


def test_a_plan_is_opened_without_the_model_it_came_from(mnist: tuple[Path, Any],
                                                         tmp_path: Path) -> None:  # fmt: skip
    """No parser reads it, and none is needed: what stops it here is the lack of a GPU."""
    plan = mnist[0] / "tensorrt-rtx" / "int8" / "model.plan"
    with pytest.raises(DependencyError, match="can't be measured here"):
        api.bench(str(plan))
    with pytest.raises(UsageError, match="is a TensorRT engine"):
        api.inspect(str(plan))
    text = tmp_path / "notes.txt"
    text.write_text("no model")
    with pytest.raises(UsageError, match="isn't an artifact that can be run"):
        api.bench(str(text))
