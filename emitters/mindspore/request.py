"""The option of MindSpore's models: ."""

from __future__ import annotations

from dataclasses import dataclass

from converter.options.option import declared
from converter.options.request import Request

HEADING = "MindSpore"


@dataclass
class MindsporeRequest(Request):
    """What is asked of a model for MindSpore Lite; docs/options.md lists it."""

    mindspore_python: str | None = declared(
        HEADING,
        "--mindspore-python",
        "The Python 3.7 that has mindspore-lite, or the folder of its virtual environment.",
        metavar="PATH",
        affects=("emit", "check", "bench", "package"),
    )


def mindspore(request: Request) -> MindsporeRequest:
    """The request with these."""
    return request.of(MindsporeRequest)
