"""The option of Hugging Face's sources: it is a field of every Request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from converter.options.option import declared

if TYPE_CHECKING:
    from converter.options.request import Request


@dataclass
class HuggingFaceRequest:
    """What is asked of a folder; docs/options.md lists it."""

    task: str | None = declared(
        "Source",
        "--task",
        "What a Hugging Face model is to do: text-classification, sentence-embedding... "
        "Default: from its config.",
        metavar="TASK",
        affects=("parse",),
    )


def huggingface(request: Request) -> HuggingFaceRequest:
    """The request as what it holds of these."""
    return cast(HuggingFaceRequest, request)
