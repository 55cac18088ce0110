"""The options of ``.ort`` files: ."""

from __future__ import annotations

from dataclasses import dataclass

from converter.options.option import declared
from converter.options.request import Request

HEADING = "ONNX Runtime's own format"


@dataclass
class OrtRequest(Request):
    """What is asked of a file; docs/options.md lists it."""

    ort_optimization: str = declared(
        HEADING,
        "--ort-optimization",
        "How much ONNX Runtime optimizes the graph before it is written. basic keeps to ONNX's "
        "own operators.",
        "all",
        affects=("emit",),
        choices=("basic", "extended", "all"),
    )


def ort(request: Request) -> OrtRequest:
    """The request with these."""
    return request.of(OrtRequest)
