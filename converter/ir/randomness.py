"""Random numbers in a model: which of them its outputs hang on, and inputs in their place.

Whoever draws numbers gives others in each run, and in each runtime: no output that hangs on them
can be compared. A ``seed`` changes nothing of that: a session draws on where its last run ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import onnx_ir

from converter.errors import Unsupported, UnsupportedError
from converter.ir.edit import add_constant, constant, constant_tensor, is_op, static_shape
from converter.ir.facts import MOVES
from converter.ir.inference import Inferred, infer

NORMAL, UNIFORM = "standard normal noise", "uniform noise in 0..1"
"""What an input's ``meaning`` is that takes the place of a random node."""

_DRAWS = {
    "RandomNormal": NORMAL,
    "RandomNormalLike": NORMAL,
    "RandomUniform": UNIFORM,
    "RandomUniformLike": UNIFORM,
    "Bernoulli": UNIFORM,
    "Dropout": UNIFORM,
    "Multinomial": "",
}
Dims = list[int | str | None]

_HAS_CONSTANT_OF_SHAPE = 9


def fold_random(model: onnx_ir.Model) -> bool:
    """Puts constants in the place of random numbers that are one number, or that only ever meet a
    factor of 0; in place.

    ONNX Runtime ends the process on normal numbers whose scale is 0.

    Returns:
        Whether there were any.
    """
    found = [(node, _always(node)) for node in _needed(model) if draws(node)]
    found = [(node, number) for node, number in found if number is not None]
    if not found or model.opset_imports.get("", 0) < _HAS_CONSTANT_OF_SHAPE:
        return False
    inferred = infer(model)
    for node, number in found:
        _fill(node, number or 0.0, _dtype(node, inferred))
    return True


def require_no_random(model: onnx_ir.Model) -> None:
    """Refuses a model with an output that hangs on random numbers.

    Raises:
        UnsupportedError: All nodes that draw them are named.
    """
    left = [node for node in _needed(model) if draws(node)]
    if left:
        count = "1 node draws" if len(left) == 1 else f"{len(left)} nodes draw"
        why = "its numbers are drawn anew in each run, a seed or not"
        raise UnsupportedError(
            f"{count} random numbers that outputs depend on: each run gives other "
            "outputs, so nothing can be compared",
            [_refused(node, why) for node in left],
        )


def random_to_inputs(model: onnx_ir.Model) -> dict[onnx_ir.Value, str]:
    """Gives the model an input for each node that draws random numbers, in place.

    An input holds what is drawn before it is scaled: of a RandomNormal standard normal numbers, of
    all others numbers from 0 up to 1. It is called as the node is, and has the shape of what the
    node gives; its sizes have to be numbers or those of other inputs.

    Returns:
        The new inputs, in order, and what they hold.

    Raises:
        UnsupportedError: A node can't be said so; all of them.
    """
    inferred = infer(model)
    own = {dim for value in model.graph.inputs for dim in static_shape(value) or ()}
    made: dict[onnx_ir.Value, str] = {}
    refused = []
    for node in list(_needed(model)):
        if not draws(node) or _always(node) is not None:
            continue
        why, shape = _why_not(node, model), _shape(node, inferred)
        if not why and (
            shape is None or any(not isinstance(d, int) and d not in own for d in shape)
        ):
            why = "the shape of the drawn numbers doesn't follow from the inputs' shapes"
        if why or shape is None:
            refused.append(_refused(node, why, ""))
        else:
            value = _noise(node, shape, _drawn_as(node, inferred), model)
            _REWRITES.get(node.op_type, _scaled)(_Maker(node), value)
            made[value] = _DRAWS[node.op_type]
    if refused:
        raise UnsupportedError(
            f"--random-as-input: {len(refused)} of the nodes can't take their numbers from "
            "an input",
            refused,
        )
    return made


def _refused(node: onnx_ir.Node, reason: str, remedy: str | None = None) -> Unsupported:
    if remedy is None:
        remedy = (
            "of an ONNX file, --random-as-input makes it an input; else draw outside of the model"
        )
    return Unsupported(node.name or node.outputs[0].name or "", node.op_type, reason, remedy)


# -- which nodes -------------------------------------------------------------------------


def draws(node: onnx_ir.Node) -> bool:
    """Whether a node gives other numbers in each run."""
    if not is_op(node, *_DRAWS):
        return False
    if node.op_type != "Dropout":
        return True
    training = node.inputs[2] if len(node.inputs) > 2 else None
    known = constant(training)
    return training is not None and (known is None or bool(known.any()))


