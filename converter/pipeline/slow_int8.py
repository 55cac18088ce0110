"""Whether a lower precision pays here: its latency beside float32's, and the reason where known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from converter.check.kernels import Kernels, kernels_of
from converter.check.latency import LatencyPoint
from converter.errors import ModelError
from converter.machine import INT8_DOT, Machine
from converter.precision.quantized import Kept
from converter.report.model import ArtifactReport
from converter.text import words

WORTH = 0.95
"""A latency of at least this share of float32's isn't faster: below that is noise."""

SMALL_MS = 1.0
"""Milliseconds below which calls and conversions count as much as arithmetic."""

MOSTLY = 0.5
"""Share of the multiply-adds from which on a model is mostly of its precision."""

NAMED = 3
"""Nodes in float32 that are named, those with most multiply-adds first."""

PROFILED_MS, PROFILED_RUNS = 50.0, 50
"""Milliseconds for which an artifact is profiled, twice, in so many runs at most; none that takes
longer for one is."""

Point = tuple[int, int]
"""Batch size and callers."""


def not_faster(
    artifacts: Sequence[ArtifactReport],
    machine: Machine | None,
    folder: Path,
    kept: Mapping[str, Sequence[Kept]] | None = None,
) -> Iterator[str]:
    """A line for each artifact of a lower precision that is no faster than float32.

    It is compared with its target's float32 artifact; where there is none, with the source.

    Args:
        artifacts: With their latencies.
        machine: That they were measured on.
        folder: That their paths are relative to.
        kept: What of them stayed in float32, by their titles.
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
            kernels = _kernels(item, folder)
            stays = _stays((kept or {}).get(item.title, ()))
            costs = _costs(kernels, ours, folder / item.path)
            yield "; ".join(
                (
                    f"{item.title} IS NOT FASTER HERE{where}: {words.milliseconds(ours)} ms, "
                    f"{what} {words.milliseconds(theirs)} ms"
                    f"{_reason(item, theirs, machine, kernels)}",
                    *stays,
                    *costs,
                )
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


def _reason(
    item: ArtifactReport, before: float, machine: Machine | None, kernels: Kernels | None
) -> str:
    """Why, as far as it is known, after a colon."""
    if _providers(item.runtime) - {"CPU"}:
        return ""
    if item.precision in ("fp16", "bf16"):
        return f": CPUs compute most of it in float32{_size(item)}, because it is meant for GPUs"
    if machine is not None and machine.flags and not set(machine.flags) & set(INT8_DOT):
        return f": this CPU has no dot product of 8-bit integers ({_missing(machine)})"
    if item.lowered_share is not None and item.lowered_share < MOSTLY:
        return f": only {words.percent(item.lowered_share)} of the multiply-adds are int8"
    unfused = _unfused(kernels)
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


def _unfused(found: Kernels | None) -> str:
    """Which layers ONNX Runtime has no int8 kernel for."""
    count = sum(found.in_float.values()) if found else 0
    if found is None or not count:
        return ""
    ops = ", ".join(f"{number} {op}" for op, number in found.in_float.items())
    total = count + found.fused
    return f"ONNX Runtime has no fused int8 kernel for {ops} of {total} quantized layers"


def _kernels(item: ArtifactReport, folder: Path) -> Kernels | None:
    """What ONNX Runtime makes of an ONNX file in int8; None of other artifacts."""
    other = Path(item.path).suffix != ".onnx" or item.precision != "int8"
    if other or _providers(item.runtime) - {"CPU"}:
        return None
    with suppress(ModelError):  # the file was opened and checked before; a reason is a courtesy
        return kernels_of(folder / item.path)
    return None


def _stays(kept: Sequence[Kept]) -> Iterator[str]:
    """The nodes that stayed in float32 and multiply most, each with the reason."""
    found = sorted((each for each in kept if not each.instead), key=lambda each: -each.macs)
    if found:
        named = [f"{each.node} ({each.op}): {each.reason}" for each in found[:NAMED]]
        more = [f"{len(found) - NAMED} more"] if len(found) > NAMED else []
        yield f"in float32 stay {', '.join([*named, *more])}"


def _costs(found: Kernels | None, ms: float, path: Path) -> Iterator[str]:
    """What runs between integers and floats, and the operators that take most of the time."""
    if found is None:
        return
    if found.borders:
        several = found.borders > 1
        count = f"{found.borders} conversions run" if several else "1 conversion runs"
        yield f"{count} between int8 and float32"
    if ms <= PROFILED_MS:
        from converter.runtime.ort_profile import most, profile

        runs = max(1, round(PROFILED_MS / max(ms, PROFILED_MS / PROFILED_RUNS)))
        yield f"most of its time takes {most(profile(path, runs))}"
