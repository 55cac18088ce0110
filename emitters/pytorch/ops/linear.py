"""Products of matrices; with constant ones they are layers."""

from __future__ import annotations

import numpy as np

from converter.ir.refused import Refused
from emitters.code.context import Context, shape_of
from emitters.code.literals import real
from emitters.code.steps import LOWEST, PRODUCT, SUM, Value, Weight
from emitters.code.weights import bias_of, is_row, is_weight
from emitters.pytorch.registry import op
from emitters.pytorch.types import needs_wide, torch_type


def dtype_argument(name: str) -> str | None:
    """``dtype`` of a module whose tensors aren't float32."""
    return None if name == "float32" else torch_type(name)


@op("MatMul")
def matmul(c: Context) -> None:
    """``nn.Linear`` of a constant matrix; else ``@``."""
    if needs_wide(c.dtype(0)):
        if c.dtype(0) == "uint64":
            raise Refused("PyTorch has no products of uint64", "use int64")
        text = f"({c.operand(0)}.long() @ {c.operand(1)}.long())"
        c.emit(f"{text}.to({torch_type(c.dtype(0))})")
        return
    if is_weight(c.value(1), 2) and (c.rank(0) or 0) >= 2:
        _layer(c)
        return
    c.emit(f"{c.operand(0, PRODUCT + 1)} @ {c.operand(1, PRODUCT + 1)}", PRODUCT)


def _layer(c: Context) -> None:
    inside, outside = (int(size) for size in shape_of(c.value(1)) or ())  # type: ignore[arg-type]
    weights = {"weight": c.weight(c.value(1), np.transpose, "transposed")}
    found = bias_of(c.node.outputs[0], outside)
    output = None
    if found is not None:
        node, bias = found
        weights["bias"] = c.weight(bias, lambda array: array.reshape(-1), "flat")
        output = node.outputs[0]
        c.done.add(node)
    linear(c, inside, outside, weights, output)


def linear(c: Context, inside: int, outside: int, weights: dict[str, Weight],
           output: Value | None = None) -> None:  # fmt: skip
    """A call of ``nn.Linear``.

    Args:
        c: The node's context.
        inside: How many columns the input has.
        outside: How many columns the result has.
        weights: ``weight`` [``outside``, ``inside``], and ``bias`` where there is one.
        output: The value that it gives; None: the node's first output.
    """
    dtype = dtype_argument(c.dtype(0))
    bias = None if "bias" in weights else False
    sizes = (inside, outside)
    c.call(
        "nn.Linear", sizes, (c.arg(0),), weights, "linear", output=output, bias=bias, dtype=dtype
    )


@op("Gemm")
def gemm(c: Context) -> None:
    """``nn.Linear`` of a constant matrix; else ``@``."""
    alpha, beta = c.attr("alpha", 1.0), c.attr("beta", 1.0)
    down, across = c.attr("transA", 0), c.attr("transB", 0)
    if needs_wide(c.dtype(0)):
        raise Refused(f"PyTorch has no products of {c.dtype(0)}", "use int64")
    shape = shape_of(c.value(1)) or []
    flat = not c.has(2) or (is_weight(c.value(2)) and is_row(c.value(2), shape, across))
    if is_weight(c.value(1), 2) and flat and not down and alpha == 1 and beta == 1:
        outside, inside = shape if across else shape[::-1]
        change = (None, "") if across else (np.transpose, "transposed")
        weights = {"weight": c.weight(c.value(1), *change)}
        if c.has(2):
            weights["bias"] = c.weight(c.value(2), lambda array: array.reshape(-1), "flat")
        linear(c, int(inside or 0), int(outside or 0), weights)
        return
    left = f"{c.operand(0)}.T" if down else c.operand(0, PRODUCT)
    right = f"{c.operand(1)}.T" if across else c.operand(1, PRODUCT + 1)
    whole = c.dtype(0).startswith("int")
    if whole and (alpha != int(alpha) or beta != int(beta)):
        raise Refused("integers are multiplied by fractions", "cast them to float32")

    def factor(value: float) -> str:
        return f"{int(value)}" if whole else real(value)

    text = f"{left} @ {right}"
    if alpha != 1:
        text = f"{factor(alpha)} * ({text})"
    if c.has(2):
        added = c.operand(2, SUM + 1) if beta == 1 else f"{factor(beta)} * {c.operand(2, PRODUCT)}"
        c.emit(f"{text} + {added}", SUM)
    else:
        c.emit(text, PRODUCT)


@op("Einsum")
def einsum(c: Context) -> None:
    """By its equation."""
    equation = str(c.attr("equation")).replace(" ", "")
    given = ", ".join(c.arg(at) for at in range(len(c.node.inputs)))
    c.emit(f'torch.einsum("{equation}", {given})')


@op("Det")
def determinant(c: Context) -> None:
    """Of each matrix."""
    c.emit(f"torch.linalg.det({c.arg(0)})", LOWEST)


@op("Dropout")
def dropout(c: Context) -> None:
    """Nothing, but while it is trained; a training Dropout of the graph's is random."""
    if c.has(2) and c.number(2) is not False and c.number(2) != 0:
        raise Refused("it drops random values", "export the model for inference")
    ratio = c.number(1) if c.has(1) else 0.5
    mask = len(c.node.outputs) > 1 and c.node.outputs[1].name
    if mask:
        c.emit(f"torch.ones_like({c.arg(0)}, dtype=torch.bool)", output=c.node.outputs[1])
    if isinstance(ratio, float):
        c.call("nn.Dropout", (real(ratio),), (c.arg(0),), hint="dropout")
    else:
        c.emit(c.arg(0), LOWEST)
