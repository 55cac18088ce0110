"""The option of PyTorch's sources: ."""

from __future__ import annotations

from dataclasses import dataclass

from converter.options.option import declared
from converter.options.request import Request


@dataclass
class PytorchRequest(Request):
    """What is asked of a module; docs/options.md lists it."""

    submodule: str | None = declared(
        "Source",
        "--submodule",
        "Convert only this part of a PyTorch model, by its dotted name.",
        metavar="NAME",
        affects=("parse",),
    )


def pytorch(request: Request) -> PytorchRequest:
    """The request with these."""
    return request.of(PytorchRequest)
