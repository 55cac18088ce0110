"""Finds which symbols of a model are one size, whatever they are called.

Shape inference gives a size that it can't follow a name of its own, so that one free batch may have
several. What operators ask of their operands says more: a Reshape keeps the number of elements, a
MatMul's inner sizes are one, a shape that is computed is known by what it is computed from.

    Given:   x: [batch, steps, 8]     left = Reshape (x, [batch * steps, 2, 4]): [a, 2, 4]
             right = Reshape (x, [-1, 4, 2]): [b, 4, 2]
    Result:  a and b are both batch * steps, and called a

Only nodes of the main graph count, which always run. Of sizes that a node may stretch, those say
something that are one size or 1.
A size is a product: a number and symbols. That a Reshape's factors cancel takes that none is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import onnx_ir

from converter.ir.edit import all_nodes, constant, is_op
from converter.ir.facts import BROADCASTS, RECURRENT, RESHAPES
from converter.ir.inference import MADE_UP, infer

_ROUNDS = 8


@dataclass(frozen=True)
class Size:
    """A product of a number and symbols, in alphabetical order."""

    number: int = 1
    symbols: tuple[str, ...] = ()

    def times(self, other: Size) -> Size:
        """The product of two."""
        return Size(self.number * other.number, tuple(sorted(self.symbols + other.symbols)))


Sizes = list[Size | None]


class EqualSizes:
    """The equations between a model's sizes, solved as far as they can be.

    Args:
        model: Its values' shapes as inference has them; not changed.
    """

    def __init__(self, model: onnx_ir.Model) -> None:
        self._given = [
            str(dim.value)
            for value in model.graph.inputs
            for dim in value.shape or ()
            if not isinstance(dim, int) and dim.value
        ]
        self._known: dict[str, Size] = {}
        for _ in range(_ROUNDS):
            before = dict(self._known)
            for node in model.graph:
                for one, other in (*_equations(node), *self._stretched(node)):
                    self._equate(self.solved(one), self.solved(other))
            if self._known == before:
                break

    def solved(self, size: Size) -> Size:
        """A size by symbols that nothing more is known of."""
        found = Size(size.number)
        for symbol in size.symbols:
            known = self._known.get(symbol)
            found = found.times(Size(1, (symbol,)) if known is None else self.solved(known))
        return found

    def tied(self, model: onnx_ir.Model) -> Iterator[tuple[str, str]]:
        """Pairs of the inputs' symbols that nodes ask to be one size; of those that are stretched,
        neither is 1 for that."""
        for node in model.graph:
            for one, other in (*_equations(node), *_met(node)):
                names = self.solved(one).symbols + self.solved(other).symbols
                numbers = self.solved(one).number, self.solved(other).number
                if len(names) == 2 and len(set(names)) == 2 and numbers == (1, 1):
                    yield names[0], names[1]

    def _stretched(self, node: onnx_ir.Node) -> Iterator[tuple[Size, Size]]:
        """What a node gives of operands that it stretches: of one size and of ones, that size."""
        made = _shape(node.outputs[0]) or []
        shapes = [_shape(value) for value in node.inputs if value is not None]
        matrices = is_op(node, "MatMul") and all(shape and len(shape) > 1 for shape in shapes)
        if None in shapes or not (matrices or is_op(node, *BROADCASTS)):
            return
        for axis in range(3 if matrices else 1, len(made) + 1):
            there = [shape[-axis] for shape in shapes if shape is not None and len(shape) >= axis]
            sizes = {None if size is None else self.solved(size) for size in there} - {Size()}
            one, result = sizes.pop() if len(sizes) == 1 else None, made[-axis]
            if one is not None and result is not None:
                yield result, one

    def _equate(self, one: Size, other: Size) -> None:
        left, right = list(one.symbols), list(other.symbols)
        for symbol in one.symbols:
            if symbol in right:
                left.remove(symbol)
                right.remove(symbol)
        for mine, number, theirs, factor in (
            (left, one.number, right, other.number),
            (right, other.number, left, one.number),
        ):
            if len(mine) != 1 or number < 1 or factor < 1 or factor % number:
                continue
            if mine[0] in self._given:  # it stays what its user calls it
                continue
            self._known[mine[0]] = Size(factor // number, tuple(theirs))
            return

    def names(self, symbols: Sequence[str]) -> dict[str, str | int]:
        """For each symbol that has another name, or is a number: that."""
        first: dict[Size, str] = {Size(1, (name,)): name for name in self._given}
        found: dict[str, str | int] = {}
        for symbol in symbols:
            size = self.solved(Size(1, (symbol,)))
            if symbol in self._given:
                continue
            name = size.number if not size.symbols else first.setdefault(size, symbol)
            if name != symbol:
                found[symbol] = name
        return found


def name_unknown(model: onnx_ir.Model) -> None:
    """Names dimensions; shapes of values stay as they are otherwise."""
    values = [value for node in all_nodes(model) for value in node.outputs]
    if not any(map(_has_unnamed, values)):
        return
    taken = {dim.value for v in values for dim in v.shape or () if not isinstance(dim, int)}
    fresh: dict[str, str] = {}  # inference makes up names that an earlier one has made up, too
    for value, known in infer(model, made_up=True).items():
        own, named = value.shape, known.shape
        if own is None or named is None or len(own) != len(named):
            continue
        if _has_unnamed(value):
            pairs = zip(own, named, strict=True)
            value.shape = onnx_ir.Shape([_known_of(old, new, taken, fresh) for old, new in pairs])


def _has_unnamed(value: onnx_ir.Value) -> bool:
    return value.shape is not None and any(
        not isinstance(dim, int) and dim.value is None for dim in value.shape
    )


def _known_of(
    old: int | onnx_ir.SymbolicDim,
    new: int | onnx_ir.SymbolicDim,
    taken: set[str | None],
    fresh: dict[str, str],
) -> int | str | onnx_ir.SymbolicDim | None:
    """The dimension, where it has no name that of inference; ``fresh`` has another for those that
    it made up and that are ``taken``."""
    if isinstance(old, int) or old.value is not None:
        return old
    name = None if isinstance(new, int) else new.value
    if name is None or not name.startswith(MADE_UP) or name not in taken:
        return new
    if name not in fresh:
        numbers = (f"{name}_{number}" for number in count(1))
        fresh[name] = next(other for other in numbers if other not in taken)
    return fresh[name]


def name_equal_sizes(model: onnx_ir.Model) -> None:
    """Gives sizes that are equal one name, in every shape but the inputs'; in place."""
    values = [value for node in all_nodes(model) for value in node.outputs if value.shape]
    symbols = dict.fromkeys(
        dim.value
        for value in values
        for dim in value.shape or ()
        if not isinstance(dim, int) and dim.value
    )
    names = EqualSizes(model).names(list(symbols))
    for value in values if names else ():
        shape = list(value.shape or ())
        value.shape = onnx_ir.Shape(
            [dim if isinstance(dim, int) else names.get(dim.value or "", dim) for dim in shape]
        )


