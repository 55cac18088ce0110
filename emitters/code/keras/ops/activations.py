"""One element from one."""

from __future__ import annotations

from typing import Any

from converter.ir.edit import constant_tensor
from emitters.code.asking import is_plain_selu, is_sixth, typed, unless
from emitters.code.context import Context
from emitters.code.keras.registry import op
from emitters.code.keras.types import dtype_argument, is_whole
from emitters.code.literals import number
from emitters.code.steps import LOWEST, PRODUCT, UNARY

_UNARY = {
    **{n: f"ops.{n.lower()}" for n in ("Abs", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor")},
    **{n: f"ops.{n.lower()}" for n in ("IsNaN", "Log", "Round", "Sign", "Sin", "Sinh", "Sqrt")},
    **{f"A{n}": f"ops.arc{n}" for n in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    **{n: f"ops.{n.lower()}" for n in ("Relu", "Reciprocal", "Sigmoid", "Softplus")},
    **{n: f"ops.{n.lower()}" for n in ("Softsign", "Tan", "Tanh")},
    "HardSwish": "ops.hard_swish",
    "Not": "ops.logical_not",
    "BitwiseNot": "ops.bitwise_not",
    "Mish": "keras.activations.mish",
}
_LAYERS = {
    "Relu": ("layers.ReLU", ()),
    **{
        n: ("layers.Activation", (f'"{n.lower()}"',))
        for n in ("Sigmoid", "Tanh", "Softplus", "Mish", "Softsign")
    },
    "HardSwish": ("layers.Activation", ('"hard_swish"',)),
}


def activate(c: Context, layer: str, function: str, *settings: tuple[str, object],
             given: tuple[object, ...] = ()) -> None:  # fmt: skip
    """An activation: the layer that the source had, or a function.

    Args:
        c: The node's context.
        layer: The class of Keras' layer; empty where the function is used in any case.
        function: The function where the source had no layer, or the elements are integers.
        *settings: Arguments by name, for the layer and the function; a value of None leaves one
            out.
        given: Arguments of the layer's constructor by position.
    """
    told: dict[str, Any] = {name: value for name, value in settings if value is not None}
    if layer and c.path()[1] and not is_whole(c.dtype(0)):
        dtype = dtype_argument(c.dtype(0))
        c.call(layer, given, (c.arg(0),), hint="activation", **told, dtype=dtype)
        return
    named = "".join(f", {name}={value}" for name, value in told.items())
    c.emit(f"{function}({c.arg(0)}{named})")


@op(*_UNARY)
def unary(c: Context) -> None:
    """By its name."""
    op_type = c.node.op_type
    if c.dtype(0).startswith("uint") and op_type in ("Abs", "Sign"):
        text = f"ops.minimum({c.arg(0)}, 1)" if op_type == "Sign" else c.arg(0)
        c.emit(text, LOWEST)
        return
    layer, given = _LAYERS.get(op_type, ("", ()))
    activate(c, layer, _UNARY[op_type], given=given)


@op("Identity")
def identity(c: Context) -> None:
    """The same."""
    if constant_tensor(c.value(0)) is not None:
        c.emit(f"ops.convert_to_tensor({c.arg(0)})")
        return
    c.emit(c.arg(0), LOWEST)


@op("Neg")
def negative(c: Context) -> None:
    """By Python's sign."""
    c.emit(f"-{c.operand(0, UNARY)}", UNARY)


_SLOPES: dict[str, tuple[str, str, str, float, float | None]] = {
    "Elu": ("layers.ELU", "ops.elu", "alpha", 1.0, 1.0),
    "Celu": ("", "ops.celu", "alpha", 1.0, 1.0),
    "LeakyRelu": ("layers.LeakyReLU", "ops.leaky_relu", "negative_slope", 0.01, None),
}
"""Layer, function, what they call alpha; alpha in ONNX and in Keras where nothing is said."""


@op(*_SLOPES)
def with_slope(c: Context) -> None:
    """By its name and alpha."""
    layer, function, name, default, usual = _SLOPES[c.node.op_type]
    activate(c, layer, function, (name, unless(c, "alpha", default, usual)))


@op("Gelu")
def gelu(c: Context) -> None:
    """By erf, or by tanh."""
    activate(c, "", "ops.gelu", ("approximate", c.attr("approximate", "none") != "none"))


@op("Selu", legal=is_plain_selu)
def selu(c: Context) -> None:
    """Of the usual numbers."""
    activate(c, "layers.Activation", "ops.selu", given=('"selu"',))


@op("HardSigmoid", legal=is_sixth)
def hard_sigmoid(c: Context) -> None:
    """Of the usual line."""
    activate(c, "layers.Activation", "ops.hard_sigmoid", given=('"hard_sigmoid"',))


@op("PRelu")
def prelu(c: Context) -> None:
    """Slopes stretched to the input as they are."""
    x = c.operand(0, PRODUCT)
    told = f"ops.less({c.arg(0)}, 0), {x} * {c.operand(1, PRODUCT)}, {c.arg(0)}"
    c.emit(f"ops.where({told})")


@op("IsInf")
def is_inf(c: Context) -> None:
    """Of either sign, or both."""
    up, down = c.attr("detect_positive", 1), c.attr("detect_negative", 1)
    if up and down:
        c.emit(f"ops.isinf({c.arg(0)})")
    elif up or down:
        c.emit(f'ops.equal({c.arg(0)}, float("{"" if up else "-"}inf"))')
    else:
        c.emit(f'ops.zeros_like({c.arg(0)}, dtype="bool")')


@op("Clip")
def clip(c: Context) -> None:
    """Between two numbers, or from one on."""
    low, high = (c.number(at) if c.has(at) else None for at in (1, 2))
    known = (not c.has(1) or low is not None) and (not c.has(2) or high is not None)
    if known and low == 0 and high == 6 and not is_whole(c.dtype(0)):
        activate(c, "layers.Activation", "ops.relu6", given=('"relu6"',))
        return
    text = c.arg(0)
    if c.has(1) and c.has(2) and known and (low or 0) <= (high or 0):
        text = f"ops.clip({text}, {number(typed(c, low))}, {number(typed(c, high))})"
    else:
        for at, function in ((1, "maximum"), (2, "minimum")):
            if c.has(at):
                bound = c.number(at)
                told = c.arg(at) if bound is None else number(typed(c, bound))
                text = f"ops.{function}({text}, {told})"
    c.emit(text, LOWEST)
