"""One element from one."""

from __future__ import annotations

from typing import Any

from emitters.code.asking import is_plain_selu, is_sixth, typed, unless
from emitters.code.context import Context
from emitters.code.literals import number, real
from emitters.code.steps import (
    COMPARED,
    LOWEST,
    PRODUCT,
    UNARY,
)
from emitters.pytorch.registry import op
from emitters.pytorch.types import WIDE, needs_wide, torch_type

_UNARY = {
    **{n: f"torch.{n.lower()}" for n in ("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh")},
    **{n: f"torch.{n.lower()}" for n in ("Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log")},
    **{n: f"torch.{n.lower()}" for n in ("Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan", "IsNaN")},
    "Reciprocal": "torch.reciprocal",
    "Relu": "F.relu",
    "Sigmoid": "torch.sigmoid",
    "Tanh": "torch.tanh",
    "Softplus": "F.softplus",
    "Softsign": "F.softsign",
    "Mish": "F.mish",
    "HardSwish": "F.hardswish",
}
_MODULES = {
    "Relu": "nn.ReLU",
    "Sigmoid": "nn.Sigmoid",
    "Tanh": "nn.Tanh",
    "Softplus": "nn.Softplus",
    "Mish": "nn.Mish",
    "HardSwish": "nn.Hardswish",
    "Softsign": "nn.Softsign",
}


def activate(c: Context, module: str, function: str, *settings: tuple[str, object]) -> None:
    """An activation: the module that the source had, or a function.

    Args:
        c: The node's context.
        module: The class of PyTorch's module; empty where the function is used in any case.
        function: The function where the source had no module, or the elements are integers.
        *settings: Arguments by name, for both; a value of None leaves one out.
    """
    told: dict[str, Any] = {name: value for name, value in settings if value is not None}
    if module and c.path()[1] and not c.dtype(0).startswith(("int", "uint")):
        c.call(module, (), (c.arg(0),), hint="activation", **told)
        return
    named = "".join(f", {name}={value}" for name, value in told.items())
    c.emit(f"{function}({c.arg(0)}{named})")


@op(*_UNARY)
def unary(c: Context) -> None:
    """By its name."""
    op_type = c.node.op_type
    if needs_wide(c.dtype(0)):
        x = f"{c.operand(0)}.to({WIDE})"
        c.emit(f"{_UNARY[op_type]}({x}).to({torch_type(c.dtype(0))})")
        return
    activate(c, _MODULES.get(op_type, ""), _UNARY[op_type])


@op("Identity")
def identity(c: Context) -> None:
    """The same."""
    c.emit(c.arg(0), LOWEST)


@op("Neg", "Not", "BitwiseNot")
def sign(c: Context) -> None:
    """By an operator of Python's."""
    mark = "-" if c.node.op_type == "Neg" else "~"
    if needs_wide(c.dtype(0)):
        c.emit(f"({mark}{c.operand(0)}.to({WIDE})).to({torch_type(c.dtype(0))})")
        return
    c.emit(f"{mark}{c.operand(0, UNARY)}", UNARY)


_SLOPES: dict[str, tuple[str, str, str, float, float | None]] = {
    "Elu": ("nn.ELU", "F.elu", "alpha", 1.0, 1.0),
    "Celu": ("nn.CELU", "F.celu", "alpha", 1.0, 1.0),
    "LeakyRelu": ("nn.LeakyReLU", "F.leaky_relu", "negative_slope", 0.01, None),
}
"""Module, function, what they call alpha; alpha in ONNX and in PyTorch where nothing is said."""


@op(*_SLOPES)
def with_slope(c: Context) -> None:
    """By its name and alpha."""
    module, function, name, default, usual = _SLOPES[c.node.op_type]
    activate(c, module, function, (name, unless(c, "alpha", default, usual)))


@op("Gelu")
def gelu(c: Context) -> None:
    """By erf, or by tanh."""
    how = c.attr("approximate", "none")
    activate(c, "nn.GELU", "F.gelu", ("approximate", f'"{how}"' if how != "none" else None))


@op("Selu", legal=is_plain_selu)
def selu(c: Context) -> None:
    """Of the usual numbers."""
    activate(c, "nn.SELU", "F.selu")


@op("HardSigmoid", legal=is_sixth)
def hard_sigmoid(c: Context) -> None:
    """Of the usual line."""
    activate(c, "nn.Hardsigmoid", "F.hardsigmoid")


@op("PRelu")
def prelu(c: Context) -> None:
    """Slopes stretched to the input as they are."""
    x = c.operand(0, COMPARED + 1)
    c.emit(f"torch.where({x} < 0, {c.operand(0, PRODUCT)} * {c.operand(1, PRODUCT)}, {c.arg(0)})")


@op("ThresholdedRelu")
def thresholded(c: Context) -> None:
    """Zero up to a number."""
    c.emit(f"F.threshold({c.arg(0)}, {real(c.attr('alpha', 1.0))}, 0.0)")


@op("IsInf")
def is_inf(c: Context) -> None:
    """Of either sign, or both."""
    up, down = c.attr("detect_positive", 1), c.attr("detect_negative", 1)
    if up and down:
        c.emit(f"torch.isinf({c.arg(0)})")
    elif up or down:
        c.emit(f"torch.is{'pos' if up else 'neg'}inf({c.arg(0)})")
    else:
        c.emit(f"torch.zeros_like({c.arg(0)}, dtype=torch.bool)")


@op("Clip")
def clip(c: Context) -> None:
    """Between two numbers, or from one on."""
    low, high = (c.number(at) if c.has(at) else None for at in (1, 2))
    if (c.has(1) and low is None) or (c.has(2) and high is None):
        settings = [f"{n}={c.arg(at)}" for n, at in (("min", 1), ("max", 2)) if c.has(at)]
        if len(settings) == 2:
            c.emit(f"torch.minimum(torch.maximum({c.arg(0)}, {c.arg(1)}), {c.arg(2)})")
        else:
            function = "maximum" if c.has(1) else "minimum"
            c.emit(f"torch.{function}({c.arg(0)}, {c.arg(1 if c.has(1) else 2)})")
    elif low == 0 and high == 6 and c.dtype(0).startswith("float"):
        activate(c, "nn.ReLU6", "F.relu6")
    elif low is None and high is None:
        c.emit(c.arg(0), LOWEST)
    else:
        settings = [
            f"{name}={number(typed(c, value))}"
            for name, value in (("min", low), ("max", high))
            if value is not None
        ]
        c.emit(f"torch.clamp({c.arg(0)}, {', '.join(settings)})")
