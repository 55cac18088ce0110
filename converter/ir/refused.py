"""What a rewrite or a lowering raises where it can't take a node."""

from __future__ import annotations

from collections.abc import Sequence

from converter.errors import Unsupported


class Refused(Exception):
    """A node that can't be written for a target.

    Args:
        reason: Why: what was found, and what there is instead.
        hint: What the user can do.
    """

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class RefusedInside(Exception):
    """A node with a graph, nodes of which can't be lowered.

    Args:
        refusals: Those nodes; none where they only hang on nodes refused before.
    """

    def __init__(self, refusals: Sequence[Unsupported]) -> None:
        super().__init__("a node inside can't be lowered")
        self.refusals = refusals
