"""Einsum, as sums, transposes and products of matrices, one operand after the other."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir

from emitters.lowering.plans.einsum import parsed, product_of, without
from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import Tensor
from emitters.tflite.ops.matrix import batch_matmul
from emitters.tflite.ops.reduction import reduced
from emitters.tflite.registry import lowers


@dataclass(frozen=True)
class _Term:
    """A tensor and the letter of each of its axes."""

    tensor: Tensor
    letters: str

    def size(self, letter: str) -> int | str:
        return self.tensor.shape[self.letters.index(letter)]


@lowers("Einsum")
def einsum(context: Context, node: onnx_ir.Node) -> None:
    """ "bij,bjk->bik": letters that the result lacks are summed over."""
    tensors = context.tensors(node)
    inputs, result = parsed(node.attributes["equation"].as_string(), [t.rank for t in tensors])
    terms = [_Term(tensor, letters) for tensor, letters in zip(tensors, inputs, strict=True)]
    for term in terms:
        if len(set(term.letters)) != len(term.letters):
            raise Refused("an Einsum that takes a diagonal (one letter twice in a term)")
    while len(terms) > 1:
        others = result + "".join(term.letters for term in terms[2:])
        terms[:2] = [_product(context, terms[0], terms[1], others)]
    last = _summed(context, terms[0], result)
    order = [last.letters.index(letter) for letter in result]
    context.give(node.outputs[0], build.transpose(context, last.tensor, order))


def _summed(context: Context, term: _Term, wanted: str) -> _Term:
    """A term without the letters that nothing wants any more."""
    axes, letters = without(term.letters, wanted)
    if not axes:
        return term
    made = reduced(context, "SUM", term.tensor, axes, False)
    return _Term(made, letters)


def _product(context: Context, a: _Term, b: _Term, others: str) -> _Term:
    """Two terms as one product of matrices: letters of both that stay are the batch, those that
    don't are summed over."""
    a = _summed(context, a, others + b.letters)
    b = _summed(context, b, others + a.letters)
    plan = product_of(a.letters, b.letters, others)
    for letter in (*plan.batch, *plan.inner):
        if a.size(letter) != b.size(letter):
            raise Refused("an Einsum whose sizes are broadcast")
    left = _matrix(context, a, plan.batch, plan.rows, plan.inner)
    right = _matrix(context, b, plan.batch, plan.inner, plan.columns)
    made = batch_matmul(context, left, right)
    sizes = [(a if letter in a.letters else b).size(letter) for letter in plan.letters]
    return _Term(build.reshape(context, made, sizes), plan.letters)


def _matrix(
    context: Context, term: _Term, batch: list[str], rows: list[str], columns: list[str]
) -> Tensor:
    """A term as [batch, rows, columns]."""
    order = [term.letters.index(letter) for letter in (*batch, *rows, *columns)]
    moved = build.transpose(context, term.tensor, order)
    shape = [_count(term, letters) for letters in (batch, rows, columns)]
    return build.reshape(context, moved, shape)


def _count(term: _Term, letters: list[str]) -> int | str:
    sizes = [term.size(letter) for letter in letters]
    total = 1
    for size in sizes:
        if not isinstance(size, int):
            return sizes[0] if len(sizes) == 1 else "*".join(map(str, sizes))
        total *= size
    return total
