"""The table: what each of ONNX's operators is in Keras."""

from __future__ import annotations

import onnx_ir

from emitters.code.table import Table
from emitters.lowering.channels_last import CHANNELS_LAST
from emitters.lowering.never import reasons

TABLE = Table(
    "Keras",
    reasons(
        random=(
            "Keras draws other random numbers than other generators, so its outputs can't be "
            "checked"
        ),
        strings="Keras computes on no tensors of strings",
        sequences="Keras' layers can't take or give optionals and maps",
        training="it is for training",
    ),
    (CHANNELS_LAST,),
)
op = TABLE.op

COMPUTED = "its result's shape depends on values, which JAX can't compile"
"""Why what numbers say of shapes has to be constant."""


def channels_last(node: onnx_ir.Node) -> bool:
    """Whether a node takes its channels last."""
    return node.domain == CHANNELS_LAST
