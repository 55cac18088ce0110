"""What exporters write around attention that nothing needs where nothing is masked.

scaled_dot_product_attention, in ONNX: the keys are transposed with their heads merged, a
mask is added whether there is one or not, and NaN becomes 0, for rows in which all is masked.

1. Softmax of x + m, where each element of m is the same finite number: Softmax of x.
2. Where(IsNaN(s), c, s), where s is a Softmax of rows that each hold a finite number: s. Products
   count as finite: where they overflow the source gives NaN as well. A constant that is added, a
   causal mask, may hold minus infinity, but in each row a finite number too.
3. Reshape that merges the axes before the last two, a Transpose of those two, and a Reshape that
   has the others apart again: one Transpose.
4. 0 in the place of rows that see nothing, where each is known to see something (``seen.py``).

Masks that hang on inputs, and constants in which whole rows are masked, stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir
from onnx_ir.passes import PassResult

from converter.ir.edit import (
    all_nodes,
    attribute_int,
    attribute_ints,
    count_of,
    is_op,
    static_shape,
)
from converter.ir.equal_sizes import name_equal_sizes, name_unknown
from converter.ir.facts import ARITHMETIC, MATRIX_PRODUCTS, RESHAPES
from converter.passes.fuse.patterns import Edit, FusePass, Rule, producer
from converter.passes.fuse.seen import SeenRows, small_array

_SPREADS = RESHAPES | {"Expand", "Identity", "Tile", "Transpose"}
"""Operators whose result holds elements of their first input and no others."""


def uniform(value: onnx_ir.Value | None, depth: int = 0) -> np.generic | None:
    """The one number, or boolean, that each element of a value is, whatever the model is fed; None
    where that isn't known. (NaN is no number.)"""
    array = small_array(value)
    if array is not None:
        first = array.reshape(-1)[0]
        return first if bool((array == first).all()) else None
    node = value.producer() if value is not None else None
    if node is None or depth > 10:
        return None
    if is_op(node, *_SPREADS):
        return uniform(node.inputs[0], depth + 1)
    if is_op(node, "Where"):
        chosen = uniform(node.inputs[0], depth + 1)
        return None if chosen is None else uniform(node.inputs[1 if chosen else 2], depth + 1)
    return None


def _finite(number: np.generic | None) -> bool:
    return number is not None and bool(np.isfinite(np.asarray(number, np.float64)))


@dataclass(frozen=True)
class Masked:
    """A Softmax, and what is added to what it takes."""

    softmax: onnx_ir.Node
    data: onnx_ir.Value
    mask: onnx_ir.Value


class UnmaskedSoftmax(Rule[Masked]):
    """Case 1."""

    name = "softmax-of-unmasked"
    roots = frozenset({"Softmax"})

    def pattern(self, node: onnx_ir.Node) -> Masked | None:
        """A sum with something uniform in it."""
        add = producer(node.inputs[0], "Add")
        one, other = add.inputs if add is not None else (None, None)
        if one is None or other is None:
            return None
        if uniform(other) is not None:
            return Masked(node, one, other)
        return Masked(node, other, one) if uniform(one) is not None else None

    def check(self, match: Masked) -> str:
        """Whether the mask is finite and makes the data no larger."""
        if not _finite(number := uniform(match.mask)):
            return f"the added number is {number}"
        shape, whole = static_shape(match.data), static_shape(match.softmax.inputs[0])
        if shape is None or shape != whole or None in shape:
            return f"the sum of shape {whole} isn't known to be as large as {match.data.name}"
        return ""

    def rewrite(self, match: Masked, edit: Edit) -> None:
        """The Softmax of the data."""
        added = match.softmax.inputs[0]
        match.softmax.replace_input_with(0, match.data)
        edit.drop([value for value in [added] if value is not None])


@dataclass(frozen=True)
class Guarded:
    """A Where that replaces NaN in a Softmax."""

    where: onnx_ir.Node
    softmax: onnx_ir.Node


class GuardedSoftmax(Rule[Guarded]):
    """Case 2."""

    name = "softmax-without-nan"
    roots = frozenset({"Where"})

    def pattern(self, node: onnx_ir.Node) -> Guarded | None:
        """A Where on IsNaN of what it takes itself."""
        test = producer(node.inputs[0], "IsNaN")
        softmax = producer(node.inputs[2], "Softmax")
        if test is None or softmax is None or test.inputs[0] is not node.inputs[2]:
            return None
        return Guarded(node, softmax)

    def check(self, match: Guarded) -> str:
        """Whether no row can be all minus infinity, and the Where makes nothing larger."""
        if static_shape(match.where.outputs[0]) != static_shape(match.softmax.outputs[0]):
            return "the result may be larger than the Softmax's"
        data = match.softmax.inputs[0]
        finite = _rows_are_finite(data) or _masked_in_part(data, match.softmax)
        return "" if finite else "a row may be masked wholly"

    def rewrite(self, match: Guarded, edit: Edit) -> None:
        """The Softmax alone."""
        edit.bypass(match.where, match.softmax.outputs[0])


