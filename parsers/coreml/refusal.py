"""What a reading raises where it can't express an operation in ONNX."""

from __future__ import annotations


class Refusal(Exception):  # an answer, collected with the others
    """An operation can't be expressed; the message says why, ``remedy`` what to do."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


MISFITS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
)
"""What readings raise of parameters that no writer makes: missing ones, and others than the
operation takes. A damaged file has any of them anywhere, so they are looked for in one place."""


def misfit(error: Exception) -> Refusal:
    """The refusal that tells of one of them."""
    return Refusal(
        f"its parameters don't fit it ({type(error).__name__}: {error})",
        "Copy the file again; if it is whole, please report this.",
    )
