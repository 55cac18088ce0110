"""Outputs that are lists of found things: rows of equal scores may stand in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from converter.check.matching import Matching


def in_order(
    lists: Sequence[Mapping[str, Any]],
    ties: float,
    expected: Mapping[str, Any],
    found: dict[str, Any],
) -> dict[str, Any]:
    """What was found, its rows where the source has them.

    Args:
        lists: Outputs that are lists, and the axis of their rows.
        ties: How far apart scores may be and count as equal.
        expected: What the source gave: arrays by output.
        found: What the artifact gave, likewise.
    """
    rows: list[Any] = [
        SimpleNamespace(outputs=item["outputs"], axis=item["axis"]) for item in lists
    ]
    for matched in list(Matching(rows, ties).matched(expected, found)):
        found = {**found, **matched.arrays}
    return found
