"""Whether a lower precision pays here: its latency beside float32's, and the reason where known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from converter.check.kernels import kernels_of
from converter.check.latency import LatencyPoint
from converter.errors import ModelError
from converter.machine import INT8_DOT, Machine
from converter.report.model import ArtifactReport
from converter.text import words

WORTH = 0.95
"""A latency of at least this share of float32's isn't faster: below that is noise."""

SMALL_MS = 1.0
"""Milliseconds below which calls and conversions count as much as arithmetic."""

MOSTLY = 0.5
"""Share of the multiply-adds from which on a model is mostly of its precision."""

Point = tuple[int, int]
"""Batch size and callers."""


def not_faster(
    artifacts: Sequence[ArtifactReport], machine: Machine | None, folder: Path
) -> Iterator[str]:
    """A line for each artifact of a lower precision that is no faster than float32.

    It is compared with its target's float32 artifact; where there is none, with the source.

    Args:
        artifacts: With their latencies.
        machine: That they were measured on.
        folder: That their paths are relative to.
    """
    plain = {item.target: item for item in artifacts if item.precision == "fp32"}
    for item in artifacts:
        if item.precision == "fp32":
            continue
        float32 = plain.get(item.target)
        what = "float32" if float32 else "the source"
        before = _points(float32, "artifact") if float32 else _points(item, "source")
        after = _points(item, "artifact")
        slow = [at for at in after if at in before and _is_slow(after[at], before[at])]
        if slow:
            where = _where(slow, [at for at in after if at in before])
            ours, theirs = after[slow[0]].p50_ms, before[slow[0]].p50_ms
            yield (
                f"{item.title} IS NOT FASTER HERE{where}: {words.milliseconds(ours)} ms, "
                f"{what} {words.milliseconds(theirs)} ms{_reason(item, theirs, machine, folder)}"
            )


def _points(item: ArtifactReport | None, role: str) -> dict[Point, LatencyPoint]:
    """Those that are worth comparing."""
    points = () if item is None else item.latency
    return {(p.batch, p.concurrency): p for p in points if p.role == role and p.settled}


def _is_slow(after: LatencyPoint, before: LatencyPoint) -> bool:
    """Whether it isn't faster wherever in their rounds' spread the two medians may lie."""
    fastest = after.p50_ms * (1 - after.run_to_run / 2)
    return fastest >= WORTH * before.p50_ms * (1 + before.run_to_run / 2)


def _where(slow: Sequence[Point], measured: Sequence[Point]) -> str:
    if len(slow) == len(measured):
        return ""
    names = [
        f"batch {batch}" + (f" with {callers} callers" if callers > 1 else "")
        for batch, callers in slow
    ]
    return f" at {', '.join(names)}"


def _reason(item: ArtifactReport, before: float, machine: Machine | None, folder: Path) -> str:
    """Why, as far as it is known, after a colon."""
    if _providers(item.runtime) - {"CPU"}:
        return ""
    if item.precision in ("fp16", "bf16"):
        return f": CPUs compute most of it in float32{_size(item)}, and it is meant for GPUs"
    if machine is not None and machine.flags and not set(machine.flags) & set(INT8_DOT):
        return f": this CPU has no dot product of 8-bit integers ({_missing(machine)})"
    if item.lowered_share is not None and item.lowered_share < MOSTLY:
        return f": only {words.percent(item.lowered_share)} of the multiply-adds are int8"
    unfused = _unfused(item, folder)
    if unfused:
        return f": {unfused}"
    if before < SMALL_MS:
        return ": the model is too small for int8 to matter"
    return ""


def _size(item: ArtifactReport) -> str:
    if item.size_ratio is None:
        return ""
    return f", its size is {words.size_ratio(item.size_ratio)} that of {item.size_against}"


def _providers(runtime: Mapping[str, object]) -> set[str]:
    found = runtime.get("providers", ())
    return {str(name) for name in found} if isinstance(found, (list, tuple)) else set()


def _missing(machine: Machine) -> str:
    return "no dotprod" if "asimd" in machine.flags else "no VNNI"


def _unfused(item: ArtifactReport, folder: Path) -> str:
    """Which layers ONNX Runtime has no int8 kernel for."""
    if item.target != "onnx":
        return ""
    try:
        found = kernels_of(folder / item.path)
    except ModelError:  # the file was opened and checked before; a reason is a courtesy
        return ""
    count = sum(found.in_float.values())
    if not count:
        return ""
    ops = ", ".join(f"{number} {op}" for op, number in found.in_float.items())
    total = count + found.fused
    return f"ONNX Runtime has no fused int8 kernel for {ops} of {total} quantized layers"
