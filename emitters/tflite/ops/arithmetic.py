"""Add, Sub, Mul and other operators of two or more operands of numbers."""

from __future__ import annotations

from functools import reduce

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from emitters.tflite import build, kernels
from emitters.tflite.build import broadcast_shape
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import DataType, Tensor
from emitters.tflite.ops.reals import real, stored
from emitters.tflite.registry import lowers

_OPS = {"Add": "ADD", "Sub": "SUB", "Mul": "MUL"}
_MANY = {"Max": "MAXIMUM", "Min": "MINIMUM", "Sum": "ADD"}


@lowers("Add", "Sub", "Mul", integer=True)
def arithmetic(context: Context, node: onnx_ir.Node) -> None:
    """ADD, SUB, MUL: all broadcast as numpy does."""
    a, b = context.tensors(node)
    output, op = node.outputs[0], _OPS[node.op_type]
    quant = output.meta.get(QUANT)
    if quant is None:
        context.give(output, kernels.binary(context, op, a, b))
        return
    shape = broadcast_shape(a.shape, b.shape)
    options: dict[str, object] = {"fusedActivationFunction": 0}
    if a.dtype == DataType.INT16 and op != "MUL":  # else its scales were to be powers of two
        options["potScaleInt16"] = False
    context.give(output, context.emit(op, [a, b], shape, quant=quant, options=options))


@lowers("Max", "Min", "Sum", integer=True)
def many(context: Context, node: onnx_ir.Node) -> None:
    """MAXIMUM, MINIMUM, ADD, one operand after the other; maxima and minima in integers with
    scales, where those are the result's."""
    op, output, tensors = _MANY[node.op_type], node.outputs[0], _without_ones(context, node)
    quant, dtype = output.meta.get(QUANT), context.dtype(output)
    same = op != "ADD" and all(each.dtype == dtype and each.quant for each in tensors)
    if quant is None or not same or not all(quant.same(each.quant) for each in tensors):
        tensors = [real(context, each) for each in tensors]
        made = reduce(lambda a, b: kernels.binary(context, op, a, b), tensors)
        context.give(output, stored(context, made, dtype, quant))
        return

    def joined(a: Tensor, b: Tensor) -> Tensor:
        return context.emit(op, [a, b], broadcast_shape(a.shape, b.shape), quant=quant)

    context.give(output, reduce(joined, tensors))


def _without_ones(context: Context, node: onnx_ir.Node) -> list[Tensor]:
    """The operands; float constants without the leading axes of 1 that another has as well: beside
    x * 0, XNNPACK takes the shape of a constant of as many axes for the result's."""
    tensors, known = context.tensors(node), [context.array(value) for value in node.inputs]
    rank = max((t.rank for t, k in zip(tensors, known, strict=True) if k is None), default=0)
    for place, array in enumerate(known):
        if array is None or array.ndim > rank or array.dtype != np.float32:
            continue
        while array.shape[:1] == (1,):
            array = array[0]
        if array.ndim < tensors[place].rank:
            tensors[place] = context.constant(array)
    return tensors


@lowers("Pow")
def power(context: Context, node: onnx_ir.Node) -> None:
    """POW; the result has the base's type, whatever the exponent's."""
    base, exponent = context.tensors(node)
    known = context.array(node.inputs[1])
    if known is not None and known.size == 1 and base.dtype == DataType.FLOAT:
        simple = {2.0: "SQUARE", 0.5: "SQRT", -0.5: "RSQRT"}.get(float(known.item()))
        if simple is not None and known.ndim <= base.rank:
            context.give(node.outputs[0], build.unary(context, simple, base))
            return
    if base.dtype == DataType.FLOAT or exponent.dtype == DataType.FLOAT:
        common = DataType.FLOAT
    else:
        common = kernels.computed_in("POW", base.dtype)
    made = build.binary(
        context, "POW", build.cast(context, base, common), build.cast(context, exponent, common)
    )
    context.give(node.outputs[0], build.cast(context, made, base.dtype))


@lowers("Mod")
def modulo(context: Context, node: onnx_ir.Node) -> None:
    """FLOOR_MOD, whose sign is the divisor's, as Python's; with ``fmod`` it is the dividend's:
    a - trunc(a / b) * b."""
    a, b = context.tensors(node)
    if not number(node, "fmod", 0):
        context.give(node.outputs[0], kernels.binary(context, "FLOOR_MOD", a, b))
        return
    absolute = [_absolute(context, tensor) for tensor in (a, b)]
    rest = kernels.binary(context, "FLOOR_MOD", *absolute)
    zero = build.scalar(context, 0, a)
    negative = kernels.compare(context, "LESS", a, zero)
    minus = kernels.unary(context, "NEG", rest)
    context.give(node.outputs[0], select(context, negative, minus, rest))


def _absolute(context: Context, x: Tensor) -> Tensor:
    if x.dtype in (DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.UINT64):
        return x
    return kernels.unary(context, "ABS", x)


def select(context: Context, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """SELECT_V2. It broadcasts up to four axes; for more, BROADCAST_TO does, which takes eight.

    Args:
        context: Where it goes.
        condition: bool.
        a: Where the condition holds.
        b: Elsewhere; of the same type.

    Raises:
        Refused: More than eight axes would be broadcast.
    """
    shape = broadcast_shape(condition.shape, a.shape, b.shape)
    if len(shape) > 8 and not condition.shape == a.shape == b.shape:
        raise Refused("BROADCAST_TO takes up to eight axes")
    if len(shape) > 4:
        condition, a, b = (
            tensor
            if tensor.shape == shape
            else context.emit("BROADCAST_TO", [tensor, context.sizes(shape)], shape)
            for tensor in (condition, a, b)
        )
    return context.emit("SELECT_V2", [condition, a, b], shape, a.dtype)
