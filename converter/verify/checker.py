"""What onnx's own checker has against a graph."""

from __future__ import annotations

import onnx
import onnx_ir

from converter.ir.weight_placeholders import without_weights
from converter.text.words import one_line

CHECKED_ABOVE = 4096
"""Bytes of a weight above which the checker gets its shape alone."""


def checker_says(graph: onnx_ir.Model, level: int) -> str:
    """What onnx's checker has against a graph: structure at level 1, shapes too at level 2."""
    if level == 0:
        return ""
    light, _ = without_weights(graph, CHECKED_ABOVE)
    try:
        onnx.checker.check_model(onnx_ir.to_proto(light), full_check=level == 2)
    except Exception as error:  # checker and shape inference raise unrelated classes
        return f"onnx.checker: {first_line(str(error))}"
    return ""


def first_line(text: str) -> str:
    """The first line of an error's text, 300 characters of it at most."""
    return one_line(text.strip().split("\n", 1)[0])[:300]
