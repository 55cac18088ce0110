"""What a lowering raises where it can't take a node."""

from __future__ import annotations

from collections.abc import Sequence

from converter.errors import Unsupported


class RefusedInside(Exception):
    """A node with a graph, nodes of which can't be lowered.

    Args:
        refusals: Those nodes; none where they only hang on nodes refused before.
    """

    def __init__(self, refusals: Sequence[Unsupported]) -> None:
        super().__init__("a node inside can't be lowered")
        self.refusals = refusals
