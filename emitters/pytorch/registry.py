"""The table: what each of ONNX's operators is in PyTorch."""

from __future__ import annotations

from emitters.code.table import Table
from emitters.lowering.never import reasons

TABLE = Table(
    "PyTorch",
    reasons(
        random="what PyTorch draws isn't what another generator draws: it can't be checked",
        strings="PyTorch has no tensors of strings",
        sequences="optionals and maps aren't among what modules take and give",
        training="it is for training",
    ),
)
op = TABLE.op
