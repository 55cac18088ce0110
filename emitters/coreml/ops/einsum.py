"""Einsum, as diagonals, sums, transposes and products of matrices, one operand after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir

from emitters.coreml import limits
from emitters.coreml.context import Context, Var, free
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import Size, product, reshape, size, sizes
from emitters.lowering.plans.einsum import parsed, product_of, without
from emitters.lowering.refused import Refused


@dataclass(frozen=True)
class _Term:
    """A variable and the letter of each of its axes."""

    var: Var
    letters: str

    def is_one(self, letter: str) -> bool:
        return bool(self.var.shape[self.letters.index(letter)] == 1)


@lowers("Einsum")
def einsum(context: Context, node: onnx_ir.Node) -> None:
    """ "bij,bjk->bik": letters that the result lacks are summed over."""
    variables = [context.var(value) for value in node.inputs]
    equation = node.attributes["equation"].as_string()
    inputs, result = parsed(equation, [len(var.shape) for var in variables])
    terms = [
        _diagonal(context, var, letters) for var, letters in zip(variables, inputs, strict=True)
    ]
    while len(terms) > 1:
        others = result + "".join(term.letters for term in terms[2:])
        terms[:2] = [_product(context, terms[0], terms[1], others)]
    last = _summed(context, terms[0], result)
    order = [last.letters.index(letter) for letter in result]
    context.give(node.outputs[0], _transposed(context, last.var, order))


def _transposed(context: Context, x: Var, order: list[int]) -> Var:
    return x if order == sorted(order) else context.op("transpose", x=x, perm=order)


def _diagonal(context: Context, x: Var, letters: str) -> _Term:
    """An operand in which each letter is one axis: of a letter that is there twice, the elements
    of the diagonal, each ``size + 1`` after the other where both axes are one."""
    twice = next((letter for letter in letters if letters.count(letter) > 1), None)
    if twice is None:
        return _Term(x, letters)
    pair = [axis for axis, letter in enumerate(letters) if letter == twice][:2]
    rest = [axis for axis in range(len(letters)) if axis not in pair]
    n = x.shape[pair[0]]
    if free(n):
        raise Refused("an Einsum that takes the diagonal of free axes", "fix the size (--input)")
    moved = _transposed(context, x, [*pair, *rest])
    flat = reshape(context, moved, [int(n) ** 2, *sizes(context, moved)[2:]])
    places = np.arange(int(n), dtype=np.int32) * (int(n) + 1)
    made = context.op("gather", x=flat, indices=places, axis=0)
    return _diagonal(context, made, twice + "".join(letters[axis] for axis in rest))


def _summed(context: Context, term: _Term, wanted: str) -> _Term:
    """A term without the letters that nothing wants any more."""
    axes, letters = without(term.letters, wanted)
    if not axes:
        return term
    made = context.op("reduce_sum", x=term.var, axes=axes, keep_dims=False)
    return _Term(made, letters)


def _without(context: Context, term: _Term, other: _Term) -> _Term:
    """A term without the axes of size 1 that are broadcast to the other's."""
    gone = [c for c in term.letters if c in other.letters and term.is_one(c)]
    gone = [letter for letter in gone if not other.is_one(letter)]
    if not gone:
        return term
    axes = [term.letters.index(letter) for letter in gone]
    made = context.op("squeeze", x=term.var, axes=axes)
    return _Term(made, "".join(letter for letter in term.letters if letter not in gone))


def _product(context: Context, a: _Term, b: _Term, others: str) -> _Term:
    """Two terms as one product of matrices: letters of both that stay are the batch, those that
    don't are summed over."""
    a, b = _without(context, a, b), _without(context, b, a)
    a = _summed(context, a, others + b.letters)
    b = _summed(context, b, others + a.letters)
    plan = product_of(a.letters, b.letters, others)
    batch, inner, rows, columns = plan.batch, plan.inner, plan.rows, plan.columns
    if len(batch) <= limits.MAX_RANK - 2 and all(len(c) <= 1 for c in (rows, inner, columns)):
        left = _stretched(context, a, batch, rows, inner)
        right = _stretched(context, b, batch, inner, columns)
        made = context.op("matmul", x=left, y=right)
        gone = [-2] * (not rows) + [-1] * (not columns)
        made = context.op("squeeze", x=made, axes=gone) if gone else made
        return _Term(made, plan.letters)
    left = _matrix(context, a, batch, rows, inner)
    right = _matrix(context, b, batch, inner, columns)
    made = context.op("matmul", x=left, y=right)
    dims = [_size(context, a if letter in a.letters else b, letter) for letter in plan.letters]
    return _Term(reshape(context, made, dims), plan.letters)


def _size(context: Context, term: _Term, letter: str) -> Size:
    return size(context, term.var, term.letters.index(letter))


def _stretched(
    context: Context, term: _Term, batch: list[str], rows: list[str], columns: list[str]
) -> Var:
    """A term as [*batch, rows, columns], where either may be no letter, and an axis of size 1."""
    order = [term.letters.index(letter) for letter in (*batch, *rows, *columns)]
    moved = _transposed(context, term.var, order)
    added = [len(batch)] * (not rows) + [len(batch) + 1] * (not columns)
    return context.op("expand_dims", x=moved, axes=added) if added else moved


def _matrix(
    context: Context, term: _Term, batch: list[str], rows: list[str], columns: list[str]
) -> Var:
    """A term as [batch, rows, columns], each of them the letters of a group as one axis."""
    order = [term.letters.index(letter) for letter in (*batch, *rows, *columns)]
    moved = _transposed(context, term.var, order)
    groups = (batch, rows, columns)
    shape = [product(context, [_size(context, term, c) for c in group]) for group in groups]
    return reshape(context, moved, shape)
