"""Artifacts that are wrong where large values, offsets or single samples hide it: ``check`` misses
a gate on each, and on none of the right ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.wrong_pairs import PAIRS
from tests.acceptance.cli import command


@pytest.mark.parametrize("what", PAIRS)
def test_a_wrong_artifact_misses_a_gate_and_a_right_one_none(what: str, tmp_path: Path) -> None:
    source, artifact = PAIRS[what].write(tmp_path)
    options = ["--against", source, "--samples", "random:8", *PAIRS[what].options]
    command("check", source, *options, code=0)
    said = command("check", artifact, *options, code=4)
    assert "missed" in said.err