# -- what nodes ask for ------------------------------------------------------------------


def _equations(node: onnx_ir.Node) -> Iterator[tuple[Size, Size]]:
    shapes = [_shape(value) for value in node.inputs]
    made = _shape(node.outputs[0])
    if is_op(node, *RESHAPES):
        yield from _pairs([_product(shapes[0])], [_product(made)])
    if (is_op(node, "Reshape", "ConstantOfShape") or _is_sized(node)) and made is not None:
        asked = computed(node.inputs[-1])
        if asked is not None and len(asked) == len(made):
            sure = [size if size is not None and size.number > 0 else None for size in asked]
            yield from _pairs(sure, made)
    elif is_op(node, "Expand"):
        yield from _expanded(shapes[0], computed(node.inputs[1]), made)
    elif is_op(node, "Concat"):
        axis, ranked = node.attributes["axis"].as_int(), [s for s in [made, *shapes] if s]
        for shape in ranked[1:]:
            rest = [i for i in range(len(shape)) if i != axis % len(shape)]
            yield from _pairs([ranked[0][i] for i in rest], [shape[i] for i in rest])
    elif is_op(node, "MatMul") and all(shape is not None and len(shape) > 1 for shape in shapes):
        yield from _pairs([(shapes[0] or [])[-1]], [(shapes[1] or [])[-2]])
    elif is_op(node, *RECURRENT):
        for state in shapes[5:7]:
            if shapes[0] is not None and state is not None and _time_first(node):
                yield from _pairs([shapes[0][1]], [state[1]])


def _expanded(
    given: Sizes | None, asked: Sizes | None, made: Sizes | None
) -> Iterator[tuple[Size, Size]]:
    """Of an Expand: where its operand's or the asked size is 1, the result has the other."""
    if given is None or asked is None or made is None:
        return
    ones: Sizes = [Size()] * len(made)
    one, other = ((ones + sizes)[-len(made) :] for sizes in (given, asked))
    for left, right, size in zip(one, other, made, strict=True):
        if left == Size():
            yield from _pairs([right], [size])
        elif right == Size():
            yield from _pairs([left], [size])


