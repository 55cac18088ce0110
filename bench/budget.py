"""``python -m bench.budget``: draws docs/budget.svg, what a budget costs, from docs/precision.md.

A point is a row of that page for ONNX with a budget (``--min-cosine``): how close the artifact is,
on its worst sample, and what share of the multiply-adds it leaves in the lower precision.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from converter.report.svg import budget_plot

DOCS = Path(__file__).resolve().parent.parent / "docs"
CURVES = {
    ("EfficientNet-Lite0", "int8"): "EfficientNet-Lite0, int8",
    ("MiniLM", "int8"): "MiniLM, int8",
    ("basic-pitch", "int8"): "basic-pitch, int8",
    ("EfficientNet-Lite0", "fp16"): "EfficientNet-Lite0, fp16",
}
_ROW = re.compile(
    r"\| `[\w.-]+-onnx-[^`]*` \| `(\w+) --min-cosine [^|]*\|[^|]*\| ([\d.]+) \|(?:[^|]*\|){2}"
    r" ([\d.]+)% \|"
)


def points(page: str) -> Mapping[str, Sequence[tuple[float, float]]]:
    """Points (1 - cosine, share from 0 to 1), from the loosest, by what the curve is called."""
    found = defaultdict(list)
    for section in page.split("\n## "):
        name, _, text = section.partition("\n")
        for precision, cosine, percent in _ROW.findall(text):
            if (name, precision) in CURVES:
                point = round(1 - float(cosine), 7), float(percent) / 100
                found[CURVES[name, precision]].append(point)
    return {curve: sorted(found[curve], reverse=True) for curve in CURVES.values()}


def main() -> None:
    page = (DOCS / "precision.md").read_text(encoding="utf-8")
    (DOCS / "budget.svg").write_text(budget_plot(points(page)), encoding="utf-8")


if __name__ == "__main__":
    main()
