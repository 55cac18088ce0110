"""The option of code."""

from __future__ import annotations

from dataclasses import dataclass

from converter.options.option import declared
from converter.options.request import Request

HEADING = "Code"

FLOATS_ALONE = (
    "layers compute in floats, and integers are another model's",
    "Use fp16, or convert what you trained to a target that has it.",
)
"""Why there are no integers, and what to do."""

FOLDING = ("cleanup", "ort-basic", "onnxscript", "fuse-convolution", "onnxsim", "onnxslim")
"""What folds a BatchNormalization into the layer before it, or leaves a Dropout out."""


@dataclass
class CodeRequest(Request):
    """What is asked of code; docs/options.md lists it."""

    trainable: bool = declared(
        HEADING,
        "--trainable",
        "Keep BatchNorm and Dropout as layers, so that training can go on.",
        False,
        affects=("parse", "simplify", "emit"),
    )


def code(request: Request) -> CodeRequest:
    """The request with these."""
    return request.of(CodeRequest)
