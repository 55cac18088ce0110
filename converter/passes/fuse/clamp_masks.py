"""Keeps masks well within what float16 holds, where that changes nothing but what is masked.

    Softmax(s + m),           m is 0 or -3.4e38     ->  Softmax(Where(m' < -7500, m', s))
    Softmax(Where(c, s, k)),  k is -3.4e38          ->  Softmax(Where(c, s, k'))

with -15000 in the place of every such number: within a quarter of float16's 65504, which is what
may be float16, and two of them still add up to less. Its exponential is 0 in float32 as before, as
long as a row's largest score is above -14896.

A row that is masked whole is what forbids to simply write another number: ``s + -3.4e38`` is
-3.4e38 whatever ``s``, and Softmax makes all of that row the same; ``s - 15000`` isn't. Hence Where
in the place of the sum. What it needs, else the mask stays, with the reason:

1. Between mask and Softmax elements are only moved about, and nothing else uses the scores.
2. The mask is made of constants, of products with one, and of Wheres and sums of these.
3. Its large numbers are from 1e9 on, where a sum drops the score (at 1e9 itself one below 32),
   or up to 1e6, where it keeps it (there a smaller number in the same sum is all it takes). -inf
   stays: float16 has it.
4. A mask that isn't known to be 0 or the large number alone (an integer input may be 2) is still
   added where it isn't large: Where(m' < -7500, m', s + m').
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import onnx_ir
from onnx_ir import DataType

from converter.ir.edit import is_op
from converter.ir.facts import MOVES
from converter.passes.fuse.patterns import (
    Array,
    Edit,
    FusePass,
    Rule,
    as_type_of,
    either_order,
    floats,
    only_used_by,
    scalar,
)

CLAMP = 15000.0
"""What stands for "nothing" in a clamped mask."""

LARGE = 65504.0 / 4
"""What values of float16 are kept below (:data:`converter.precision.fp16.choice.MARGIN`)."""

ABSORBS = 1e9
"""From here on float32's neighbours are 64 apart: a score added to it is lost."""

KEEPS = 1e6
"""Up to here they are at most 1/16 apart."""

_MOVES = MOVES - {"Split"}  # one output alone is followed


@dataclass(frozen=True)
class Mask:
    """What a mask is made of.

    Attributes:
        large: Magnitudes of its large numbers.
        plain: Whether it is known to be 0 or large everywhere.
        sums: How many masks were added up.
        nodes: Those that compute it.
        wrong: Why it can't be clamped.
    """

    large: frozenset[float]
    plain: bool
    sums: int = 1
    nodes: tuple[onnx_ir.Node, ...] = ()
    wrong: str = ""


def _large(array: Array) -> Array:
    return np.isfinite(array) & (np.abs(array) > LARGE)


def _clamped(array: Array) -> Array:
    """Every large number by one of size :data:`CLAMP` and its sign."""
    return np.where(_large(array), np.copysign(CLAMP, array), array)


def read_mask(value: onnx_ir.Value | None, depth: int = 20) -> Mask | None:
    """What ``value`` is made of; None where there is no large number in it."""
    array = floats(value)
    if array is not None:
        return _constant(array)
    node = value.producer() if value is not None else None
    if node is None or depth == 0:
        return None
    if is_op(node, *_MOVES):
        mask = read_mask(node.inputs[0], depth - 1)
        return mask if mask is None else replace(mask, nodes=(*mask.nodes, node))
    if is_op(node, "Where", "Add"):
        return _combined(node, depth)
    return _product(node)


def _constant(array: Array) -> Mask | None:
    large = array[_large(array)]
    if not large.size:
        return None
    plain = bool((_large(array) | (array == 0)).all())
    return Mask(frozenset(np.abs(large).tolist()), plain, wrong=_POSITIVE * bool((large > 0).any()))


