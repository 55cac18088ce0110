"""Whether a lower precision pays here: its latency beside float32's, and the reason where known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from converter.check.machine import Machine
from converter.report.model import ArtifactReport

WORTH = 0.95
"""A latency of at least this share of float32's isn't faster: below that is noise."""

SMALL_MS = 1.0
"""Milliseconds below which calls and conversions count as much as arithmetic."""


def not_faster(artifacts: Sequence[ArtifactReport], machine: Machine | None) -> Iterator[str]:
    """A line for each artifact of a lower precision that is no faster than its target's float32."""
    plain = {item.target: item for item in artifacts if item.precision == "fp32"}
    for item in artifacts:
        float32 = plain.get(item.target)
        if float32 is None or item is float32:
            continue
        before, after = _median(float32), _median(item)
        if before is None or after is None or after < WORTH * before:
            continue
        yield (
            f"{item.title} IS NOT FASTER HERE: {after:.3g} ms, float32 {before:.3g} ms"
            f"{_reason(item, before, machine)}"
        )


def _median(item: ArtifactReport) -> float | None:
    points = (p.p50_ms for p in item.latency if p.role == "artifact")
    return next(points, None)


def _reason(item: ArtifactReport, before: float, machine: Machine | None) -> str:
    if item.precision in ("fp16", "bf16"):
        return ": CPUs compute most of it in float32; it halves the size, and is meant for GPUs"
    if machine is not None and machine.flags and not any("vnni" in f for f in machine.flags):
        return ": this CPU has no VNNI instructions"
    if before < SMALL_MS:
        return ": the model is too small for int8 to matter"
    return ""
