"""Moves RESHAPEs behind what works element by element, where they meet others and vanish.

Given:   a = CONV_2D(..)  b = RESHAPE(a)  c = RELU(b)  d = RESHAPE(c)  e = CONV_2D(d, ..)
Result:  a = CONV_2D(..)  b = RELU(a)     c = RESHAPE(b)  d = RESHAPE(c)  ..
which becomes two convolutions, the first with a RELU of its own: networks of one spatial axis
stay images of one row throughout.
"""

from __future__ import annotations

from emitters.tflite.graph import Operator, Subgraph, Tensor, makers_of, uses_of

_ONE_INPUT = frozenset(
    {"ABS", "CAST", "COS", "DEQUANTIZE", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LEAKY_RELU",
     "LOG", "LOGISTIC", "NEG", "QUANTIZE", "RELU", "RELU6", "RELU_N1_TO_1", "RSQRT", "SIN", "SQRT",
     "SQUARE", "TANH"}
)  # fmt: skip
_TWO_INPUTS = frozenset({"ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "POW", "SUB"})
_RESHAPING = frozenset({"EXPAND_DIMS", "RESHAPE", "SQUEEZE"})
LARGEST_RANK = 4
"""Axes that all of these kernels take."""


def sink_reshapes(graph: Subgraph) -> bool:
    """Changes the graph in place, and says whether it did. A RESHAPE moves where nothing else takes
    its output; behind an operator of two inputs, where both are reshaped alike or one is a single
    number."""
    before = len(graph.operators)
    _cancel(graph)
    changed = len(graph.operators) != before
    makers, uses = makers_of(graph), uses_of(graph)
    outputs = set(graph.outputs)
    for operator in list(graph.operators):
        moved = _reshapes_before(operator, makers)
        if not moved or any(
            reshape.outputs[0] in outputs or uses[reshape.outputs[0]] != [operator]
            for reshape in moved
        ):
            continue
        _swap(graph, operator, moved)
        for changed_one in (operator, moved[0]):
            makers[changed_one.outputs[0]] = changed_one
        uses[operator.outputs[0]] = [moved[0]]
        changed = True
    return changed


def _cancel(graph: Subgraph) -> None:
    """An EXPAND_DIMS of a SQUEEZE of the same axis is what was there before."""
    makers, outputs = makers_of(graph), set(graph.outputs)
    instead: dict[Tensor, Tensor] = {}
    kept: list[Operator] = []
    for operator in graph.operators:
        operator.inputs = [
            instead.get(tensor, tensor) if tensor is not None else None
            for tensor in operator.inputs
        ]
        whole = _before_squeezed(operator, makers)
        if whole is None or operator.outputs[0] in outputs:
            kept.append(operator)
        else:
            instead[operator.outputs[0]] = whole
    graph.operators = kept


def _before_squeezed(operator: Operator, makers: dict[Tensor, Operator]) -> Tensor | None:
    """What an EXPAND_DIMS gives back; None where it undoes no SQUEEZE."""
    source = operator.inputs[0] if operator.op == "EXPAND_DIMS" else None
    maker = makers.get(source) if source is not None else None
    if maker is None or maker.op != "SQUEEZE":
        return None
    axis = operator.inputs[1]
    if axis is None or axis.data is None:
        return None
    same = [int(axis.data)] == [int(place) for place in maker.options["squeezeDims"]]
    return maker.inputs[0] if same else None


def _reshapes_before(operator: Operator, makers: dict[Tensor, Operator]) -> list[Operator]:
    """The RESHAPEs that make an operator's inputs, all from one shape to that of its output; none
    where one of the inputs is something else, but for single numbers, or is broadcast."""
    if operator.op not in _ONE_INPUT | _TWO_INPUTS:
        return []
    found: list[Operator] = []
    for tensor in dict.fromkeys(operator.inputs):
        if tensor is None:
            return []
        maker = makers.get(tensor)
        if maker is not None and maker.op in _RESHAPING and maker.inputs[0] is not None:
            found.append(maker)
        elif not tensor.is_constant or (tensor.rank > 0 and set(tensor.shape) != {1}):
            return []
    shapes = {maker.inputs[0].shape for maker in found if maker.inputs[0] is not None}
    ranks = [len(shape) for shape in shapes]
    numbers = [
        tensor.rank for tensor in operator.inputs if tensor is not None and tensor.is_constant
    ]
    if len(shapes) != 1 or ranks[0] > LARGEST_RANK or any(rank > ranks[0] for rank in numbers):
        return []
    after = operator.outputs[0].shape
    return found if all(maker.outputs[0].shape == after for maker in found) else []


def _swap(graph: Subgraph, operator: Operator, moved: list[Operator]) -> None:
    """Has the operator take what the RESHAPEs take, and the first of them come behind it."""
    first, result = moved[0], operator.outputs[0]
    sources = {reshape.outputs[0]: reshape.inputs[0] for reshape in moved}
    operator.inputs = [
        sources.get(tensor, tensor) if tensor is not None else None for tensor in operator.inputs
    ]
    source = first.inputs[0]
    assert source is not None
    inner = Tensor(f"{result.name}_flat", source.shape, result.dtype, None, result.quant)
    operator.outputs = [inner]
    first.inputs = [inner, *first.inputs[1:]]
    first.outputs = [result]
    for reshape in moved:
        graph.operators.remove(reshape)
    graph.operators.insert(graph.operators.index(operator) + 1, first)
