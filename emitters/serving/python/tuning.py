"""What of a Python server's package is tuned: what ``model.json`` says of how it runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from converter.protocols.server import Knob, Value
from emitters.serving.tuning import DELAYS, cores, numbers, powers

INSTANCES, BATCH, DELAY, THREADS = "instances", "largest batch", "queue delay us", "threads"
ALL = (INSTANCES, BATCH, DELAY, THREADS)


def knobs_of(facts: Mapping[str, Any], tuned: Collection[str]) -> list[Knob]:
    """The settings of a package, of those that its server takes from ``model.json``."""
    instances, threads = facts["instances"], facts["threads"] or 0
    found = [Knob(THREADS, numbers([0, *powers(cores())], threads), threads)]
    if "joined" in facts:  # earlier packages have what follows in their code
        found.insert(0, Knob(INSTANCES, numbers(powers(2 * cores()), instances), instances))
    if "joined" in facts and facts["max_batch"] > 1:
        joined, delay = facts["joined"], round(facts["delay"] * 1e6)
        found.append(Knob(BATCH, numbers(powers(facts["max_batch"]), joined), joined))
        found.append(Knob(DELAY, numbers(DELAYS, delay), delay))
    return [knob for knob in found if knob.name in tuned]


def turned_facts(
    facts: Mapping[str, Any], values: Mapping[str, Value]
) -> tuple[str, dict[str, Any]]:
    """The text of ``model.json`` at these values, and what a report says of the package then."""
    made, details = dict(facts), dict[str, Any]()
    if INSTANCES in values:
        made["instances"] = details["instances"] = int(values[INSTANCES])
    if THREADS in values:
        made["threads"] = int(values[THREADS]) or None
    if BATCH in values:
        made["joined"] = int(values[BATCH])
        made["delay"] = int(values[DELAY]) / 1e6 if made["joined"] > 1 else 0.0
        details["dynamic_batching"] = made["joined"] > 1
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n", details
