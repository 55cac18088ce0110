"""Every common Keras layer through a .keras file: right at batch 1 and 3, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.keras.conftest import results_of

pytestmark = pytest.mark.slow

CASES = json.loads((Path(__file__).parent / "layer_cases.json").read_text())
LIMIT = 1e-5


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All cases' results, from one process."""
    return results_of("tests.keras.sweep_child", tmp_path_factory.mktemp("sweep"))


def test_every_case_ran(results: dict[str, Any]) -> None:
    assert sorted(results) == sorted(CASES["right"] + list(CASES["refused"]))


@pytest.mark.parametrize("name", CASES["right"])
def test_right(results: dict[str, Any], name: str) -> None:
    found = results[name]
    assert "error" in found, found
    assert found["error"] <= LIMIT


@pytest.mark.parametrize("name", CASES["refused"])
def test_refused(results: dict[str, Any], name: str) -> None:
    """Whatever can't be translated says which operators it is."""
    found = results[name]
    assert found.get("refused") == CASES["refused"][name]["kind"], found
    text = " ".join(found["details"])
    assert all(word in text for word in CASES["refused"][name]["says"]), text
