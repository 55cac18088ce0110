"""What a rewrite or a lowering raises where it can't take a node."""

from __future__ import annotations


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