def _combined(node: onnx_ir.Node, depth: int) -> Mask | None:
    """One or the other element by element, or the sum of both; one may be no mask."""
    sums = node.op_type == "Add"
    values = node.inputs if sums else node.inputs[1:]
    parts = [read_mask(item, depth - 1) for item in values]
    masks = [part for part in parts if part is not None]
    if not masks:
        return None
    rest = [item for item, part in zip(values, parts, strict=True) if part is None]
    zeros = all((array := floats(item)) is not None and not array.any() for item in rest)
    counts = [mask.sums for mask in masks]
    return Mask(
        frozenset().union(*(mask.large for mask in masks)),
        zeros and all(mask.plain for mask in masks),
        sum(counts) if sums else max(counts),
        (*(inner for mask in masks for inner in mask.nodes), node),
        next((mask.wrong for mask in masks if mask.wrong), ""),
    )


def _product(node: onnx_ir.Node) -> Mask | None:
    """``(1 - m) k``, or ``(m - 1) (-k)``: how much of a large number."""
    for source, other in either_order(node) if is_op(node, "Mul") else ():
        number = scalar(other)
        if number is None or not np.isfinite(number) or abs(number) <= LARGE:
            continue
        values = _values(source)
        signs = None if values is None else {value * np.sign(number) for value in values}
        plain = signs is not None and signs <= {0.0, -1.0}
        wrong = _POSITIVE if signs is not None and max(signs) > 0 else ""
        return Mask(frozenset({abs(number)}), plain, nodes=(node,), wrong=wrong)
    return None


def _values(value: onnx_ir.Value | None, depth: int = 20) -> set[float] | None:
    """All values that a tensor may have; None where they aren't known, or are many."""
    node = value.producer() if value is not None else None
    array = floats(value)
    if array is not None:
        return set(array.ravel().tolist()) if array.size <= 2 else None
    if node is None or depth == 0:
        return None
    if is_op(node, *_MOVES):
        return _values(node.inputs[0], depth - 1)
    if is_op(node, "Cast"):
        source = node.inputs[0]
        truths = source is not None and source.dtype == DataType.BOOL
        return {0.0, 1.0} if truths else None
    if is_op(node, "Sub"):
        parts = [_values(item, depth - 1) for item in node.inputs]
        if parts[0] is not None and parts[1] is not None and len(parts[0]) + len(parts[1]) <= 4:
            return {one - other for one in parts[0] for other in parts[1]}
    return None


@dataclass(frozen=True)
class Place:
    """Where a mask meets the scores.

    Attributes:
        node: The Add or Where.
        index: Which of its inputs is the mask.
        mask: What that is made of.
        between: The nodes from there to Softmax.
    """

    node: onnx_ir.Node
    index: int
    mask: Mask
    between: tuple[onnx_ir.Node, ...]

    @property
    def scores(self) -> onnx_ir.Value | None:
        return self.node.inputs[1 - self.index if self.node.op_type == "Add" else 3 - self.index]


def _meets(node: onnx_ir.Node | None) -> tuple[int, Mask] | None:
    """Which input of an Add or Where is a mask, and the mask."""
    if node is None or not is_op(node, "Add", "Where"):
        return None
    for index in (0, 1) if node.op_type == "Add" else (1, 2):
        mask = read_mask(node.inputs[index])
        if mask is not None:
            return index, mask
    return None


