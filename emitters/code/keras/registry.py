"""The table: what each of ONNX's operators is in Keras."""

from __future__ import annotations

import onnx_ir

from emitters.code.table import Table
from emitters.lowering.channels_last import CHANNELS_LAST
from emitters.lowering.never import reasons

TABLE = Table(
    "Keras",
    reasons(
        random="what Keras draws isn't what another generator draws: it can't be checked",
        strings="Keras computes on no tensors of strings",
        sequences="optionals and maps aren't among what layers take and give",
        training="it is for training",
    ),
    (CHANNELS_LAST,),
)
op = TABLE.op

COMPUTED = "its result's shape hangs on values, which JAX can't compile"
"""Why what numbers say of shapes has to be constant."""


def channels_last(node: onnx_ir.Node) -> bool:
    """Whether a node takes its channels last."""
    return node.domain == CHANNELS_LAST
