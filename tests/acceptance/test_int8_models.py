"""int8 of real models: what is promised of accuracy, and how much of each model keeps it.

The cases, their samples and their limits are those of ``bench.precision``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench import precision_data as data
from bench.precision import Seen, run_case
from bench.precision_cases import CASES, Case, Data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample sets, which several cases share."""
    return tmp_path_factory.mktemp("int8")


def _cases(name: str) -> list[Case]:
    return [case for case in CASES if case.name == name and case.precision == "int8"]


def _run(case: Case, folder: Path) -> Seen:
    seen = run_case(case, folder, bench=False)
    assert not seen.missed()
    assert len(seen.judged) == len(case.judged)
    return seen


def test_nothing_is_judged_that_was_calibrated_on() -> None:
    assert not set(data.CALIBRATION_PHOTOS) & set(data.JUDGED_PHOTOS)
    assert len(data.CALIBRATION_PHOTOS) * data.CALIBRATION_CROPS <= 64
    assert len(data.JUDGED_PHOTOS) * data.JUDGED_CROPS >= 200
    assert not set(data.CALIBRATION_TEXTS) & set(data.JUDGED_TEXTS)


@pytest.mark.slow
def test_efficientnet(folder: Path) -> None:
    seen = _run(_cases("EfficientNet-Lite0")[0], folder)
    assert [judged.samples for judged in seen.judged] == [20, 240]
    assert not any("(ReduceMean)" in line for line in seen.decisions), seen.decisions


@pytest.mark.slow
@pytest.mark.timeout(1800)  # evaluations are counted, not seconds
def test_efficientnet_within_a_budget(folder: Path) -> None:
    """What the search finds in a thousand evaluations, a few minutes on a quiet machine."""
    case = _cases("EfficientNet-Lite0")[1]
    seen = _run(replace(case, options={**case.options, "search_evaluations": 1000}), folder)
    assert seen.share is not None and seen.share.share >= 0.5


@pytest.mark.slow
def test_minilm(folder: Path) -> None:
    _run(_cases("MiniLM")[0], folder)


@pytest.mark.slow
def test_digits(folder: Path) -> None:
    """On every fourth of the digits that ``bench.precision`` judges; a tenth of a point is one."""
    some = Data(
        "some digits", lambda f: {"samples": str(data.judged_digits(f, 4)), "labels": "label"}
    )
    seen = _run(replace(_cases("MNIST CNN")[0], judged=(some,)), folder)
    assert seen.judged[0].samples == 1200
    assert seen.share is not None and seen.share.share == 1.0
