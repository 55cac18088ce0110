"""Writes docs/precision.md from what was seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure import read_section, write_section
from converter.text import words

if TYPE_CHECKING:
    from bench.precision import Judged, Seen

PACKAGES = (
    "modelyard", "torch", "tensorflow", "transformers", "onnx", "onnxruntime-gpu", "onnx-ir",
    "numpy",
)  # fmt: skip

BESIDE = "## Beside OpenVINO and quantize_static"
MARGINS = "## Gates: the closest good and the closest wrong artifact"
"""The sections that :mod:`bench.beside` and :mod:`bench.margins` write."""

LISTED = 12
"""Most nodes in float32 that are named."""

PAGE = """# What lower precisions keep

`python -m bench.precision` makes this page. It converts every model through the public API, on real
samples from published packages, and compares each artifact with its source in the source's own
framework.

- **cosine, worst** is the cosine of the worst sample. **all** is the cosine of an output's values
  in all samples together.
- **metric** is the task metric of the source, and then of the artifact, where the samples have
  labels.
- An artifact is never judged on the samples that calibrated it, unless its line says so. A budget
  (`--min-cosine`) applies to the first set of a case.
- **multiply-adds lowered** is the share of them that computes in the lower precision. It comes from
  the artifact's file.
- **MB** is the artifact's size, and that of the same target in float32.
- **faster than fp32** compares the latency of one sample with the same model in float32. The two
  run in turns, and a figure has the digits that the rounds agree on. *unsteady* means that
  the rounds don't agree.
- Core ML packages don't run here. They are read back from disk, and ONNX Runtime computes them.

Every row has limits. If one is missed, the command ends with 1 and names the row, and the page says
**no**. `python -m bench.precision --only ROW` measures single rows and writes nothing.

{parts}

Machine: {machine}.
Versions: {versions}.
"""

COLUMNS = (
    "row", "options", "judged on", "cosine, worst", "all", "metric", "multiply-adds lowered", "MB",
    "faster than fp32", "limits", "kept",
)  # fmt: skip


def write_page(path: Path, found: Sequence[Seen], machine: Mapping[str, Any]) -> None:
    """Writes the page; the sections that others write stay.

    Args:
        path: The file.
        found: What was seen, case by case.
        machine: What it was seen on: facts by name.
    """
    names = dict.fromkeys(seen.case.name for seen in found)
    parts = [_part(name, [seen for seen in found if seen.case.name == name]) for name in names]
    facts = ", ".join(f"{key} {value}" for key, value in machine.items() if value)
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    text = PAGE.format(parts="\n\n".join(parts), machine=facts, versions=versions)
    kept = {head: read_section(path, head) for head in (BESIDE, MARGINS)}
    path.write_text(text, encoding="utf-8")
    for head, section in kept.items():
        if section:
            write_section(path, head, section)


def _part(name: str, found: Sequence[Seen]) -> str:
    table = [list(COLUMNS), ["---"] * len(COLUMNS), *(row for seen in found for row in _rows(seen))]
    rows = "\n".join(f"| {' | '.join(row)} |" for row in table)
    notes = dict.fromkeys(line for seen in found for line in _notes(seen))
    return "\n\n".join([f"## {name}", rows, "\n".join(f"- {n}" for n in notes)])


def _rows(seen: Seen) -> Iterator[list[str]]:
    kept = "**no**" if seen.missed() else "yes"
    begin = [f"`{seen.case.row}`", f"`{seen.case.title}`"]
    end = [_share(seen), _megabytes(seen), _faster(seen), _limits(seen), kept]
    if not seen.judged:
        yield [*begin, *["-"] * 4, *end]
    for number, judged in enumerate(seen.judged):
        blank = number > 0
        yield [*(["", ""] if blank else begin), *_figures(judged), *([""] * 5 if blank else end)]


def _figures(judged: Judged) -> list[str]:
    return [judged.title, _cosine(judged.worst), _cosine(judged.together), judged.metric or "-"]


def _cosine(value: float) -> str:
    return f"{value:.5f}" if value < 0.99999 else f"1 - {1 - value:.1e}"


def _share(seen: Seen) -> str:
    return f"{seen.share.share:.1%}" if seen.share else "-"


def _megabytes(seen: Seen) -> str:
    return "{:.2f} of {:.2f}".format(*seen.megabytes) if seen.megabytes else "-"


def _faster(seen: Seen) -> str:
    ratio = seen.faster
    return words.speedup(ratio) if ratio else "-"


def _limits(seen: Seen) -> str:
    case = seen.case
    parts = []
    if case.cosine is not None:
        elsewhere = (
            "" if case.elsewhere is None else f" (on other sets {words.limit(case.elsewhere)})"
        )
        parts.append(f"cosine >= {words.limit(case.cosine)}{elsewhere}")
    if case.together is not None:
        parts.append(f"all >= {words.limit(case.together)}")
    if case.share is not None:
        parts.append(f"{case.share:.0%} lowered")
    if case.drop is not None:
        parts.append(f"at most {case.drop:g} points lost")
    if case.megabytes is not None:
        parts.append(f"{case.megabytes:g} MB")
    return ", ".join([*parts, *(check.limit for check in case.checks)]) or "-"


def _notes(seen: Seen) -> Iterator[str]:
    case = seen.case
    if case.calibration is not None:
        yield f"Calibrated on {case.calibration.title}."
    if seen.share is not None and seen.share.plain:
        names = [f"`{name}`" for name in seen.share.plain[:LISTED]]
        more = len(seen.share.plain) - len(names)
        yield (
            f"`{case.row}`, in float32: {', '.join(names)}{f' and {more} more' if more else ''}."
        )
    for check, (found, _) in zip(case.checks, seen.checked, strict=False):
        yield f"`{case.row}`, {check.limit}: {found}."
    for line in seen.missed():
        yield f"`{case.row}` missed: {line}."
    if case.peers:
        yield f"Others: {case.peers}."
