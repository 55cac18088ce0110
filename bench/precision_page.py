"""Writes docs/precision.md from what was seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.report import words

if TYPE_CHECKING:
    from bench.precision import Judged, Seen

PACKAGES = ("torch", "tensorflow", "transformers", "onnx", "onnxruntime-gpu", "onnx-ir", "numpy")

LISTED = 12
"""Most nodes in float32 that are named."""

PAGE = """# What lower precisions keep

Made by `python -m bench.precision`: every model by the public API, on real samples out of
published packages. An artifact is judged against its source, run in its own framework: the cosine
of its outputs on the worst sample and on all values of a set together, and the task metric (the
source's / the artifact's) where there are labels. What it was calibrated on is never what it is
judged on, unless the line says so; a budget (`--min-cosine`) is met on the first set of a case.
Multiply-adds in the lower precision are counted in the artifact's file. Latency is that of one
sample, measured in turns with the same model in float32, with the smallest and largest ratio of a
round; seconds are those of the conversion with its check. Times are of a shared machine: the
ratios count.

{parts}

Machine: {machine}.
Versions: {versions}.
"""

HEADER = (
    "| precision | judged on | cosine, worst | all | metric | multiply-adds lowered | "
    "faster than fp32 | seconds | asked for | met |\n|---|---|---|---|---|---|---|---|---|---|"
)


def write_page(path: Path, found: Sequence[Seen], machine: Mapping[str, Any]) -> None:
    """Writes the page."""
    names = dict.fromkeys(seen.case.name for seen in found)
    parts = [_part(name, [seen for seen in found if seen.case.name == name]) for name in names]
    facts = ", ".join(f"{key} {value}" for key, value in machine.items() if value)
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    text = PAGE.format(parts="\n\n".join(parts), machine=facts, versions=versions)
    path.write_text(text, encoding="utf-8")


def _part(name: str, found: Sequence[Seen]) -> str:
    rows = "\n".join(f"| {' | '.join(row)} |" for seen in found for row in _rows(seen))
    notes = dict.fromkeys(line for seen in found for line in _notes(seen))
    return "\n\n".join([f"## {name}", f"{HEADER}\n{rows}", "\n".join(f"- {n}" for n in notes)])


def _rows(seen: Seen) -> Iterator[list[str]]:
    met = "**no**" if seen.missed() else "yes"
    if not seen.judged:
        yield [f"`{seen.case.title}`", *["-"] * 6, f"{seen.seconds:.0f}", _asked(seen), met]
    for number, judged in enumerate(seen.judged):
        first = number == 0
        yield [
            f"`{seen.case.title}`" if first else "",
            *_figures(judged),
            _share(seen) if first else "",
            _faster(seen) if first else "",
            f"{seen.seconds:.0f}" if first else "",
            _asked(seen) if first else "",
            met if first else "",
        ]


def _figures(judged: Judged) -> list[str]:
    return [judged.title, _cosine(judged.worst), _cosine(judged.together), judged.metric or "-"]


def _cosine(value: float) -> str:
    return f"{value:.5f}" if value < 0.99999 else f"1 - {1 - value:.1e}"


def _share(seen: Seen) -> str:
    return f"{seen.share.share:.1%}" if seen.share else "-"


def _faster(seen: Seen) -> str:
    ratio = seen.faster
    return words.speedup(ratio) if ratio else "-"


def _asked(seen: Seen) -> str:
    case = seen.case
    parts = []
    if case.cosine is not None:
        elsewhere = (
            "" if case.elsewhere is None else f" (on other sets {words.limit(case.elsewhere)})"
        )
        parts.append(f"cosine >= {words.limit(case.cosine)}{elsewhere}")
    if case.together is not None:
        parts.append(f"{words.limit(case.together)} together")
    if case.share is not None:
        parts.append(f"{case.share:.0%} lowered")
    if case.drop is not None:
        parts.append(f"at most {case.drop:g} points lost")
    return ", ".join(parts) or "-"


def _notes(seen: Seen) -> Iterator[str]:
    case = seen.case
    if case.calibration is not None:
        yield f"Calibrated on {case.calibration.title}."
    if seen.share is not None and seen.share.plain:
        names = [f"`{name}`" for name in seen.share.plain[:LISTED]]
        more = len(seen.share.plain) - len(names)
        yield (
            f"`{case.title}`, in float32: {', '.join(names)}{f' and {more} more' if more else ''}."
        )
    for line in seen.missed():
        yield f"`{case.title}` missed: {line}."
    if case.peers:
        yield f"Others: {case.peers}."
