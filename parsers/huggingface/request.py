"""The option of Hugging Face's sources: ."""

from __future__ import annotations

from dataclasses import dataclass

from converter.options.option import declared
from converter.options.request import Request


@dataclass
class HuggingFaceRequest(Request):
    """What is asked of a folder; docs/options.md lists it."""

    task: str | None = declared(
        "Source",
        "--task",
        "The task of a Hugging Face model: text-classification, sentence-embedding and others. "
        "Default: the one in its config.",
        metavar="TASK",
        affects=("parse",),
    )


def huggingface(request: Request) -> HuggingFaceRequest:
    """The request with these."""
    return request.of(HuggingFaceRequest)
