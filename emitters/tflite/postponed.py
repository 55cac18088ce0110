"""Has LiteRT prepare a graph within the graph when it runs, where it may not fit the sizes before.

LiteRT prepares both graphs of an IF, and the body of a WHILE that no round is run of, for whatever
sizes come in. An operator that isn't meant for these ends the model then ("2560 != 1"):

    Given:   y = If (size of x == 1) <RESHAPE (x, [1]), NEG (x)>
    Result:  y = If (size of x == 1) <RANGE (0, z, 1); RESHAPE (x, [1]), NEG (x)>

``z`` is 0, computed from a value. How much a RANGE up to it gives isn't known while the graph is
prepared, and LiteRT leaves all that follows until then. It prepares that in each run, so graphs
whose operators fit at any sizes stay as they are.

The main graph is prepared for the sizes that the file stores, unless its inputs are resized before;
Android's interpreter does it when it is made. So where its operators don't fit at any sizes, these
are the samples' (``sizes_to_store``): a kernel of 5 at a length of 1 "overflows".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from emitters.tflite import build
from emitters.tflite.context import Context, Program
from emitters.tflite.graph import DataType, Operator, Shape, Subgraph, Tensor, makers_of

Makers = Mapping[Tensor, Operator]

_COMPARED = {
    DataType.BOOL: "NOT_EQUAL", DataType.FLOAT: "LESS", DataType.INT32: "LESS",
    DataType.INT64: "LESS",
}  # fmt: skip
"""How a value is compared with itself, with no as the answer."""


def postpone(graph: Subgraph, program: Program) -> None:
    """Changes a graph that isn't the main one, in place."""
    given = [t for t in graph.inputs if t.dtype in _COMPARED and t.quant is None]
    if given and not _all_fit(graph):
        gate = Context(program, graph.name)
        gate.node = f"{graph.name}_when_it_runs"
        limits = [gate.constant(np.asarray(number, np.int32)) for number in (0, 1)]
        end = _zero(gate, min(given, key=_cost))
        gate.emit("RANGE", [limits[0], end, limits[1]], (f"{gate.node}?",))
        graph.operators[:0] = gate.graph.operators


def sizes_to_store(graph: Subgraph, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """What the file stores for the main graph's free dimensions, of the samples' ``sizes``; nothing
    where 1 will do."""
    return {} if _all_fit(graph) else sizes


def _all_fit(graph: Subgraph) -> bool:
    makers = makers_of(graph)
    return all(_fits(operator, makers) for operator in graph.operators)


def _cost(tensor: Tensor) -> float:
    return float("inf") if tensor.size is None else tensor.size


def _zero(context: Context, x: Tensor) -> Tensor:
    """0 as int32 of no axes, of whatever ``x`` holds."""
    found = build.binary(context, _COMPARED[x.dtype], x, x, DataType.BOOL)
    if x.rank:
        axes = context.integers(range(x.rank))
        found = context.emit("REDUCE_ANY", [found, axes], (), options={"keepDims": False})
    return build.cast(context, found, DataType.INT32)


# -- what fits at any sizes ----------------------------------------------------------------


def _fits(operator: Operator, makers: Makers) -> bool:
    """Whether an operator takes its inputs at any sizes of their free dimensions."""
    rule = _RULES.get(operator.op)
    return rule is None or rule(operator, makers)


def _shapes(operator: Operator) -> list[Shape]:
    return [tensor.shape for tensor in operator.inputs if tensor is not None]


def _stretched(operator: Operator, makers: Makers) -> bool:
    return fit_together(_shapes(operator))


def _expanded(operator: Operator, makers: Makers) -> bool:
    return fit_together([_shapes(operator)[0], operator.outputs[0].shape])


def fit_together(shapes: Sequence[Shape]) -> bool:
    """Whether sizes on one axis, counted from the last, are one or 1."""
    longest = max(map(len, shapes))
    axes = ({s[-at] for s in shapes if len(s) >= at} - {1} for at in range(1, longest + 1))
    return all(len(sizes) < 2 for sizes in axes)


def _joined(operator: Operator, makers: Makers) -> bool:
    axis = operator.options["axis"]
    rest = ((*shape[:axis], *shape[axis + 1 :]) for shape in _shapes(operator))
    return len(set(rest)) == 1


def _multiplied(operator: Operator, makers: Makers) -> bool:
    a, b = _shapes(operator)[:2]
    turned = [operator.options.get(name, False) for name in ("adjX", "adjY")]
    inner = a[-2 if turned[0] else -1], b[-1 if turned[1] else -2]
    return inner[0] == inner[1] and fit_together([(1, *a[:-2]), (1, *b[:-2])])


def _linear(operator: Operator, makers: Makers) -> bool:
    x, weights = _shapes(operator)[:2]
    return x[-1:] == weights[1:]


def _split(operator: Operator, makers: Makers) -> bool:
    """Of a number of sizes, along an axis that is known."""
    place = 0 if operator.op == "SPLIT" else 2
    axis, x = operator.inputs[place], operator.inputs[1 if operator.op == "SPLIT" else 0]
    assert axis is not None and x is not None
    return axis.data is not None and isinstance(x.shape[int(axis.data.item())], int)


def _reshaped(operator: Operator, makers: Makers) -> bool:
    x, shape = operator.inputs[:2]
    assert x is not None and shape is not None
    parts = [shape, *(makers[shape].inputs if shape in makers else ())]
    stretches = any(p is not None and p.data is not None and -1 in p.data for p in parts)
    return keeps_count(x.shape, operator.outputs[0].shape, stretches=stretches)


def keeps_count(one: Shape, other: Shape, *, stretches: bool) -> bool:
    """Whether a tensor of one shape has as many elements as of the other at all sizes.

    Args:
        one: The shape before.
        other: The shape after.
        stretches: Whether a size that only ``other`` has is what is left.
    """
    numbers = [prod(dim for dim in shape if isinstance(dim, int)) for shape in (one, other)]
    before, after = (Counter(d for d in shape if isinstance(d, str)) for shape in (one, other))
    new, gone = (after - before).total(), (before - after).total()
    if new == 1 and stretches:
        return numbers[1] > 0 and numbers[0] % numbers[1] == 0
    return not new and not gone and numbers[0] == numbers[1]


def _windowed(operator: Operator, makers: Makers) -> bool:
    """Padded to what comes in (SAME), or of sizes that are known."""
    known = all(isinstance(size, int) for size in _shapes(operator)[0][1:-1])
    return known or operator.options.get("padding") == 0


_STRETCHED = ("ADD", "BITWISE_XOR", "DIV", "EQUAL", "FLOOR_DIV", "FLOOR_MOD", "GREATER",
    "GREATER_EQUAL", "LESS", "LESS_EQUAL", "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "MUL",
    "NOT_EQUAL", "POW", "RIGHT_SHIFT", "SELECT_V2", "SQUARED_DIFFERENCE", "SUB")  # fmt: skip
_WINDOWED = ("AVERAGE_POOL_2D", "CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D",
    "SPACE_TO_DEPTH")  # fmt: skip

_RULES: dict[str, Callable[[Operator, Makers], bool]] = {
    **dict.fromkeys(_STRETCHED, _stretched),
    **dict.fromkeys(_WINDOWED, _windowed),
    "BATCH_MATMUL": _multiplied,
    "BROADCAST_TO": _expanded,
    "CONCATENATION": _joined,
    "FULLY_CONNECTED": _linear,
    "RESHAPE": _reshaped,
    "SPLIT": _split,
    "SPLIT_V": _split,
}
"""By operator; others take what they get."""
