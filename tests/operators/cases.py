"""Cases of operators: a graph, what it is run on, and what is expected of each target."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir

from converter.ir.model import Model
from emitters.lowering.folding import fill_in

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Any]
Sizes = Mapping[str, int]

HEADER = '<ir_version: 9, opset_import: ["" : 20, "ai.onnx.ml" : 3]>\n'


# -- expectations ------------------------------------------------------------------------


class Emits:
    """Operators that are there; with a number, as often: ``Emits("CONV_2D", ADD=2, PAD=0)``."""

    def __init__(self, *kinds: str, **counts: int) -> None:
        self.kinds, self.counts = kinds, counts

    def check(self, kinds: Sequence[str]) -> None:
        """Asserts that ``kinds`` are what was said."""
        for kind in self.kinds:
            assert kind in kinds
        for kind, count in self.counts.items():
            assert kinds.count(kind) == count, f"{kind}: {kinds}"


class Only(Emits):
    """All that is there, in this order, but transposes."""

    def check(self, kinds: Sequence[str]) -> None:
        """Asserts that ``kinds`` are what was said."""
        assert [k for k in kinds if k not in ("TRANSPOSE", "transpose")] == list(self.kinds)


class Refused:
    """The target refuses the model, and its reasons have these words."""

    def __init__(self, *words: str) -> None:
        self.words = words


class Fails:
    """What is written can't be run: the runtime's error has these words."""

    def __init__(self, words: str) -> None:
        self.words = words


class Differs:
    """The target's numbers are known to be others, for this reason."""

    def __init__(self, why: str) -> None:
        self.why = why


Expected = Emits | Refused | Fails | Differs


# -- cases -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Case:
    """A model, what it is run on, and what is expected of the targets.

    Attributes:
        name: The test's id.
        text: A graph in ONNX's text form. What it declares between its outputs and its nodes
            without a value, and no node computes, is a weight: ``<float[4, 3] w>``.
        sizes: Free dimensions by name: for all runs, or for each.
        feeds: Values of inputs by name: for all runs, or for each. All others are random.
        weights: Values of weights by name. All others are random.
        ranges: Inputs and weights whose random numbers are uniform: from, to below.
        tflite, coreml: What is expected, besides the reference's numbers.
        tol: Tolerance of floats, relative and absolute: for all targets, or by target.
        ios: The oldest systems to write Core ML packages for.
        like: Text of another model that is right of the same feeds, where ONNX Runtime hasn't it.
        steps: Whether integers may be one apart where rounding is, in at most one of twenty.
    """

    name: str
    text: str
    sizes: Sizes | Sequence[Sizes] = field(default_factory=dict)
    feeds: Feeds | Sequence[Feeds] = field(default_factory=dict)
    weights: Feeds = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    tflite: Expected | None = None
    coreml: Expected | None = None
    tol: float | Mapping[str, float] = 1e-5
    ios: tuple[int, ...] = (17,)
    like: str = ""
    steps: bool = False

    def __str__(self) -> str:
        return self.name

    def model(self) -> Model:
        """The model, at the pipeline's opset, with nodes named and values typed."""
        proto = onnx.parser.parse_model(HEADER + self.text)
        declared = {value.name: value for value in _weights(proto.graph)}
        self._known(self.weights, declared)
        for name, value in declared.items():
            array = self._values(value, self.weights, {})
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        if not all(value.HasField("type") for value in proto.graph.output):
            proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        return as_model(proto)

    def runs(self) -> list[dict[str, Array]]:
        """What it is run on."""
        inputs = list(onnx.parser.parse_model(HEADER + self.text).graph.input)
        sizes, feeds = _listed(self.sizes), _listed(self.feeds)
        made = []
        for run in range(max(len(sizes), len(feeds))):
            given, free = feeds[run % len(feeds)], sizes[run % len(sizes)]
            self._known(given, [value.name for value in inputs])
            made.append({value.name: self._values(value, given, free) for value in inputs})
        return made

    def _known(self, given: Iterable[str], declared: Iterable[str]) -> None:
        unknown = set(given) - set(declared)
        assert not unknown, f"{self.name}: not declared: {unknown}"

    def _values(self, value: onnx.ValueInfoProto, given: Feeds, sizes: Sizes) -> Array:
        """What is given for an input or a weight, or random numbers of its type and shape."""
        kind = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if value.name in given:
            return np.asarray(given[value.name], dtype)
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in kind.shape.dim]
        random = np.random.default_rng([*value.name.encode()])
        if value.name in self.ranges:
            low, high = self.ranges[value.name]
            whole = random.integers(int(low), int(high), shape) if dtype.kind in "iu" else None
            return np.asarray(random.uniform(low, high, shape) if whole is None else whole, dtype)
        made = random.standard_normal(shape)
        if dtype.kind in "iu":
            made = made * 10 if dtype.kind == "i" else np.abs(made) * 10
        return np.asarray(made > 0 if dtype.kind == "b" else made, dtype)


def graph(inputs: str, nodes: Iterable[str], weights: str = "") -> str:
    """Text of a graph of many nodes beside each other, such as ``Relu (x)``, each an output."""
    listed = list(nodes)
    outputs = ", ".join(f"y{number}" for number in range(len(listed)))
    body = "\n".join(f"y{number} = {node}" for number, node in enumerate(listed))
    return f"g ({inputs}) => ({outputs}) <{weights}> {{\n{body}\n}}"


def numbers(*shape: int, seed: int = 0) -> Array:
    """Seeded normal numbers, float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def parsed(text: str) -> Model:
    """A Model from ONNX's text form: the graph alone, at the pipeline's opset."""
    return as_model(onnx.parser.parse_model(HEADER + text))


def as_model(proto: onnx.ModelProto) -> Model:
    """A Model of a protobuf, its nodes named and its values typed."""
    model = Model.wrap(onnx_ir.from_proto(proto))
    for number, node in enumerate(model.nodes()):
        node.name = node.name or f"{node.op_type}_{number}"
    fill_in(model.graph)
    return model


def with_weights(model: Model, **weights: Array) -> Model:
    """The model with inputs made initializers."""
    graph = model.graph.graph
    for value in list(graph.inputs):
        if value.name in weights:
            graph.inputs.remove(value)
            value.const_value = onnx_ir.Tensor(weights[value.name], name=value.name)
            graph.register_initializer(value)
    fill_in(model.graph)
    return model


def _listed(given: Feeds | Sequence[Feeds]) -> list[Feeds]:
    return [given] if isinstance(given, Mapping) else list(given)


def _weights(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    """Values that are declared, and neither given nor computed."""
    known = {tensor.name for tensor in graph.initializer}
    known |= {name for node in graph.node for name in node.output}
    return (value for value in list(graph.value_info) if value.name not in known)
