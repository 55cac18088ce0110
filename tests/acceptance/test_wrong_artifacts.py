"""Artifacts that are wrong where large values, offsets or single samples hide it: ``check`` misses
a gate on each, and on none of the right ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.wrong_pairs import PAIRS
from tests.acceptance.cli import command

ON_PROBES_ALONE = (
    "it is right at the samples' sizes alone",
    "silence is minus infinity",
    "large values are cut off",
    "NaN isn't taken for zero",
    "a mask that lets nothing through gives NaN",
    "the largest index is another's",
    "integers are rounded to float32",
)
"""Pairs that part on no sample, so that they are told how to leave probes out."""


@pytest.mark.parametrize("what", PAIRS)
def test_a_wrong_artifact_misses_a_gate_and_a_right_one_none(what: str, tmp_path: Path) -> None:
    source, artifact = PAIRS[what].write(tmp_path)
    options = ["--against", source, "--samples", "random:8", *PAIRS[what].options]
    command("check", source, *options, code=0)
    said = command("check", artifact, *options, code=4)
    assert "missed" in said.err
    assert ("--no-probes leaves them out" in said.err) == (what in ON_PROBES_ALONE)
