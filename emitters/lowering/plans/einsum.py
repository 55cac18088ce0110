"""Einsum as sums and products of matrices: which axes each of them is over.

Letters stand for axes. Operands are multiplied one after the other; a letter that neither the
result nor a later operand has is summed over as soon as that can be.

Source: the operator page ``Einsum``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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


def without(letters: str, wanted: str) -> tuple[list[int], str]:
    """The axes that nothing wants any more, and the letters that are left."""
    axes = [axis for axis, letter in enumerate(letters) if letter not in wanted]
    return axes, "".join(letter for letter in letters if letter in wanted)


@dataclass(frozen=True)
class Product:
    """Two operands as matrices, [batch, rows, inner] and [batch, inner, columns].

    Attributes:
        batch: Letters of both that stay.
        inner: Letters of both that are summed over.
        rows, columns: Letters of the first alone, and of the second.
    """

    batch: list[str]
    inner: list[str]
    rows: list[str]
    columns: list[str]

    @property
    def letters(self) -> str:
        """Those of the product."""
        return "".join([*self.batch, *self.rows, *self.columns])


def product_of(a: str, b: str, others: str) -> Product:
    """The product of two operands without letters that nothing wants.

    Args:
        a, b: Their letters.
        others: Letters of the result and of later operands.
    """
    both = [letter for letter in a if letter in b]
    return Product(
        [letter for letter in both if letter in others],
        [letter for letter in both if letter not in others],
        [letter for letter in a if letter not in both],
        [letter for letter in b if letter not in both],
    )
