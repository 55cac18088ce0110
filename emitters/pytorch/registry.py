"""The table: what each of ONNX's operators is in PyTorch."""

from __future__ import annotations

from emitters.code.table import Table
from emitters.lowering.never import reasons

TABLE = Table(
    "PyTorch",
    reasons(
        random=(
            "PyTorch draws other random numbers than other generators, so its outputs can't "
            "be checked"
        ),
        strings="PyTorch has no tensors of strings",
        sequences="modules can't take or give optionals and maps",
        training="it is for training",
    ),
)
op = TABLE.op
