"""A model brought to a lower precision, and what has to be said about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from converter.ir.model import Model


@dataclass(frozen=True)
class Kept:
    """A node that stayed in float32, or was kept out of integers otherwise.

    Attributes:
        node, op: Which one.
        reason: Why: ``its values reach 1.2e5, float16 ends at 65504``...
        macs: Its multiply-adds of one inference.
        cost: What lowering it costs (1 - cosine of the outputs), where measured.
        how: How the cost was measured; see :class:`converter.precision.budget.sensitivity.Cost`.
        instead: What it does; empty for staying in float32.
    """

    node: str
    op: str
    reason: str
    macs: int = 0
    cost: float | None = None
    how: str = "alone"
    instead: str = ""


@dataclass
class Quantized:
    """A model whose graph holds the precision: as types, casts, or Q/DQ.

    Attributes:
        model: The model.
        precision: ``fp16``, ``bf16``, ``int8``, ``int8-dynamic``.
        scheme: The scheme's name, for int8.
        kept: Nodes that could have been lowered and stayed in float32.
        lowered: Names of the nodes that compute in the lower precision.
        macs, macs_lowered: Multiply-adds of one inference, and those in the lower precision.
        decisions: What was chosen and why, a line each, for the report.
        hurried: Whether the clock ended a search: another machine may find another model.
        judged: The model as the target's kernels compute it, where the graph doesn't say all of
            that; None where it is ``model``.
    """

    model: Model
    precision: str
    scheme: str = ""
    kept: list[Kept] = field(default_factory=list)
    lowered: list[str] = field(default_factory=list)
    macs: int = 0
    macs_lowered: int = 0
    decisions: list[str] = field(default_factory=list)
    hurried: bool = False
    judged: Model | None = None

    @property
    def computed(self) -> Model:
        """The model to judge by."""
        return self.judged or self.model

    @property
    def share(self) -> float:
        """Share of the multiply-adds in the lower precision, 0 to 1; 1 where there are none."""
        return self.macs_lowered / self.macs if self.macs else 1.0
