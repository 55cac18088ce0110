"""A file that holds a whole model: its name, and what can't be asked of it."""

from __future__ import annotations

import re

from converter.errors import UsageError
from converter.options.request import Request


def model_name(stem: str) -> str:
    """A model's name, of its file's without the suffix."""
    return re.sub(r"[^\w.-]+", "_", stem, flags=re.ASCII).strip("._") or "model"


def refuse_class_options(request: Request, name: str) -> None:
    """Refuses options that go with a PyTorch class.

    Args:
        request: What was asked for.
        name: The file's.

    Raises:
        UsageError: There is one.
    """
    arguments = request.args or request.kwargs
    for option, value in (("--weights", request.weights), ("--arg", arguments)):
        if value:
            raise UsageError(
                f"{option} only works with a PyTorch class, and {name} holds a whole model",
                code="option-not-applicable",
                hint=f"Leave {option} out.",
            )