def _needed(model: onnx_ir.Model) -> Iterator[onnx_ir.Node]:
    """The nodes that outputs hang on, in the order of the graph, those in bodies too."""
    waiting = [value.producer() for value in model.graph.outputs]
    found: set[onnx_ir.Node] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in found:
            continue
        found.add(node)
        inner = [
            each
            for body in _bodies(node)
            for each in onnx_ir.traversal.RecursiveGraphIterator(body)
        ]
        waiting += inner
        waiting += [value.producer() for value in node.inputs if value is not None]
    order = list(onnx_ir.traversal.RecursiveGraphIterator(model.graph))
    yield from (node for node in order if node in found)


def _bodies(node: onnx_ir.Node) -> Iterator[onnx_ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == onnx_ir.AttributeType.GRAPH and not attribute.is_ref():
            yield attribute.as_graph()


# -- numbers that are none ---------------------------------------------------------------


def _always(node: onnx_ir.Node) -> float | None:
    """The one number that may stand for all that a node draws; None where there is none."""
    if node.op_type.startswith("RandomNormal") and _number(node, "scale", 1.0) == 0:
        return _number(node, "mean", 0.0)
    low, high = _number(node, "low", 0.0), _number(node, "high", 1.0)
    if node.op_type.startswith("RandomUniform") and low == high:
        return low
    like = node.op_type in ("Bernoulli", "Dropout") or node.op_type.startswith("Random")
    return 0.0 if like and _vanishes(node.outputs[0]) and not _masks(node) else None


def _masks(node: onnx_ir.Node) -> bool:
    return len(node.outputs) > 1 and bool(node.outputs[1].uses())


def _vanishes(value: onnx_ir.Value) -> bool:
    """Whether whatever takes it, moved or multiplied, is in the end multiplied by 0."""
    if value.is_graph_output():
        return False
    for node, index in value.uses():
        if is_op(node, "Mul") and _is_zero(node.inputs[1 - index]):
            continue
        carried = is_op(node, "Mul") or (is_op(node, "Cast", "Div", *MOVES) and index == 0)
        if not carried or not all(map(_vanishes, node.outputs)):
            return False
    return True


def _is_zero(value: onnx_ir.Value | None) -> bool:
    tensor = constant_tensor(value)
    return tensor is not None and tensor.size > 0 and not tensor.numpy().any()


def _fill(node: onnx_ir.Node, number: float, dtype: onnx_ir.DataType) -> None:
    make = _Maker(node)
    if "shape" in node.attributes:
        shape = make.constant(np.asarray(node.attributes["shape"].as_ints(), np.int64))
    else:
        shape = make.op("Shape", node.inputs[0])
    tensor = onnx_ir.tensor(np.asarray([number], dtype.numpy()))
    make.become(make.op("ConstantOfShape", shape, value=tensor))


# -- inputs in their place ---------------------------------------------------------------


def _why_not(node: onnx_ir.Node, model: onnx_ir.Model) -> str:
    if node.graph is not model.graph:
        return "it is inside an If, a Loop or a function"
    if node.op_type == "Multinomial":
        return "each drawn number isn't computed from one number"
    if node.op_type == "Dropout" and constant(node.inputs[2]) is None:
        return "whether it drops anything is computed: --fix its input"
    return ""


def _noise(
    node: onnx_ir.Node, shape: Dims, dtype: onnx_ir.DataType, model: onnx_ir.Model
) -> onnx_ir.Value:
    taken = {value.name for graph in model.graphs() for value in _values(graph)}
    base = re.sub(r"\W+", "_", node.name or node.outputs[0].name or "noise").strip("_") or "noise"
    name, number = base, 0
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    value = onnx_ir.Value(name=name, shape=onnx_ir.Shape(shape), type=onnx_ir.TensorType(dtype))
    model.graph.inputs.append(value)
    return value


def _values(graph: onnx_ir.Graph) -> Iterator[onnx_ir.Value]:
    yield from (*graph.inputs, *graph.initializers.values())
    for node in graph:
        yield from node.outputs


def _shape(node: onnx_ir.Node, inferred: dict[onnx_ir.Value, Inferred]) -> Dims | None:
    if "shape" in node.attributes:
        return list(node.attributes["shape"].as_ints())
    source = node.inputs[0]
    if source is None or source not in inferred:
        return static_shape(source)
    shape = inferred[source].shape
    return None if shape is None else [d if isinstance(d, int) else d.value for d in shape]


def _dtype(node: onnx_ir.Node, inferred: dict[onnx_ir.Value, Inferred]) -> onnx_ir.DataType:
    """The type of what a node gives."""
    if "dtype" in node.attributes:
        return onnx_ir.DataType(node.attributes["dtype"].as_int())
    source = node.inputs[0] if node.inputs else None
    return onnx_ir.DataType.FLOAT if source is None else _type_of(source, inferred)


def _drawn_as(node: onnx_ir.Node, inferred: dict[onnx_ir.Value, Inferred]) -> onnx_ir.DataType:
    """The type in which numbers are drawn: a Bernoulli's are those of its probabilities."""
    if node.op_type == "Bernoulli" and node.inputs[0] is not None:
        return _type_of(node.inputs[0], inferred)
    return _dtype(node, inferred)


def _type_of(value: onnx_ir.Value, inferred: dict[onnx_ir.Value, Inferred]) -> onnx_ir.DataType:
    known = inferred[value].type if value in inferred else value.type
    return known.dtype if known is not None else onnx_ir.DataType.FLOAT


class _Maker:
    """Makes nodes before another one, which something takes the place of."""

    def __init__(self, node: onnx_ir.Node) -> None:
        assert isinstance(node.graph, onnx_ir.Graph)
        self.node, self.graph = node, node.graph
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return f"{self.node.outputs[0].name}_drawn_{self._count}"

    def constant(self, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> onnx_ir.Value:
        return add_constant(self.graph, self._name(), array)

    def number(self, number: float, like: onnx_ir.Value) -> onnx_ir.Value:
        assert like.dtype is not None
        return self.constant(np.asarray(number, like.dtype.numpy()))

    def op(
        self, op_type: str, *inputs: onnx_ir.Value | None, **attributes: object
    ) -> onnx_ir.Value:
        made = onnx_ir.node(op_type, inputs, attributes)  # type: ignore[arg-type]
        made.name = made.outputs[0].name = self._name()
        self.graph.insert_before(self.node, made)
        return made.outputs[0]

    def become(self, value: onnx_ir.Value, index: int = 0) -> None:
        """Has ``value`` be an output of the node; the first comes last, and takes the node away."""
        old = self.node.outputs[index]
        name, value.type, value.shape = old.name, old.type or value.type, old.shape
        old.replace_all_uses_with(value, replace_graph_outputs=True)
        old.name = None
        value.name = name
        if index == 0:
            self.graph.remove(self.node, safe=True)


def _number(node: onnx_ir.Node, name: str, default: float) -> float:
    return node.attributes[name].as_float() if name in node.attributes else default


def _scaled(make: _Maker, drawn: onnx_ir.Value) -> None:
    """``drawn * scale + mean``, or from low to high."""
    node = make.node
    if "Normal" in node.op_type:
        factor, added = _number(node, "scale", 1.0), _number(node, "mean", 0.0)
    else:
        added = _number(node, "low", 0.0)
        factor = _number(node, "high", 1.0) - added
    made = make.op("Mul", drawn, make.number(factor, drawn))
    make.become(make.op("Add", made, make.number(added, drawn)))


def _bernoulli(make: _Maker, drawn: onnx_ir.Value) -> None:
    """1 where the number is below its probability."""
    below = make.op("Less", drawn, make.node.inputs[0])
    attribute = make.node.attributes.get("dtype")
    to = attribute.as_int() if attribute is not None else int(drawn.dtype or 1)
    make.become(make.op("Cast", below, to=to))


def _dropout(make: _Maker, drawn: onnx_ir.Value) -> None:
    """What isn't dropped, larger by as much as is dropped."""
    node = make.node
    known = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    ratio = 0.5 if known is None else float(known.item())
    kept = make.op("Not", make.op("Less", drawn, make.number(ratio, drawn)))
    factor = make.number(1 / (1 - ratio) if ratio < 1 else 0.0, drawn)
    scaled = make.op("Mul", make.op("Cast", kept, to=int(drawn.dtype or 1)), factor)
    made = make.op("Mul", node.inputs[0], scaled)
    if len(node.outputs) > 1:
        make.become(kept, 1)
    make.become(made)


_REWRITES: dict[str, Callable[[_Maker, onnx_ir.Value], None]] = {
    "Bernoulli": _bernoulli,
    "Dropout": _dropout,
}
