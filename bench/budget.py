"""``python -m bench.budget``: what a budget costs.

Converts models of the zoo to int8 for ONNX with each of :data:`BUDGETS` as ``--min-cosine``, on the
catalogue's samples. Draws docs/budget.svg: what share of the multiply-adds stays in int8. Writes
the table of docs/guides/precision.md, between its two comments.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from converter import api
from converter.errors import GateError
from converter.machine import describe_machine
from converter.report.model import ArtifactReport
from converter.report.svg import budget_plot
from converter.text import words

DOCS = Path(__file__).resolve().parent.parent / "docs"
BUDGETS = {
    "ccexam-svhn": (0.999, 0.9999, 0.99995, 0.99999, 0.999999),
    "basic-pitch-onnx": (0.99, 0.995, 0.999, 0.9999, 0.99999),
    "efficientnet-lite0": (0.99, 0.995, 0.999, 0.9995),
}
"""The smallest cosines to ask for, by the model's name in the zoo."""

_PACKAGES = ("onnxruntime-gpu", "torch", "numpy")
_SECTION = re.compile(r"(?<=<!-- python -m bench.budget -->\n).*?(?=<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Point:
    """A model with a budget, and its artifact; None where the budget can't be met."""

    model: str
    budget: float
    made: ArtifactReport | None

    @property
    def cells(self) -> tuple[str, ...]:
        """Its line in the table."""
        first = (self.model, f"`--min-cosine {self.budget}`")
        if self.made is None or self.made.accuracy is None:
            return (*first, "can't be met", "", "")
        share, size = self.made.lowered_share or 0.0, self.made.size_ratio or 1.0
        return (*first, words.cosine(self.made.accuracy.cosine), f"{share:.1%}", f"{size:.1%}")


def points(folder: Path) -> Iterator[Point]:
    """Each model with each budget, from the widest to the tightest."""
    for model, budgets in BUDGETS.items():
        for budget in budgets:
            try:
                done = api.convert(
                    f"zoo:{model}", to=["onnx"], precision=["fp32", "int8"], min_cosine=budget,
                    few_samples=True, bench=False, overwrite=True, out=str(folder / model),
                )  # fmt: skip
            except GateError:
                yield Point(model, budget, None)
                continue
            assert done.report is not None
            yield Point(model, budget, done.report.artifacts[-1])


def section(found: Sequence[Point]) -> str:
    """The guide's table, with the machine and the versions."""
    head = ("model", "budget", "cosine", "multiply-adds in int8", "size of float32")
    rows = (head, ("---",) * len(head), *(point.cells for point in found))
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    facts = ", ".join(f"{key} {value}" for key, value in asdict(describe_machine()).items())
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return f"\n{table}\n\nMachine: {facts}.\nVersions: {packages}.\n\n"


def curves(found: Sequence[Point]) -> Mapping[str, Sequence[tuple[float, float]]]:
    """Points (1 - budget, share of the multiply-adds), by model."""
    return {
        model: [
            (1 - point.budget, point.made.lowered_share or 0.0)
            for point in found
            if point.model == model and point.made is not None
        ]
        for model in BUDGETS
    }


def main() -> None:
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-budget-") as folder:
        for point in points(Path(folder)):
            found.append(point)
            print(*point.cells, flush=True)
    (DOCS / "budget.svg").write_text(budget_plot(curves(found)), encoding="utf-8")
    guide, made = DOCS / "guides" / "precision.md", section(found)
    guide.write_text(_SECTION.sub(lambda _: made, guide.read_text("utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
