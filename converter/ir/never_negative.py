"""Which integers are never negative, by what they are computed of."""

from __future__ import annotations

import onnx_ir

from converter.ir.edit import attribute_int, constant, is_op
from converter.ir.facts import EXTREMES, INDEXES, MOVES

ROUND = "modelyard-round"
"""Key in the meta of the number of a Loop's round."""
RUN = "modelyard-run"
"""Key in the meta of a Loop that has a round at least."""

_SAME = MOVES | EXTREMES | {"ReduceProd", "ReduceSum"}
"""Operators whose integers aren't where those of their first operand aren't."""
_ALL = ("Add", "Mul", "Div", "Mod", "Concat", "Min")
"""Operators whose integers aren't where no operand's are."""

_DEEP = 12
"""Operators that are looked back through."""


def never_negative(value: onnx_ir.Value | None, deep: int = _DEEP) -> bool:
    """Whether it is known that integers aren't negative: of unsigned types, sizes, numbers of
    rounds, and what is computed of those."""
    if value is None or value.dtype is None or not deep:
        return False
    array, maker = constant(value), value.producer()
    if not value.dtype.is_signed() or is_op(maker, "Abs", *INDEXES) or ROUND in value.meta:
        return True
    if array is not None:
        return bool((array >= 0).all())
    if maker is None:
        return False
    if is_op(maker, "Max"):
        return any(never_negative(x, deep - 1) for x in maker.inputs)
    if is_op(maker, "Mod") and not attribute_int(maker, "fmod", 0):  # it has the divisor's sign
        return never_negative(maker.inputs[1], deep - 1)
    if is_op(maker, "Range"):
        return all(never_negative(x, deep - 1) for x in maker.inputs[::2])
    same = is_op(maker, *_SAME) or (is_op(maker, "Cast") and value.dtype.bitwidth >= 32)
    operands = maker.inputs[:1] if same else maker.inputs
    return (same or is_op(maker, *_ALL)) and all(never_negative(x, deep - 1) for x in operands)
