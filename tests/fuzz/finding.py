"""What a check finds."""

from __future__ import annotations

import traceback
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Something wrong with a conversion.

    Attributes:
        kind: What tells it from others, without names and numbers of the case.
        detail: In words.
        trace: Of an exception.
    """

    kind: str
    detail: str
    trace: str = ""


def raised(label: str, error: BaseException) -> Finding:
    """An exception that shouldn't have been."""
    words = str(error).strip().split("\n", 1)[0][:300]
    return Finding(f"{label}: {type(error).__name__}", words, traceback.format_exc())
