"""The error along a graph between two steps of a conversion, as the report holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from converter.text.words import limit, number

if TYPE_CHECKING:
    from converter.diff.difference import Difference
    from converter.diff.tensors import TensorError

SHOWN = 5
"""How many of the tensors the page lists."""

_WRITTEN = ConfigDict(extra="ignore", json_schema_serialization_defaults_required=True)


class AlongPoint(BaseModel):
    """One tensor that was compared."""

    model_config = _WRITTEN

    place: int = Field(description="The number of its node in the order of the model before.")
    name: str = Field(description="Its name in the model before.")
    other: str = Field(description="Its name in the model after.")
    op: str
    error: float | None = Field(
        description="Largest difference, as a share of the tensor's largest value; null where "
        "that can't be told."
    )
    sqnr_db: float | None
    odd: str = Field(default="", description="What is wrong apart from size, NaN for example.")

    @property
    def title(self) -> str:
        """What it is and how far it is off, in words."""
        off = self.odd or f"off by {number(self.error or 0, 2)} of its largest value"
        return f"{self.name} ({self.op}): {off}"


class AlongReport(BaseModel):
    """The model after a step beside the one before it, tensor by tensor.

    Large graphs are searched by bisection: there, not every tensor was compared.
    """

    model_config = _WRITTEN

    before: str = Field(description="The model before: read, simplified.")
    after: str = Field(description="The model after: simplified, fp16, int8.")
    unchanged: bool = Field(default=False, description="The step changed nothing.")
    skipped: str = Field(default="", description="Why nothing was compared; empty where it was.")
    samples: int = 0
    tolerance: float = Field(default=0.0, description="Largest error of tensors that agree.")
    verdict: str = ""
    told: list[str] = []
    first: str | None = Field(
        default=None,
        description="The earliest tensor beyond the tolerance: on the way to an output that is "
        "beyond it too, or, where no output is, anywhere. Null where none is.",
    )
    reaches_output: bool = Field(
        default=False, description="Whether an output is beyond the tolerance."
    )
    points: list[AlongPoint] = []

    @property
    def title(self) -> str:
        """``simplified → int8``."""
        return f"{self.before} \N{RIGHTWARDS ARROW} {self.after}"

    @property
    def exact(self) -> bool:
        """Whether no tensor differs at all."""
        return bool(self.points) and not any(p.odd or p.error for p in self.points)

    @property
    def first_index(self) -> int | None:
        """Which of the points is the first that differs."""
        names = [point.name for point in self.points]
        return names.index(self.first) if self.first in names else None

    @property
    def worst(self) -> list[AlongPoint]:
        """The first that differs, then those with the largest errors, what is odd before all."""
        ordered = sorted(
            self.points,
            key=lambda p: (p.name != self.first, not p.odd, -(p.error or 0.0), p.place),
        )
        return [p for p in ordered if p.odd or p.error][:SHOWN]

    @classmethod
    def of(cls, found: Difference, before: str, after: str) -> AlongReport:
        """The report's form of a difference.

        Args:
            found: What :func:`converter.diff.difference.compare_models` found.
            before: The name of the step before.
            after: The step's name.
        """
        from converter.diff.words import told

        first = _first(found)
        points = [
            AlongPoint(
                place=point.place,
                name=point.error.name,
                other=point.error.other,
                op=point.op,
                error=point.error.error,
                sqnr_db=point.error.sqnr_db,
                odd=point.error.odd,
            )
            for point in found.along
        ]
        return cls(
            before=before,
            after=after,
            samples=found.samples,
            tolerance=found.tolerance,
            verdict=_verdict(found),
            told=told(found, before, after),
            first=first.name if first else None,
            reaches_output=found.first is not None,
            points=points,
        )


def _first(found: Difference) -> TensorError | None:
    if found.first is not None:
        return found.first.tensor
    return found.inner[0] if found.inner else None


def _verdict(found: Difference) -> str:
    from converter.diff.words import verdict

    first = _first(found)
    if found.first is not None or first is None:
        return verdict(found)
    count = len(found.inner)
    on_the_way = f"{count} tensors are beyond that, the earliest" if count > 1 else "one is not:"
    return (
        f"Every output agrees within {limit(found.tolerance)}; "
        f"on the way {on_the_way} {first.name}, {first.words}."
    )
