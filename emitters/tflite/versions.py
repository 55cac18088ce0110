"""The version of each operator that a file asks its runtime for.

A runtime that is too old for what an operator is given refuses the file by its version. Source:
``op_version.cc`` and ``runtime_version.cc`` of LiteRT.
"""

from __future__ import annotations

from emitters.tflite.graph import Operator

_FIXED = {"BROADCAST_TO": 2}


def version_of(operator: Operator) -> int:
    """The lowest version that has what the operator uses."""
    return _FIXED.get(operator.op, 1)
