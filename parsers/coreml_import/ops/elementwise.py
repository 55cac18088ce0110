"""Operations on one operand, and on two, element by element."""

from __future__ import annotations

from parsers.coreml_import.operation import Operation
from parsers.coreml_import.reader import Reader
from parsers.coreml_import.registry import reads

_ONE = {"relu": "Relu", "tanh": "Tanh", "sqrt": "Sqrt", "erf": "Erf", "identity": "Identity"}
_TWO = {"add": "Add", "sub": "Sub", "mul": "Mul"}


@reads(*_ONE)
def one(reader: Reader, op: Operation) -> None:
    """ONNX's operator of the same meaning."""
    reader.give(op, reader.node(_ONE[op.type], [reader.value(op, "x")]))


@reads(*_TWO)
def two(reader: Reader, op: Operation) -> None:
    """ONNX's operator of the same meaning; both broadcast alike."""
    reader.give(op, reader.node(_TWO[op.type], [reader.value(op, "x"), reader.value(op, "y")]))


@reads("cast")
def cast(reader: Reader, op: Operation) -> None:
    """Cast, to the type that the output declares."""
    dtype = op.outputs[0].type.dtype
    assert dtype is not None
    x = reader.value(op, "x")
    reader.give(op, reader.node("Cast", [x], {"to": int(dtype)}, dtype))
