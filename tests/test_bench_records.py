"""The records: cases in forks, others' lists of models, the scoreboard's backend."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

from bench.records import corpus, lists, models_page, small, winml
from bench.records.forks import run_each
from bench.records.kept import Kept
from bench.records.pages import general
from bench.records.scoreboard import backend


def _work(name: str) -> dict[str, Any]:
    if name == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "hangs":
        time.sleep(60)
    return {"pid": os.getpid()}


def test_a_case_that_ends_its_process_costs_one_case(tmp_path: Path) -> None:
    names = ["one", "dies", "two", "hangs", "three"]
    found = [*run_each(names, _work, seconds=3, in_fork=9, log=tmp_path / "log")]
    assert [item["name"] for item in found] == names
    assert found[1]["crashed"] == "the process ended by SIGSEGV"
    assert found[3]["crashed"] == "no end within 3 s"
    assert len({found[i]["pid"] for i in (0, 2, 4)} - {os.getpid()}) == 3
    assert "--- hangs" in (tmp_path / "log").read_text()


def test_results_of_several_runs_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.records.kept.FOLDER", tmp_path)
    kept = Kept("opinfo")
    kept.add({"name": "add", "samples": [{"onnx": ["ok", ""]}]})
    kept.add({"name": "sub", "crashed": "why"})
    kept.add({"name": "add", "samples": [{"tflite": ["ok", ""]}]})
    assert kept.read()["add"]["samples"] == [{"onnx": ["ok", ""], "tflite": ["ok", ""]}]
    assert [*kept.read()] == ["add", "sub"]


def test_the_lists_and_their_cases() -> None:
    for record, count in (("winml", 230), ("onnx2tf", 420)):
        lines, makers = lists.listed(record), lists.makers(record)
        assert len(lines) == count
        assert {item.name for item in lines if item.name} == {*makers}
        assert all(item.name or item.why for item in lines)
    assert {*corpus.BUILT} <= {item.title for item in lists.listed("onnx2tf")}


@pytest.mark.parametrize("task", ["fill-mask", "translation"])
def test_models_of_transformers_are_made_small(task: str) -> None:
    form = winml.form_of({"fill-mask": "bert", "translation": "marian"}[task], task)
    assert form
    one, other = small.make(form), small.make(form)
    assert sum(p.numel() for p in one.module.parameters()) < 500_000
    for a, b in zip(one.module.parameters(), other.module.parameters(), strict=True):
        assert a.equal(b)
    assert {*one.samples} >= {"input_ids", "attention_mask"}


def test_the_scoreboards_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '<ir_version: 9, opset_import: ["": 17]> g (float[2] x, float[2] y) => (float[2] z)'
    model = onnx.parser.parse_model(text + "{ z = Sub(x, y) }")
    x, y = np.array([1, 2], np.float32), np.array([3, 5], np.float32)
    for target in ("onnx", "tflite"):
        monkeypatch.setenv("MODELYARD_TARGET", target)
        (found,) = backend.run_model(model, [x, y])
        np.testing.assert_array_equal(found, x - y)
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")


def test_reasons_of_one_kind_are_one() -> None:
    one = general("Conv (node_3): has no 5D; Conv (node_4): has no 5D")
    assert one == general("Conv (other): has no 6D")
    assert general("/a/b-1/heads.py:41 takes 3") == "heads.py:N takes N"


def test_a_missed_gate_is_shown_with_its_reason() -> None:
    targets = {"onnx": ["gates missed", "variation: 3e-5", 1.0], "tflite": ["accurate", "", 1.0]}
    found = {"torchvision resnet18": {"parameters": 1, "targets": targets}}
    page = "\n".join(models_page.reasons(lists.listed("onnx2tf"), found))
    assert "| onnx | gates missed | variation: Ne-N | 1 | torchvision resnet18 |" in page
