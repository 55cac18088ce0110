"""What an artifact costs, in words and rows: for the terminal and for pages."""

from __future__ import annotations

from converter.runtime.cost import START, UNKNOWN, Footprint, Profile
from converter.text import words

OF_NONE, OF_UNKNOWN = "of no layer", "layer not known"

BY_OP = ("operator", "where", "nodes", "us", "share")
BY_LAYER = ("layer of the source", "nodes", "us", "share")


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
        for op, place, count, us in profile.by_op()
    ]
    outside = profile.outside
    last = ("between operators", "", "", words.number(outside), words.percent(outside / profile.us))
    return [*rows, last]


def layer_rows(profile: Profile) -> list[tuple[str, ...]]:
    """A row for each layer, that which takes most first."""
    return [
        (layer_name(name), str(count), words.number(us), words.percent(us / profile.us))
        for name, count, us in profile.by_layer()
    ]


def layer_name(name: str) -> str:
    """A layer as it is shown."""
    return {"": OF_NONE, UNKNOWN: OF_UNKNOWN}.get(name, name)


def where_line(profile: Profile) -> str:
    """Where it ran: ``cpu 31 operators (93%)``."""
    return ", ".join(
        f"{place} {count} operator{'s' * (count != 1)} ({words.percent(us / profile.us)})"
        for place, count, us in profile.by_place()
    )


def title(profile: Profile) -> str:
    """What was profiled, and what that means."""
    return (
        f"{profile.runtime}, by its own profiler: {words.number(profile.us)} us a run, the mean of "
        f"{profile.runs}; to profile costs time"
    )
