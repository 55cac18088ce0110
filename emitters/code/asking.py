"""What tables ask of nodes, whatever the framework."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.ir.attributes import floating, number
from converter.ir.edit import is_used
from emitters.code.context import Context
from emitters.code.literals import real


def unless(c: Context, name: str, default: float, usual: float | None) -> str | None:
    """A real attribute, as text for the code.

    Args:
        c: At the node.
        name: The attribute's.
        default: What ONNX takes without it.
        usual: What the framework takes without it.

    Returns:
        None where the value is ``usual``.
    """
    value = c.attr(name, default)
    return None if value == usual else real(value)


def typed(c: Context, value: float | None) -> Any:
    """A number of the first operand's type."""
    return np.dtype(c.value(0).dtype.numpy()).type(value)  # type: ignore[union-attr]


def is_plain_selu(node: onnx_ir.Node) -> bool:
    """Whether it has the usual numbers."""
    alpha, gamma = floating(node, "alpha", 1.6732632), floating(node, "gamma", 1.0507010)
    return abs(alpha - 1.6732632) < 1e-6 and abs(gamma - 1.0507010) < 1e-6


def is_sixth(node: onnx_ir.Node) -> bool:
    """Whether a HardSigmoid is x / 6 + 1 / 2 between 0 and 1, as frameworks have it."""
    alpha, beta = floating(node, "alpha", 0.2), floating(node, "beta", 0.5)
    return abs(alpha - 1 / 6) < 1e-7 and beta == 0.5


def gives_one(node: onnx_ir.Node) -> bool:
    """Whether nothing takes its other results."""
    return not any(is_used(node, at) for at in range(1, len(node.outputs)))


def infers(node: onnx_ir.Node) -> bool:
    """Whether it isn't in training mode."""
    return not number(node, "training_mode", 0)


def reduced(c: Context) -> list[int]:
    """The axes that a reduction goes over."""
    axes = c.need_ints(1, "axes") if c.has(1) else []
    return axes or list(range(c.need_rank(0)))
