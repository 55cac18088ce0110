"""The option of PyTorch's code."""

from __future__ import annotations

from dataclasses import dataclass

from converter.options.option import declared
from converter.options.request import Request

HEADING = "PyTorch's code"


@dataclass
class CodeRequest(Request):
    """What is asked of code; docs/options.md lists it."""

    trainable: bool = declared(
        HEADING,
        "--trainable",
        "Keep BatchNorm and Dropout as layers, for training on.",
        False,
        affects=("parse", "simplify", "emit"),
    )


def code(request: Request) -> CodeRequest:
    """The request with these."""
    return request.of(CodeRequest)
