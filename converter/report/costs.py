"""What an artifact costs, in words and rows: for the terminal and for pages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

from converter.runtime.session import START, Footprint, OperatorTime, Profile
from converter.text import words

OF_NONE, OF_UNKNOWN = "of no layer", "layer not known"

BY_OP = ("operator", "where", "nodes", "microseconds", "share")
BY_LAYER = ("layer of the source", "nodes", "microseconds", "share")


def memory_lines(memory: Footprint) -> list[tuple[str, str]]:
    """What it took, a name and a text each."""
    if memory.why or memory.base is None or memory.peak is None:
        return [("memory", f"not measured: {memory.why}"), *_computed(memory)]
    phases = [
        f"{phase.name} {_added(phase.resident - memory.base)}"
        + (f" (at most {_added(phase.peak - memory.base)})" if _higher(phase.peak, phase.resident)
           else "")
        for phase in memory.phases
        if phase.name != START
    ]  # fmt: skip
    above = f"above the {words.size(memory.base)} of a process with its runtime alone"
    lines = [("memory", f"{words.size(memory.peak)} at most, {above}"), ("", "; ".join(phases))]
    arena = words.size(memory.arena) if memory.arena is not None else "not told"
    return [*lines, ("arena", f"{arena}: {memory.arena_holds}"), *_computed(memory)]


def _computed(memory: Footprint) -> list[tuple[str, str]]:
    if memory.activations is None:
        return []
    told = f"{words.size(memory.activations)} at once, computed from the graph"
    return [("activations", told)]


def _added(count: int) -> str:
    return f"+{words.size(count)}" if count >= 0 else f"-{words.size(-count)}"


def _higher(peak: int, resident: int) -> bool:
    """Whether the most was more than what was left, by more than shows."""
    return words.size(peak) != words.size(resident)


def op_rows(profile: Profile) -> list[tuple[str, ...]]:
    """A row for each operator and place, that which takes most first; then what none took."""
    rows = [
        (op, place, str(count), words.number(us), words.percent(us / profile.us))
        for op, place, count, us in by_op(profile)
    ]
    outside = profile.outside
    last = ("between operators", "", "", words.number(outside), words.percent(outside / profile.us))
    return [*rows, last]


def layer_rows(profile: Profile) -> list[tuple[str, ...]]:
    """A row for each layer, that which takes most first."""
    return [
        (name, str(count), words.number(us), words.percent(us / profile.us))
        for name, count, us in by_layer(profile)
    ]


def by_op(profile: Profile) -> list[tuple[str, str, int, float]]:
    """Operator, place, how many there are, and their microseconds, most first."""
    found = _summed(((item.op, item.place), item.us) for item in profile.operators)
    return [(op, place, count, us) for (op, place), (count, us) in found]


def by_layer(profile: Profile) -> list[tuple[str, int, float]]:
    """Layer, how many operators it has, and their microseconds, most first."""
    found = _summed((layer_name(item), item.us) for item in profile.operators)
    return [(name, count, us) for name, (count, us) in found]


def by_place(profile: Profile) -> list[tuple[str, int, float]]:
    """Place, how many operators ran there, and their microseconds, most first."""
    found = _summed((item.place, item.us) for item in profile.operators)
    return [(name, count, us) for name, (count, us) in found]


def layer_name(item: OperatorTime) -> str:
    """An operator's layer as it is shown."""
    return (item.layer or OF_NONE) if item.joined else OF_UNKNOWN


def where_line(profile: Profile) -> str:
    """Where it ran: ``cpu 31 operators (93%)``."""
    return ", ".join(
        f"{place} {count} operator{'s' * (count != 1)} ({words.percent(us / profile.us)})"
        for place, count, us in by_place(profile)
    )


def title(profile: Profile) -> str:
    """What was profiled, and what that means."""
    return (
        f"{profile.runtime}, by its own profiler: {words.number(profile.us)} microseconds a run, "
        f"the mean of {profile.runs}; to profile costs time"
    )


Key = TypeVar("Key", bound=Hashable)


def _summed(items: Iterable[tuple[Key, float]]) -> list[tuple[Key, tuple[int, float]]]:
    """How many there are of each key, and the sum, the largest first."""
    sums: dict[Key, tuple[int, float]] = {}
    for key, value in items:
        count, total = sums.get(key, (0, 0.0))
        sums[key] = (count + 1, total + value)
    return sorted(sums.items(), key=lambda item: -item[1][1])
