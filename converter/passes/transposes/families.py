"""Tensors that differ by Transposes alone, and what it costs to have each as it is wanted."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field

import onnx_ir

from converter.ir.model import BATCH
from converter.passes.transposes.perm import Dims, Perm, after, identity, reshape_target, step
from converter.passes.transposes.rules import Label, Rule

TRANSPOSE = 1 << 60
"""What a Transpose costs, besides its elements: one more never pays."""

NODE = 1 << 52
"""What a small node costs (a Reshape, a Gather of a shape's numbers): more than fewer elements in
Transposes, which are as many as before, can save."""

_ELEMENT = 1 << 10
_FREE = 64
"""The size that a free dimension is taken to have; a batch has 1."""


@dataclass(eq=False)
class Use:
    """A place where a member of a family is used.

    Attributes:
        offset: The Transpose from the root to the member.
        rule: The user's rule; None where the member has to come as it is.
        index: Which input it is.
    """

    offset: Perm
    rule: Rule | None = None
    index: int = 0

    def wants(self, labels: Labels) -> Perm:
        """The order in which it takes the root."""
        if self.rule is None:
            return self.offset
        return after(self.offset, self.rule.input_perm(labels[self.rule], self.index))


Labels = MutableMapping[Rule, Label]


@dataclass(eq=False)
class Family:
    """A tensor and what Transposes make of it.

    Attributes:
        root: The tensor, as no Transpose gave it.
        dims: Its sizes; None where even the rank is unknown: then nothing is permuted.
        maker: The rule of the node that gives it, if that can permute it.
        index: Which output it is.
        constant: It is known, and can be stored in any order.
        uses: Where it is used.
    """

    root: onnx_ir.Value
    dims: Dims
    maker: Rule | None = None
    index: int = 0
    constant: bool = False
    uses: list[Use] = field(default_factory=list)

    def made(self, labels: Labels) -> Perm:
        """The order in which it is made."""
        if self.maker is None:
            return identity(len(self.dims))
        return self.maker.output_perm(labels[self.maker], self.index)

    def change(self, made: Perm, wanted: Perm) -> int:
        """What it costs to have it as ``wanted``."""
        if made == wanted:
            return 0
        if self.constant:
            return 1
        dims = [self.dims[axis] for axis in made]
        if reshape_target(dims, step(made, wanted)) is not None:
            return NODE
        return transpose_cost(self.dims)

    def cost(self, labels: Labels) -> int:
        """What its Transposes cost."""
        made = self.made(labels)
        return sum(self.change(made, want) for want in {use.wants(labels) for use in self.uses})


def transpose_cost(dims: Dims | None) -> int:
    """What a Transpose of a tensor of these sizes costs."""
    elements = 1
    for size in dims or ():
        elements *= size if isinstance(size, int) else 1 if size == BATCH else _FREE
    return TRANSPOSE + _ELEMENT * min(elements, 1 << 40)


def transpose_perm(node: onnx_ir.Node) -> Perm | None:
    """The permutation of a Transpose; None for any other node."""
    if node.op_type != "Transpose" or node.domain not in ("", "ai.onnx"):
        return None
    attribute = node.attributes.get("perm")
    if attribute is None:
        source = node.inputs[0]
        if source is None or source.shape is None:
            return None
        return tuple(reversed(range(len(source.shape))))
    return None if attribute.is_ref() else tuple(attribute.as_ints())
