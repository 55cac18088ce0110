"""What each layer's lower precision costs, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from converter.precision.budget.sensitivity import Cost
from converter.samples import Samples


@dataclass(frozen=True)
class CostTable:
    """What each layer's lower precision costs.

    Attributes:
        name: The model's name.
        precision: ``fp16``, ``bf16``, ``int8``, ``int8-dynamic``.
        scheme: The int8 scheme; empty for others.
        based_on: What it was measured on, in words.
        costs: Of each layer that is lowered, the most expensive first.
        macs: Multiply-adds of one inference, those of layers that stay float included.
        plain_cosine: With every layer lowered, the worst output on the same samples.
        ended: After what measuring ended, where some costs are estimates.
        decisions: What was chosen on the way, a line each.
    """

    name: str
    precision: str
    scheme: str
    based_on: str
    costs: Sequence[Cost]
    macs: int
    plain_cosine: float
    ended: str
    decisions: Sequence[str] = ()

    @property
    def total(self) -> float:
        """All costs together: about 1 - ``plain_cosine``, where layers' errors are independent."""
        return sum(cost.cost for cost in self.costs)

    @property
    def estimated(self) -> int:
        """How many costs are estimates, because measuring had ended."""
        return sum(cost.how == "estimated" for cost in self.costs)

    def share(self, cost: Cost) -> float:
        """A layer's share of the model's multiply-adds, 0 to 1."""
        return cost.macs / self.macs if self.macs else 0.0

    def as_dict(self, limit: int | None = None) -> dict[str, Any]:
        """For ``--json``; with ``limit``, only so many layers, and all in the totals."""
        return {
            "name": self.name,
            "precision": self.precision,
            "scheme": self.scheme,
            "based_on": self.based_on,
            "layers": [{**asdict(cost), "share": self.share(cost)} for cost in self.costs[:limit]],
            "layers_in_all": len(self.costs),
            "estimated": self.estimated,
            "macs": self.macs,
            "total_cost": self.total,
            "plain_cosine": self.plain_cosine,
            "decisions": list(self.decisions),
        }


def based_on(samples: Samples, most: int) -> str:
    """What costs were measured on: at most so many of the samples."""
    count = f"{min(most, len(samples))} of {len(samples)} samples"
    if samples.random:
        return f"Measured on RANDOM inputs only ({samples.origin}): give --samples for real costs."
    return f"Measured on {count} ({samples.origin})."
