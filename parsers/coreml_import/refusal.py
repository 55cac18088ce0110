"""What a reading raises where it can't express an operation in ONNX."""

from __future__ import annotations


class Refusal(Exception):  # an answer, collected with the others
    """An operation can't be expressed; the message says why, ``remedy`` what to do."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
