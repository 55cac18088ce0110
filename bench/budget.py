"""``python -m bench.budget``: what a budget costs.

Converts two models of :mod:`bench.precision_cases` to int8 for ONNX with each of :data:`BUDGETS` as
``--min-cosine``. Draws docs/budget.svg: what share of the multiply-adds stays in int8. Writes the
table of docs/guides/precision.md, between its two comments.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

from bench.precision import Seen, run_case
from bench.precision_cases import ONNX
from converter.machine import describe_machine
from converter.report.svg import budget_plot
from converter.text import words

DOCS = Path(__file__).resolve().parent.parent / "docs"
BUDGETS = (0.98, 0.99, 0.995, 0.999, 0.9995)
MODELS = ("EfficientNet-Lite0", "MiniLM")
_PACKAGES = ("onnxruntime-gpu", "torch", "transformers", "numpy")
_SECTION = re.compile(r"(?<=<!-- python -m bench.budget -->\n).*?(?=<!-- end -->)", re.DOTALL)


def rows(folder: Path) -> Iterator[Seen]:
    """Each model with each budget, from the widest to the tightest."""
    for name in MODELS:
        case = next(item for item in ONNX if item.name == name and item.precision == "int8")
        for budget in BUDGETS:
            options = {"min_cosine": budget, "search_evaluations": 200}
            yield run_case(replace(case, options=options, checks=()), folder)


def section(seen: Sequence[Seen]) -> str:
    """The guide's table, with the machine and the versions."""
    lines = [
        "\n| model | budget | cosine, worst sample | multiply-adds in int8 | size of float32 |"
        " faster than float32 |\n|---|---|---|---|---|---|\n"
    ]
    for item in seen:
        budget = item.case.options["min_cosine"]
        lines.append(
            f"| {item.case.name} | `--min-cosine {budget}` | {' | '.join(_cells(item))} |\n"
        )
    facts = ", ".join(f"{key} {value}" for key, value in asdict(describe_machine()).items())
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return f"{''.join(lines)}\nMachine: {facts}.\nVersions: {packages}.\n\n"


def _cells(seen: Seen) -> tuple[str, ...]:
    if seen.error or seen.share is None or seen.megabytes is None:
        return ("can't be met", "", "", "")
    size = f"{seen.megabytes[0] / seen.megabytes[1]:.1%}"
    faster = words.speedup(seen.faster) if seen.faster else "-"
    return f"{seen.judged[0].worst:.5f}", f"{seen.share.share:.1%}", size, faster


def curves(seen: Sequence[Seen]) -> Mapping[str, Sequence[tuple[float, float]]]:
    """Points (1 - budget, share of the multiply-adds), by model."""
    return {
        name: [
            (1 - item.case.options["min_cosine"], item.share.share)
            for item in seen
            if item.case.name == name and item.share is not None
        ]
        for name in MODELS
    }


def main() -> None:
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-budget-") as folder:
        for seen in rows(Path(folder)):
            found.append(seen)
            budget = seen.case.options["min_cosine"]
            print(seen.case.name, budget, *_cells(seen), f"{seen.seconds:.0f} s", flush=True)
    (DOCS / "budget.svg").write_text(budget_plot(curves(found)), encoding="utf-8")
    guide = DOCS / "guides" / "precision.md"
    made = section(found)
    guide.write_text(_SECTION.sub(lambda _: made, guide.read_text("utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
