"""What an operator is in terms of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def _always(_node: Any) -> bool:
    return True


@dataclass(frozen=True)
class Definition:
    """An operator of torch's, written as others.

    Attributes:
        function: Takes what the operator takes, and gives what it gives; or NotImplemented, where
            the operator may stay.
        needed: Whether a node of a traced graph has to be written so.
    """

    function: Callable[..., Any]
    needed: Callable[[Any], bool] = _always


def value(node: Any) -> Any:
    """What a node gives, as the trace knows it: sizes and a type."""
    return node.meta.get("val") if hasattr(node, "meta") else node