def _is_sized(node: onnx_ir.Node) -> bool:
    """Whether it is a Resize whose last input says all sizes of its result."""
    plain = not {"axes", "keep_aspect_ratio_policy"} & set(node.attributes)
    return is_op(node, "Resize") and len(node.inputs) == 4 and plain


def _met(node: onnx_ir.Node) -> Iterator[tuple[Size, Size]]:
    """Sizes that are stretched to each other."""
    shapes = [shape for value in node.inputs if (shape := _shape(value))]
    matrices = is_op(node, "MatMul")
    if matrices or is_op(node, *BROADCASTS):
        for axis in range(3 if matrices else 1, max(map(len, shapes), default=0) + 1):
            there = [shape[-axis] for shape in shapes if len(shape) >= axis]
            yield from _pairs(there[:-1], there[1:])


def _time_first(node: onnx_ir.Node) -> bool:
    return "layout" not in node.attributes or node.attributes["layout"].as_int() == 0


def _pairs(one: Sizes, other: Sizes) -> Iterator[tuple[Size, Size]]:
    for a, b in zip(one, other, strict=True):
        if a is not None and b is not None and a != b:
            yield a, b


def _shape(value: onnx_ir.Value | None) -> Sizes | None:
    if value is None or value.shape is None:
        return None
    return [_size(dim) for dim in value.shape]


def _size(dim: int | onnx_ir.SymbolicDim) -> Size | None:
    if isinstance(dim, int):
        return Size(dim)
    return Size(1, (dim.value,)) if dim.value else None


def _product(sizes: Sizes | None) -> Size | None:
    found: Size | None = Size()
    for size in sizes if sizes is not None else [None]:
        found = found.times(size) if found is not None and size is not None else None
    return found if found is None or found.number > 0 else None


def computed(value: onnx_ir.Value | None) -> Sizes | None:
    """What a vector (or scalar) of sizes holds, as far as it is known; None where it isn't known
    how many, or that it is one."""
    array = constant(value)
    if array is not None:
        whole = array.dtype.kind in "iu" and array.ndim <= 1
        return [Size(int(number)) for number in array.ravel()] if whole else None
    maker = value.producer() if value is not None else None
    if value is None or maker is None:
        return None
    if is_op(maker, "Shape"):
        start, end = (maker.attributes.get(name) for name in ("start", "end"))
        sizes = _shape(maker.inputs[0])
        first, last = (None if item is None else item.as_int() for item in (start, end))
        return None if sizes is None else sizes[first:last]
    if value.shape is None or len(value.shape) > 1:
        return None
    parts = [computed(part) for part in maker.inputs]
    if is_op(maker, "Concat"):
        return None if None in parts else [size for part in parts for size in part or ()]
    if is_op(maker, "Cast", "Identity", *RESHAPES):
        return parts[0]
    if is_op(maker, "Mul") and parts[0] is not None and parts[1] is not None:
        return _multiplied(parts[0], parts[1])
    if is_op(maker, "ReduceProd") and len(parts) == 1:
        return [_product(parts[0])]
    if is_op(maker, "Gather", "Slice"):
        return _picked(maker, parts[0])
    return None


def _multiplied(one: Sizes, other: Sizes) -> Sizes | None:
    count = max(len(one), len(other))
    if not {len(one), len(other)} <= {1, count}:
        return None
    wide = [item * count if len(item) == 1 else item for item in (one, other)]
    return [_product([a, b]) for a, b in zip(*wide, strict=True)]


def _picked(node: onnx_ir.Node, sizes: Sizes | None) -> Sizes | None:
    settings = [constant(value) for value in node.inputs[1:]]
    if sizes is None or any(item is None for item in settings):
        return None
    numbers = [[int(number) for number in item.ravel()] for item in settings if item is not None]
    if is_op(node, "Gather"):
        inside = all(-len(sizes) <= place < len(sizes) for place in numbers[0])
        return [sizes[place] for place in numbers[0]] if inside else None
    if any(len(item) != 1 for item in numbers):
        return None
    start, end, step = numbers[0][0], numbers[1][0], numbers[3][0] if len(numbers) > 3 else 1
    return sizes[start:end:step] if step > 0 else None
