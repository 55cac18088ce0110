"""MelWeightMatrix: a constant, since a model that has one knows what it asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir

from emitters.lowering.folding import evaluated
from emitters.lowering.refused import Refused

Array = np.ndarray[Any, Any]

_INPUTS = ("number of bins", "DFT length", "sample rate", "lower edge", "upper edge")


def mel_weights(
    node: onnx_ir.Node, model: onnx_ir.Model, needed: Callable[[onnx_ir.Node, int, str], Array]
) -> Array:
    """What ONNX Runtime computes; only where it is an output itself hasn't it been folded.

    Args:
        node: The MelWeightMatrix.
        model: Its model.
        needed: Gives a constant input, or refuses (``Context.needed``).

    Raises:
        Refused: An input is computed, or ONNX Runtime doesn't compute it.
    """
    for index, what in enumerate(_INPUTS):
        needed(node, index, what)
    results = evaluated(node, model)
    if results is None:
        raise Refused("ONNX Runtime doesn't compute it")
    return results[0]
