"""Cast and CastLike."""

from __future__ import annotations

import onnx_ir

from emitters.coreml.context import Context, Var
from emitters.coreml.integers import fits, is_integer, wrapped
from emitters.coreml.registry import lowers
from emitters.coreml.types import DataType, held


@lowers("Cast", "CastLike")
def cast(context: Context, node: onnx_ir.Node) -> None:
    """cast, in which fractions go; integers wrap around in narrower types, as in ONNX Runtime."""
    source, target = context.dtype(node.inputs[0]), context.dtype(node.outputs[0])
    context.give(node.outputs[0], converted(context, context.var(node.inputs[0]), source, target))


def converted(context: Context, x: Var, source: DataType, target: DataType) -> Var:
    """A variable in another type.

    Truth is what isn't zero, compared: coremltools joins a cast to int32 and one to bool, and 0.5
    would be true.

    Args:
        context: Where it goes.
        x: Held as ``source`` is.
        source: The model's type before.
        target: The model's type after; the result is held as this type is.

    Raises:
        Refused: MIL has no such type.
    """
    kind = held(target)
    if kind == "bool":
        if context.type_of(x) == "bool":
            return x
        return context.op("not_equal", x=x, y=context.number(0, x))
    made = context.cast(x, kind)
    if not is_integer(target) or context.type_of(x) == "bool":
        return made
    if is_integer(source) and fits(source, target):
        return made
    return wrapped(context, made, target)
