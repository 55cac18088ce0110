"""Products of matrices; with constant ones they are layers."""

from __future__ import annotations

import numpy as np

from converter.ir.refused import Refused
from emitters.code.context import Context, shape_of
from emitters.code.keras.registry import op
from emitters.code.keras.types import dtype_argument, is_whole, keras_type
from emitters.code.literals import real
from emitters.code.steps import LOWEST, PRODUCT, SUM, Value, Weight
from emitters.code.weights import bias_of, is_row, is_weight


def _product(c: Context, left: str, right: str) -> str:
    """A product in the operands' type; halves are added up in wider numbers."""
    if c.dtype(0) in ("float32", "float64", "int32", "int64"):
        return f"ops.matmul({left}, {right})"
    wider = '"int64"' if is_whole(c.dtype(0)) else '"float32"'
    wide = (f"ops.cast({side}, {wider})" for side in (left, right))
    return f"ops.cast(ops.matmul({', '.join(wide)}), {keras_type(c.dtype(0))})"


@op("MatMul")
def matmul(c: Context) -> None:
    """``layers.Dense`` of a constant matrix; else a product."""
    if is_weight(c.value(1), 2) and (c.rank(0) or 0) >= 2:
        outside = int(shape_of(c.value(1))[1])  # type: ignore[index, arg-type]
        weights = {"kernel": c.weight(c.value(1))}
        found, output = bias_of(c.node.outputs[0], outside), None
        if found is not None:
            node, bias = found
            weights["bias"] = c.weight(bias, lambda array: array.reshape(-1), "flat")
            output = node.outputs[0]
            c.done.add(node)
        dense(c, outside, weights, output)
        return
    c.emit(_product(c, c.arg(0), c.arg(1)))


def dense(c: Context, outside: int, weights: dict[str, Weight],
          output: Value | None = None) -> None:  # fmt: skip
    """A call of ``layers.Dense``.

    Args:
        c: The node's context.
        outside: How many columns the result has.
        weights: ``kernel`` [columns of the input, ``outside``], and ``bias`` where there is one.
        output: The value that it gives; None: the node's first output.
    """
    c.call(
        "layers.Dense", (outside,), (c.arg(0),), weights, "dense", output=output,
        use_bias=None if "bias" in weights else False, dtype=dtype_argument(c.dtype(0)),
    )  # fmt: skip


@op("Gemm")
def gemm(c: Context) -> None:
    """``layers.Dense`` of a constant matrix; else a product."""
    alpha, beta = c.attr("alpha", 1.0), c.attr("beta", 1.0)
    down, across = c.attr("transA", 0), c.attr("transB", 0)
    shape = shape_of(c.value(1)) or []
    flat = not c.has(2) or (is_weight(c.value(2)) and is_row(c.value(2), shape, across))
    if is_weight(c.value(1), 2) and flat and not down and alpha == 1 and beta == 1:
        change = (np.transpose, "transposed") if across else (None, "")
        weights = {"kernel": c.weight(c.value(1), *change)}
        if c.has(2):
            weights["bias"] = c.weight(c.value(2), lambda array: array.reshape(-1), "flat")
        dense(c, int(shape[0 if across else 1] or 0), weights)
        return
    left = f"ops.transpose({c.arg(0)})" if down else c.arg(0)
    right = f"ops.transpose({c.arg(1)})" if across else c.arg(1)
    whole = is_whole(c.dtype(0))
    if whole and (alpha != int(alpha) or beta != int(beta)):
        raise Refused("integers are multiplied by fractions", "cast them to float32")

    def factor(value: float) -> str:
        return f"{int(value)}" if whole else real(value)

    text, strength = _product(c, left, right), 10
    if alpha != 1:
        text, strength = f"{factor(alpha)} * {text}", PRODUCT
    if c.has(2):
        row = shape_of(c.value(2)) or []
        if len(row) == 2 and row[0] == 1 and isinstance(row[1], int):
            # TensorFlow takes it for a bias when it fuses the two, and then wants one axis.
            added = f"ops.reshape({c.arg(2)}, ({row[1]},))"
        else:
            added = c.operand(2, SUM + 1 if beta == 1 else PRODUCT)
        added = added if beta == 1 else f"{factor(beta)} * {added}"
        text, strength = f"{text} + {added}", SUM
    c.emit(text, strength)


@op("Einsum")
def einsum(c: Context) -> None:
    """By its equation."""
    equation = str(c.attr("equation")).replace(" ", "")
    given = ", ".join(c.arg(at) for at in range(len(c.node.inputs)))
    c.emit(f'ops.einsum("{equation}", {given})')


@op("Det")
def determinant(c: Context) -> None:
    """Of each matrix."""
    c.emit(f"ops.det({c.arg(0)})", LOWEST)


@op("Dropout")
def dropout(c: Context) -> None:
    """Nothing, but while it is trained; a training Dropout of the graph's is random."""
    if c.has(2) and c.number(2) is not False and c.number(2) != 0:
        raise Refused("it drops random values", "export the model for inference")
    ratio = c.number(1) if c.has(1) else 0.5
    if len(c.node.outputs) > 1 and c.node.outputs[1].name:
        c.emit(f'ops.ones_like({c.arg(0)}, dtype="bool")', output=c.node.outputs[1])
    if isinstance(ratio, float) and 0 <= ratio <= 1:
        c.call("layers.Dropout", (real(ratio),), (c.arg(0),), hint="dropout",
               dtype=dtype_argument(c.dtype(0)))  # fmt: skip
    else:
        c.emit(c.arg(0), LOWEST)
