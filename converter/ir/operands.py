"""Reads a node's operands that have to be constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import constant_tensor
from converter.ir.refused import Refused

Array = np.ndarray[Any, Any]


def array_of(value: onnx_ir.Value | None) -> Array | None:
    """The elements of a constant of any size; None where it isn't one, or is left out."""
    tensor = constant_tensor(value)
    return None if tensor is None else np.asarray(tensor.numpy())


def given(node: onnx_ir.Node, index: int, what: str) -> Array | None:
    """An operand that has to be constant, where it is there. See :func:`needed`.

    Args:
        node: The node.
        index: The operand's place among the node's inputs.
        what: What it is, in the plural, for errors: ``axes``.

    Returns:
        Its values; None where it is left out.

    Raises:
        Refused: It is computed when the model runs.
    """
    there = index < len(node.inputs) and node.inputs[index] is not None
    return needed(node, index, what) if there else None


def needed(node: onnx_ir.Node, index: int, what: str) -> Array:
    """An operand that has to be there and constant.

    Args:
        node: The node.
        index: The operand's place among the node's inputs.
        what: What it is, in the plural, for errors: ``axes``.

    Raises:
        Refused: It is computed when the model runs, or left out.
    """
    value = node.inputs[index] if index < len(node.inputs) else None
    array = array_of(value)
    if array is None:
        name = value.name if value is not None else "left out"
        raise Refused(
            f"its {what} ({name}) have to be constant",
            "fix the sizes that it is computed from (--batch N, --input NAME:DIMS), which "
            "makes it constant",
        )
    return array
