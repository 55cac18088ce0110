"""Einsum as sums and products of matrices, one operand after the other.

Letters stand for axes. A letter that neither the result nor a later operand has is summed over as
soon as that can be.

Source: the operator page ``Einsum``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir

from converter.passes.legalize.builder import Builder, DataType, Size, Value, dims, rank
from converter.passes.legalize.formulas import Numbers

MOST_AXES = 5
"""That targets' products of matrices take."""


@dataclass(frozen=True)
class Term:
    """A value and the letter of each of its axes."""

    value: Value
    letters: str

    def places(self, letters: Sequence[str]) -> list[int]:
        """The axes of letters."""
        return [self.letters.index(letter) for letter in letters]


def einsum(b: Builder, node: onnx_ir.Node) -> Value | None:
    """Letters that the result lacks are summed over: ``bij,bjk->ik``."""
    operands = [value for value in node.inputs if value is not None]
    if any(value.shape is None for value in operands):
        return None
    equation = node.attributes["equation"].as_string()
    letters, result = parsed(equation, [rank(value) for value in operands])
    terms = [_diagonal(b, *pair) for pair in zip(operands, letters, strict=True)]
    while len(terms) > 1:
        others = result + "".join(term.letters for term in terms[2:])
        terms[:2] = [_product(b, terms[0], terms[1], others)]
    last = _summed(b, terms[0], result)
    return b.transpose(last.value, last.places(result))


def parsed(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Letters for each operand and for the result; an ellipsis becomes letters of its own.

    Without an arrow the result has the letters that are there once, in alphabetical order.

    Args:
        equation: As the node has it: "bij,bjk->bik".
        ranks: Of the operands.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    extra = [
        rank - len(term.replace("...", "")) if "..." in term else 0
        for rank, term in zip(ranks, terms, strict=True)
    ]
    unnamed = [chr(0x100 + place) for place in range(max(extra, default=0))]

    def spelled(term: str, count: int) -> str:
        return term.replace("...", "".join(unnamed[len(unnamed) - count :]))

    inputs = [spelled(term, count) for term, count in zip(terms, extra, strict=True)]
    if arrow:
        return inputs, spelled(right, len(unnamed))
    letters = "".join(inputs)
    once = sorted(c for c in set(letters) if letters.count(c) == 1 and c not in unnamed)
    return inputs, "".join(unnamed) + "".join(once)


def _diagonal(b: Builder, x: Value, letters: str) -> Term:
    """An operand in which each letter is one axis: of a letter that is there twice, the elements
    of the diagonal, each ``size + 1`` after the other where both axes are one."""
    twice = next((letter for letter in letters if letters.count(letter) > 1), None)
    if twice is None:
        return Term(x, letters)
    pair = [axis for axis, letter in enumerate(letters) if letter == twice][:2]
    rest = [axis for axis in range(len(letters)) if axis not in pair]
    n, others = b.size(x, pair[0]), [b.size(x, axis) for axis in rest]
    flat = b.reshape(b.transpose(x, [*pair, *rest]), [b.product([n, n]), *others])
    places = Numbers.counted(b, n) * (Numbers.of_size(b, n, DataType.INT64) + 1)
    made = b.op("Gather", flat, places.content, axis=0)
    return _diagonal(b, made, twice + "".join(letters[axis] for axis in rest))


def _summed(b: Builder, term: Term, wanted: str) -> Term:
    """A term without the letters that nothing wants any more."""
    axes = [axis for axis, letter in enumerate(term.letters) if letter not in wanted]
    left = "".join(letter for letter in term.letters if letter in wanted)
    return Term(b.reduce("ReduceSum", term.value, axes, keep=False), left)


def _without(b: Builder, term: Term, other: Term) -> Term:
    """A term without the axes of size 1 that are broadcast to the other's."""
    sizes = {letter: dims(other.value)[axis] for axis, letter in enumerate(other.letters)}
    own = dims(term.value)
    axes = [a for a, c in enumerate(term.letters) if own[a] == 1 and sizes.get(c, 1) != 1]
    left = "".join(letter for axis, letter in enumerate(term.letters) if axis not in axes)
    return Term(b.squeeze(term.value, axes), left)


def _product(b: Builder, one: Term, other: Term, others: str) -> Term:
    """Two terms as one: letters of both that stay are the batch, the others are summed over."""
    one, other = _without(b, one, other), _without(b, other, one)
    one = _summed(b, one, others + other.letters)
    other = _summed(b, other, others + one.letters)
    both = [letter for letter in one.letters if letter in other.letters]
    batch = [letter for letter in both if letter in others]
    inner = [letter for letter in both if letter not in others]
    rows = [letter for letter in one.letters if letter not in both]
    columns = [letter for letter in other.letters if letter not in both]
    return _multiplied(b, one, other, (batch, inner, rows, columns))


def _multiplied(b: Builder, one: Term, other: Term, groups: tuple[list[str], ...]) -> Term:
    """The product of two terms: of elements where nothing is summed over, else of matrices. Groups
    of letters are one axis each only where the product has no room for them."""
    batch, inner, rows, columns = groups
    result = "".join([*batch, *rows, *columns])
    start = len(batch)

    def ordered(term: Term, *letters: str) -> Value:
        return b.transpose(term.value, term.places(letters))

    if not inner and len(result) <= MOST_AXES:
        left = b.unsqueeze(ordered(one, *batch, *rows), range(start + len(rows), len(result)))
        right = b.unsqueeze(ordered(other, *batch, *columns), range(start, start + len(rows)))
        return Term(b.op("Mul", left, right), result)
    if start <= MOST_AXES - 2 and batch and all(len(c) <= 1 for c in (rows, inner, columns)):
        row, column = [start] * (not rows), [start + 1] * (not columns)
        left = b.unsqueeze(ordered(one, *batch, *rows, *inner), row)
        right = b.unsqueeze(ordered(other, *batch, *inner, *columns), column)
        return Term(b.squeeze(b.op("MatMul", left, right), [*row, *column]), result)
    sizes: dict[str, Size] = {}
    for term in (one, other):
        sizes |= {letter: b.size(term.value, axis) for axis, letter in enumerate(term.letters)}

    def matrix(term: Term, *wanted: list[str]) -> Value:
        moved = ordered(term, *(letter for group in wanted for letter in group))
        return b.reshape(moved, [b.product([sizes[c] for c in group]) for group in wanted])

    first = [batch] if batch else []
    apart = (
        [[letter] for letter in rows] if rows and len(rows) < MOST_AXES and not batch else [rows]
    )
    made = b.op("MatMul", matrix(one, *first, *apart, inner), matrix(other, *first, inner, columns))
    return Term(b.reshape(made, [sizes[letter] for letter in result]), result)


REWRITES = {"Einsum": einsum}
