"""One element from one."""

from __future__ import annotations

from typing import Any

import numpy as np

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


@op("Elu", "Celu", "LeakyRelu", "Gelu", "Selu", "HardSigmoid")
def with_settings(c: Context) -> None:
    """Activations with numbers."""
    op_type = c.node.op_type
    if op_type == "Elu":
        activate(c, "nn.ELU", "F.elu", ("alpha", _unless(c, "alpha", 1.0)))
    elif op_type == "Celu":
        activate(c, "nn.CELU", "F.celu", ("alpha", _unless(c, "alpha", 1.0)))
    elif op_type == "LeakyRelu":
        slope = real(c.attr("alpha", 0.01))
        activate(c, "nn.LeakyReLU", "F.leaky_relu", ("negative_slope", slope))
    elif op_type == "Gelu":
        how = c.attr("approximate", "none")
        activate(c, "nn.GELU", "F.gelu", ("approximate", f'"{how}"' if how != "none" else None))
    elif op_type == "Selu":
        _selu(c)
    else:
        _hard_sigmoid(c)


def _unless(c: Context, name: str, default: float) -> str | None:
    value = c.attr(name, default)
    return None if value == default else real(value)


def _selu(c: Context) -> None:
    alpha, gamma = c.attr("alpha", 1.6732632), c.attr("gamma", 1.0507010)
    if abs(alpha - 1.6732632) < 1e-6 and abs(gamma - 1.0507010) < 1e-6:
        activate(c, "nn.SELU", "F.selu")
    else:
        c.emit(f"{real(gamma)} * F.elu({c.arg(0)}, alpha={real(alpha)})", PRODUCT)


def _hard_sigmoid(c: Context) -> None:
    alpha, beta = c.attr("alpha", 0.2), c.attr("beta", 0.5)
    if abs(alpha - 1 / 6) < 1e-7 and beta == 0.5:
        activate(c, "nn.Hardsigmoid", "F.hardsigmoid")
    else:
        text = f"{c.operand(0, PRODUCT)} * {real(alpha)} + {real(beta)}"
        c.emit(f"torch.clamp({text}, 0.0, 1.0)")


@op("PRelu")
def prelu(c: Context) -> None:
    """Slopes stretched to the input as they are."""
    x = c.operand(0, COMPARED + 1)
    c.emit(f"torch.where({x} < 0, {c.operand(0, PRODUCT)} * {c.operand(1, PRODUCT)}, {c.arg(0)})")


@op("ThresholdedRelu")
def thresholded(c: Context) -> None:
    """Zero up to a number."""
    c.emit(f"F.threshold({c.arg(0)}, {real(c.attr('alpha', 1.0))}, 0.0)")


@op("Shrink")
def shrink(c: Context) -> None:
    """Towards zero beyond a number, zero within."""
    low, bias = real(c.attr("lambd", 0.5)), real(c.attr("bias", 0.0))
    cast = "" if c.dtype(0).startswith("float") else f".to({torch_type(c.dtype(0))})"
    c.emit(f"{c.helper('shrink')}({c.arg(0)}, {low}, {bias}){cast}")


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
            f"{name}={number(_typed(c, value))}"
            for name, value in (("min", low), ("max", high))
            if value is not None
        ]
        c.emit(f"torch.clamp({c.arg(0)}, {', '.join(settings)})")


def _typed(c: Context, value: float) -> object:
    return np.dtype(c.value(0).dtype.numpy()).type(value)  # type: ignore[union-attr]