def _rows_are_finite(value: onnx_ir.Value | None, depth: int = 0) -> bool:
    """Whether each element is finite, unless a product overflows."""
    array = small_array(value)
    if array is not None:
        return array.dtype.kind in "fiu" and bool(np.isfinite(array).all())
    node = value.producer() if value is not None else None
    if node is None or depth > 10:
        return False
    if is_op(node, *MATRIX_PRODUCTS):
        return True
    if is_op(node, *(_SPREADS | {"Slice"})):
        return _rows_are_finite(node.inputs[0], depth + 1)
    if is_op(node, *(ARITHMETIC - {"Div"})):
        return all(_rows_are_finite(item, depth + 1) for item in node.inputs)
    if is_op(node, "Div"):
        divisor = uniform(node.inputs[1])
        return bool(divisor) and _finite(divisor) and _rows_are_finite(node.inputs[0], depth + 1)
    return False


def _masked_in_part(value: onnx_ir.Value | None, softmax: onnx_ir.Node) -> bool:
    """Whether a Softmax takes finite data, to which a constant is added that has a finite number in
    each of its rows, and else minus infinity."""
    add, shape = producer(value, "Add"), static_shape(value)
    axis = attribute_int(softmax, "axis", -1)
    if add is None or shape is None or axis is None:
        return False
    from_end = axis if axis < 0 else axis - len(shape)
    for data, mask in (add.inputs, add.inputs[::-1]):
        array = small_array(mask)
        if array is None or array.dtype.kind != "f" or not _rows_are_finite(data):
            continue
        array = array.reshape([1] * (len(shape) - array.ndim) + list(array.shape))
        return bool(np.isfinite(array).any(axis=from_end).all() and (array < np.inf).all())
    return False


@dataclass(frozen=True)
class Merged:
    """A Transpose between two Reshapes."""

    merge: onnx_ir.Node
    transpose: onnx_ir.Node
    split: onnx_ir.Node


class MergedTranspose(Rule[Merged]):
    """Case 3."""

    name = "transpose-of-merged"
    roots = frozenset({"Reshape"})

    def pattern(self, node: onnx_ir.Node) -> Merged | None:
        """Of three axes, the last two are transposed."""
        transpose = producer(node.inputs[0], "Transpose")
        if transpose is None or attribute_ints(transpose, "perm") != [0, 2, 1]:
            return None
        merge = producer(transpose.inputs[0], "Reshape")
        return Merged(merge, transpose, node) if merge is not None else None

    def check(self, match: Merged) -> str:
        """Whether the axes before the last two are the same on both sides."""
        before, inside, after = (
            static_shape(value)
            for value in (match.merge.inputs[0], match.transpose.inputs[0], match.split.outputs[0])
        )
        if before is None or inside is None or after is None or len(before) != len(after):
            return "its shapes aren't known, or have other numbers of axes"
        last = before[-2:]
        if last != inside[-2:] or last[::-1] != after[-2:] or not all(
            isinstance(size, int) and size > 0 for size in last
        ):  # fmt: skip
            return (
                f"the last two axes of {before}, {inside} and {after} aren't known to be the same"
            )
        unlike = [a for a, b in zip(before[:-2], after[:-2], strict=True) if a != b or a is None]
        # One size that isn't known follows from the others, where none of these is 0.
        if len(unlike) > 1 or (unlike and 0 in before) or any(isinstance(a, int) for a in unlike):
            return f"the first axes of {before} and {after} aren't known to be the same"
        return ""

    def rewrite(self, match: Merged, edit: Edit) -> None:
        """One Transpose."""
        rank = len(static_shape(match.split.outputs[0]) or [])
        perm = [*range(rank - 2), rank - 1, rank - 2]
        source = match.merge.inputs[0]
        edit.replace(match.split, onnx_ir.node("Transpose", [source], {"perm": perm}))


class FuseAttention(FusePass):
    """Applies the module's rules."""

    name = "fuse-attention"
    summary = "attention that masks nothing has no mask, and no guard against NaN"
    rules: ClassVar[Sequence[Rule[Any]]] = (
        UnmaskedSoftmax(),
        GuardedSoftmax(),
        SeenRows(),
        MergedTranspose(),
    )

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Applies the rules while sizes that are equal have one name, made up where they have
        none; afterwards values have the shapes that they had."""
        if not count_of(model, "Softmax"):
            return PassResult(model, False)
        shapes = {value: value.shape for value in _values(model)}
        names = {dim for shape in shapes.values() for dim in _symbols(shape)}
        name_unknown(model)
        name_equal_sizes(model)
        result = super().call(model)
        for value in _values(model):
            if value in shapes:
                value.shape = shapes[value]
            elif set(_symbols(value.shape)) - names:
                sizes = [dim if dim in names or isinstance(dim, int) else None
                         for dim in static_shape(value) or []]  # fmt: skip
                value.shape = onnx_ir.Shape(sizes)
        return result


def _values(model: onnx_ir.Model) -> list[onnx_ir.Value]:
    return [value for node in all_nodes(model) for value in node.outputs]


def _symbols(shape: onnx_ir.Shape | None) -> list[str]:
    return [dim.value for dim in shape or () if not isinstance(dim, int) and dim.value]