class BeforeSoftmax(Rule[Place]):
    name = "clamp-mask"
    roots = frozenset({"Softmax"})

    def pattern(self, node: onnx_ir.Node) -> Place | None:
        """A mask with a large number, in a sum or choice that Softmax sees."""
        between = [node]
        for _ in range(10):
            before = between[-1].inputs[0].producer() if between[-1].inputs[0] else None
            found = _meets(before)
            if before is not None and found is not None:
                return Place(before, *found, tuple(between))
            if before is None or not is_op(before, *_MOVES):
                return None
            between.append(before)
        return None

    def check(self, match: Place) -> str:
        """The conditions of the module's list."""
        mask, scores = match.mask, match.scores
        steps = [match.node, *reversed(match.between)]
        for node, following in pairwise(steps):
            if not only_used_by(node.outputs[0], [following]) or node.graph is not following.graph:
                return f"{node.outputs[0].name} is used elsewhere too, or an output"
        if mask.wrong or scores is None or scores.dtype != DataType.FLOAT:
            return mask.wrong or "the scores aren't float32"
        if len(mask.large) > 1:
            return f"it has several large numbers: {_listed(mask.large)}"
        if mask.sums > 2:
            return f"{mask.sums} masks are added up, which float16 doesn't hold"
        if KEEPS < min(mask.large) < ABSORBS:
            return f"a score added to {_listed(mask.large)} is neither lost nor kept"
        if match.node.op_type == "Where" and min(mask.large) < ABSORBS and mask.nodes:
            return "it is chosen, and no constant"
        further = _meets(scores.producer()) or read_mask(scores)
        return "the scores have another mask in them" if further else ""

    def rewrite(self, match: Place, edit: Edit) -> None:
        """The clamped mask, and Where in the place of a sum that loses the score."""
        node, value = match.node, match.node.inputs[match.index]
        assert value is not None
        mask = _clamp(value, edit)
        if node.op_type == "Where" or min(match.mask.large) < ABSORBS:
            node.replace_input_with(match.index, mask)
            edit.drop([value])
            return
        scores, hidden = match.scores, _hidden(value, mask, node, edit)
        assert scores is not None
        if not match.mask.plain:
            total = onnx_ir.node("Add", [scores, mask])
            scores = edit.insert(node, total, node.outputs[0])
        lowest = mask if match.mask.sums > 1 else _lowest(value, edit)
        edit.replace(node, onnx_ir.node("Where", [hidden, lowest, scores]))


_POSITIVE = "its large number is positive"


def _listed(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:.3g}" for number in sorted(numbers))


def _clamp(value: onnx_ir.Value, edit: Edit) -> onnx_ir.Value:
    """The mask with clamped constants: made once, beside the old one."""
    key = ("clamped", value)
    if key in edit.made:
        return edit.made[key]
    array, node = floats(value), value.producer()
    if array is not None:
        large = bool(_large(array).any())
        name = value.name or "mask"
        made = edit.constant(as_type_of(_clamped(array), value), name) if large else value
    elif node is not None and read_mask(value) is not None:
        parts = [item if item is None else _clamp(item, edit) for item in node.inputs]
        made = edit.insert(node, onnx_ir.node(node.op_type, parts, dict(node.attributes)), value)
    else:
        made = value
    edit.made[key] = made
    return made


def _hidden(
    value: onnx_ir.Value, mask: onnx_ir.Value, user: onnx_ir.Node, edit: Edit
) -> onnx_ir.Value:
    """Where the mask is large, as bools."""
    key = ("hidden", value)
    if key in edit.made:
        return edit.made[key]
    array, node = floats(mask), value.producer()
    if array is not None:
        made = edit.constant(array < -CLAMP / 2, f"{value.name}_hidden")
    else:
        limit = edit.constant(np.array(-CLAMP / 2, np.float32), f"{value.name}_limit")
        less = onnx_ir.node("Less", [mask, limit])
        made = edit.insert(node or user, less)
        made.type = onnx_ir.TensorType(DataType.BOOL)
        made.shape = value.shape.copy() if value.shape is not None else None
    edit.made[key] = made
    return made


def _lowest(value: onnx_ir.Value, edit: Edit) -> onnx_ir.Value:
    key = ("lowest", value)
    if key not in edit.made:
        edit.made[key] = edit.constant(np.array(-CLAMP, np.float32), f"{value.name}_lowest")
    return edit.made[key]


class ClampMasks(FusePass):
    """Applies the module's rule."""

    name = "clamp-masks"
    summary = "brings masks of -3.4e38 before Softmax within float16's range"
    must_shrink = False  # one node tells where a mask hides
    rules: ClassVar[Sequence[Rule[Any]]] = (BeforeSoftmax(),)
