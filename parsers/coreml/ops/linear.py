"""Products of matrices: linear, matmul, einsum (``linear``)."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.sizes import rank as rank_of
from parsers.coreml.values import like


@reads("linear")
def linear(reader: Reader, op: Operation) -> None:
    """x times the transposed weight, plus the bias: Gemm of matrices, else MatMul."""
    x = reader.value(op, "x")
    weight, bias = like(reader, op, "weight", x), like(reader, op, "bias", x)
    assert weight is not None
    if rank_of(x) == 2:
        inputs = [x, weight] if bias is None else [x, weight, bias]
        reader.give(op, reader.node("Gemm", inputs, {"transB": 1}))
        return
    product = reader.node("MatMul", [x, reader.node("Transpose", [weight], {"perm": [1, 0]})])
    reader.give(op, product if bias is None else reader.node("Add", [product, bias]))


@reads("matmul")
def matmul(reader: Reader, op: Operation) -> None:
    """MatMul; transposed first are the last two axes. The product's type is that of the operand
    that is computed: from iOS17 on a constant one may have another."""
    constant = reader.constant(op, "x") is not None
    dtype = reader.value(op, "y" if constant else "x").dtype
    assert dtype is not None
    operands = [_operand(reader, op, name, dtype) for name in ("x", "y")]
    reader.give(op, reader.node("MatMul", operands))


def _operand(reader: Reader, op: Operation, name: str, dtype: onnx_ir.DataType) -> onnx_ir.Value:
    numbers = reader.array(op, name)
    if dtype.is_integer() and numbers is not None and numbers.dtype.kind == "f":
        whole = numbers.astype(dtype.numpy())
        if not np.array_equal(whole, numbers):
            raise Refusal(f"its {name} has fractions, but is multiplied by integers")
    value = reader.cast(reader.value(op, name), dtype)
    if not reader.setting(op, f"transpose_{name}", False):
        return value
    rank = rank_of(value)
    if rank == 1:
        return value
    return _transposed(reader, value, [*range(rank - 2), rank - 1, rank - 2])


@reads("einsum")
def einsum(reader: Reader, op: Operation) -> None:
    """``nchw,nwhu->nchu`` and ``chw,whr->chr``, with sizes of 1 broadcast: products of matrices
    for each n and h; of other equations, Einsum."""
    x, y = reader.all(op, "values")
    equation = str(reader.setting(op, "equation")).replace(" ", "")
    if _shape_of(equation) not in ("abcd,adce->abce", "abc,cbd->abd"):
        reader.give(op, reader.node("Einsum", [x, y], {"equation": equation}))
        return
    rank = rank_of(x)
    swapped = [*range(rank - 3), rank - 2, rank - 3, rank - 1]
    left, right = _transposed(reader, x, swapped), _transposed(reader, y, swapped)
    reader.give(op, _transposed(reader, reader.node("MatMul", [left, right]), swapped))


def _transposed(reader: Reader, x: onnx_ir.Value, perm: list[int]) -> onnx_ir.Value:
    return reader.node("Transpose", [x], {"perm": perm})


def _shape_of(equation: str) -> str:
    """An equation with its letters renamed in order of appearance."""
    letters: dict[str, str] = {}
    for letter in equation:
        if letter.isalpha() and letter not in letters:
            letters[letter] = chr(ord("a") + len(letters))
    return "".join(letters.get(letter, letter) for letter in equation)
