"""docs/zoo.md: a line for each model, whatever became of it."""

import re
from pathlib import Path

import pytest

from bench.kernels import network
from converter.report.model import Report
from tests.report import build
from zoo import catalogue, page
from zoo.entry import Entry
from zoo.kernels import profile, told
from zoo.page import HEAD, Outcome

ENTRY = catalogue.entries()["ccexam-mnist"]


def row(entry: Entry, report: Report) -> dict[str, str]:
    """A model's row, by its columns."""
    return dict(zip(HEAD, Outcome("net", entry, 9.0, report).cells, strict=True))


def test_a_model_that_was_converted() -> None:
    report = build.report(build.artifact())
    artifact = report.artifacts[0]
    found = row(ENTRY, report)
    assert (found["model"], found["framework"]) == ("net", "pytorch")
    assert found["nodes"] == f"{artifact.nodes_before} → {artifact.nodes_after}"
    assert found["accuracy"].startswith("cosine ")
    assert found["state"].startswith(report.verdict)
    benched = sum(t.seconds for t in report.timings if t.step.startswith("bench"))
    assert found["convert s"] == f"{9.0 - benched:.1f}"
    random = row(catalogue.entries()["resnet50-random"], build.on_random_inputs())
    assert "random weights" in random["state"]
    assert "random inputs" in random["accuracy"]


def test_a_source_that_is_not_as_good_as_the_catalogue_says_is_told() -> None:
    made = build.artifact(metrics=(build.drop(90.0, 90.0),))
    (metric,) = made.metrics
    entry = ENTRY.model_copy(update={"expected": {metric.name: 1.0, "other": 0.5}})
    state = Outcome("net", entry, 1.0, build.report(made)).state
    assert "is 90.0%, and 100.0% was expected" in state
    assert "other" not in state
    entry = ENTRY.model_copy(update={"expected": {metric.name: 0.9}})
    assert "expected" not in Outcome("net", entry, 1.0, build.report(made)).state


def test_why_a_model_fails() -> None:
    row = Outcome("net", ENTRY, 1.0, error="no | such\nthing").cells
    assert len(row) == len(HEAD)
    assert row[-1] == r"**fails**: no \| such thing"
    broken = ENTRY.model_copy(update={"broken": "it holds text"})
    assert Outcome("net", broken, 1.0, error="no").cells[-1] == "**fails**: it holds text (no)"
    works = Outcome("net", broken, 1.0, build.report(build.artifact())).state
    assert "although the catalogue says it doesn't" in works
    said = {"message": "can't", "details": ["a", "b", "c", "d"]}
    assert page._error(said) == "can't: a; b; c (and 1 more)"


def test_one_that_can_not_be_fetched_does_not_stop_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    outcome = page.convert("ccexam-mnist", ENTRY, tmp_path)
    assert outcome.report is None
    assert "pip could not download ccexam 1.0.0" in outcome.state


def test_the_page_has_its_machine_and_versions() -> None:
    text = page.page([Outcome("a", ENTRY, 1.0, error="x")])
    for words in ("0 of 1 models convert", "onnxruntime-gpu", "cores"):
        assert words in text
    assert len([line for line in text.splitlines() if line.startswith("| ")]) == 2


def test_what_is_slower_says_where_its_time_goes(tmp_path: Path) -> None:
    model = network("blocked", 16, 32)
    model.save(tmp_path / "net.onnx")
    line = told(tmp_path / "net.onnx")
    assert (
        re.fullmatch(r"\d+ nodes: .*; a call alone [\d.]+ µs", line)
        and "Conv" in line
        and "PRelu" in line
    )
    found = profile(tmp_path / "net.onnx")
    assert found["PRelu"][0] == 1 and all(seen >= 0 for _, seen in found.values())
    slow = Outcome("net", ENTRY, 9.0, build.report(build.artifact()), kernels=line)
    assert slow.ratio is not None
    assert f"- net, x{slow.ratio:.2f}: {line}" in page.page([slow])
    assert "None." in page.page([Outcome("net", ENTRY, 9.0, slow.report)])
