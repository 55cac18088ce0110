"""Relu, Elu, PRelu, Gelu and other activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.ir.attributes import floating, text
from converter.ir.refused import Refused
from emitters.coreml.context import Context, Var
from emitters.coreml.registry import lowers
from emitters.coreml.types import NUMPY, Array

_HARD_SIGMOID = {"alpha": 0.2, "beta": 0.5}


def _alpha(context: Context, x: Var, number: float) -> Any:
    """A parameter, in the variable's type."""
    return NUMPY[context.type_of(x)](number)


@lowers("Relu")
def relu(context: Context, node: onnx_ir.Node) -> None:
    """relu; of integers, the larger of them and zero."""
    x = context.var(node.inputs[0])
    if context.type_of(x) == "int32":
        made = context.op("maximum", x=x, y=context.const(0))
    else:
        made = context.op("relu", x=x)
    context.give(node.outputs[0], made)


_OF_ALPHA = {"Elu": ("elu", 1.0), "LeakyRelu": ("leaky_relu", 0.01)}


@lowers(*_OF_ALPHA)
def of_alpha(context: Context, node: onnx_ir.Node) -> None:
    x, (kind, usual) = context.var(node.inputs[0]), _OF_ALPHA[node.op_type]
    alpha = _alpha(context, x, floating(node, "alpha", usual))
    context.give(node.outputs[0], context.op(kind, x=x, alpha=alpha))


@lowers("PRelu")
def prelu(context: Context, node: onnx_ir.Node) -> None:
    """prelu where the slope is a constant for each channel of an image, as it wants; elsewhere
    max(x, 0) + slope * min(x, 0)."""
    x, slope = context.var(node.inputs[0]), context.array(node.inputs[1])
    kind = context.type_of(x)
    if slope is not None and kind != "int32" and _by_channel(x, slope):
        alpha: Array = np.ascontiguousarray(slope.reshape(-1), NUMPY[kind])
        made = context.op("prelu", x=x, alpha=alpha)
    else:
        zero = context.number(0, x)
        low = context.op("minimum", x=x, y=zero)
        scaled = context.op("mul", x=low, y=context.var(node.inputs[1]))
        made = context.op("add", x=context.op("maximum", x=x, y=zero), y=scaled)
    context.give(node.outputs[0], made)


def _by_channel(x: Var, slope: Array) -> bool:
    wanted = (x.shape[1], 1, 1) if len(x.shape) == 4 else None
    return wanted is not None and slope.shape in (wanted, (1, *wanted))


@lowers("HardSigmoid")
def hard_sigmoid(context: Context, node: onnx_ir.Node) -> None:
    x = context.var(node.inputs[0])
    alpha, beta = (_alpha(context, x, floating(node, *each)) for each in _HARD_SIGMOID.items())
    context.give(node.outputs[0], context.op("sigmoid_hard", x=x, alpha=alpha, beta=beta))


@lowers("Mish")
def mish(context: Context, node: onnx_ir.Node) -> None:
    """x * tanh(softplus(x))."""
    x = context.var(node.inputs[0])
    gate = context.op("tanh", x=context.op("softplus", x=x))
    context.give(node.outputs[0], context.op("mul", x=x, y=gate))


@lowers("Gelu")
def gelu(context: Context, node: onnx_ir.Node) -> None:
    """gelu, exact or by tanh."""
    kind = text(node, "approximate", "none")
    mode = {"none": "EXACT", "tanh": "TANH_APPROXIMATION"}.get(kind)
    if mode is None:
        raise Refused(f"a Gelu approximated by {kind}")
    context.give(node.outputs[0], context.op("gelu", x=context.var(node.inputs[0]), mode=mode))
