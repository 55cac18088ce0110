"""The option of PyTorch's sources: it is a field of every Request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from converter.options.option import declared

if TYPE_CHECKING:
    from converter.options.request import Request


@dataclass
class PytorchRequest:
    """What is asked of a module; docs/options.md lists it."""

    submodule: str | None = declared(
        "Source",
        "--submodule",
        "Convert only this part of a PyTorch model, by its dotted name.",
        metavar="NAME",
        affects=("parse",),
    )


def pytorch(request: Request) -> PytorchRequest:
    """The request as what it holds of these."""
    return cast(PytorchRequest, request)
