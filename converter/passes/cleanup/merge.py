"""Makes one node of two that follow each other, where the result is the same bit for bit.

The cases; every middle value may have other users, which keep it:

1. Transpose(Transpose(x, p), q)    ->  Transpose(x, p after q)
2. Reshape(R(x), s)                 ->  Reshape(x, s)      R: Reshape, Flatten, Squeeze, Unsqueeze;
                                                           s without a 0 that copies a dimension
3. Cast(Cast(x, b), c)              ->  Cast(x, c)         x's type fits into b without loss
4. Squeeze(Unsqueeze(x, a), a)      ->  x
"""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType
from onnx_ir.passes import InPlacePass, PassResult

from converter.ir.edit import (
    all_nodes,
    attribute_int,
    attribute_ints,
    bypass,
    integers,
    is_op,
    replace,
)
from converter.ir.facts import RESHAPES


class MergeChains(InPlacePass):
    """Merges the pairs of nodes that the module's cases describe."""

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Goes over all nodes once; a chain of three is merged from its start."""
        modified = False
        for node in all_nodes(model):
            rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
            first = node.inputs[0].producer() if node.inputs and node.inputs[0] else None
            if rule is not None and first is not None and first.inputs and first.inputs[0]:
                modified |= rule(first, node)
        return PassResult(model, modified)


def _transposes(first: onnx_ir.Node, second: onnx_ir.Node) -> bool:
    if not is_op(first, "Transpose"):
        return False
    inner, outer = attribute_ints(first, "perm"), attribute_ints(second, "perm")
    if inner is None or outer is None or len(inner) != len(outer):
        return False
    perm = [inner[axis] for axis in outer]
    replace(second, onnx_ir.node("Transpose", [first.inputs[0]], {"perm": perm}))
    return True


def _reshapes(first: onnx_ir.Node, second: onnx_ir.Node) -> bool:
    if not is_op(first, *RESHAPES):
        return False
    target = integers(second.inputs[1])
    if target is None or 0 in target:
        return False
    replace(second, onnx_ir.node("Reshape", [first.inputs[0], second.inputs[1]]))
    return True


def _casts(first: onnx_ir.Node, second: onnx_ir.Node) -> bool:
    source = first.inputs[0]
    if not is_op(first, "Cast") or source is None or source.dtype is None:
        return False
    middle, last = attribute_int(first, "to", 0), attribute_int(second, "to", 0)
    if not middle or not last or not fits(source.dtype, DataType(middle)):
        return False
    if source.dtype == last:
        return bypass(second, source)
    if DataType(last).is_integer() and source.dtype.is_floating_point():
        return False  # what is out of range may come out different
    replace(second, onnx_ir.node("Cast", [source], {"to": last}))
    return True


def _squeeze(first: onnx_ir.Node, second: onnx_ir.Node) -> bool:
    if not is_op(first, "Unsqueeze") or len(first.inputs) < 2 or len(second.inputs) < 2:
        return False
    added, dropped = integers(first.inputs[1]), integers(second.inputs[1])
    source = first.inputs[0]
    if source is None or added is None or dropped is None or sorted(added) != sorted(dropped):
        return False
    return bypass(second, source)


_RULES = {"Transpose": _transposes, "Reshape": _reshapes, "Cast": _casts, "Squeeze": _squeeze}

_BITS = {
    DataType.BOOL: (0, 1),
    DataType.UINT8: (0, 8),
    DataType.UINT16: (0, 16),
    DataType.UINT32: (0, 32),
    DataType.UINT64: (0, 64),
    DataType.INT8: (1, 7),
    DataType.INT16: (1, 15),
    DataType.INT32: (1, 31),
    DataType.INT64: (1, 63),
}
"""Sign and bits of the integers that a type holds."""

_FLOATS = {
    DataType.FLOAT16: (11, 5),
    DataType.BFLOAT16: (8, 8),
    DataType.FLOAT: (24, 8),
    DataType.DOUBLE: (53, 11),
}
"""Bits of precision and of the exponent."""


def fits(narrow: DataType, wide: DataType) -> bool:
    """Whether every value of ``narrow`` is a value of ``wide``."""
    if narrow == wide:
        return True
    if narrow in _FLOATS and wide in _FLOATS:
        return all(a <= b for a, b in zip(_FLOATS[narrow], _FLOATS[wide], strict=True))
    if narrow not in _BITS:
        return False
    sign, bits = _BITS[narrow]
    if wide in _FLOATS:
        precision, exponent = _FLOATS[wide]
        return bits <= precision and bits < 2 ** (exponent - 1)
    if wide in _BITS and wide != DataType.BOOL:
        wide_sign, wide_bits = _BITS[wide]
        return sign <= wide_sign and bits <= wide_bits
    return False
