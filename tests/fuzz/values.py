"""Values of a graph, computed a node at a time by ONNX Runtime, and how far rounding moves them.

Nothing here knows shapes or types of operators: a node is run alone, on what its inputs hold,
and what comes out says both. Every set of feeds is run (other sizes of free dimensions), and
again with every float tensor moved by :data:`NOISE`: how far results then move is what rounding
can do to them, and where an integer moves, nobody can say which is right.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

Array = np.ndarray[Any, Any]

NOISE = 2.0**-18
"""How far each float tensor is moved, relative to each value: 32 units in the last place of
float32. Two right implementations of an operator are a few units apart, or some tens where one
approximates a function of the exponential's kind."""

EIGHT_BITS = -(2.0**-8)
"""Noise for :func:`given` and :func:`computed`: half a step of 8 bits, relative to each tensor's
largest magnitude, which the sign says."""

SHAKES = 2
"""How often each set of feeds is run again with noise."""

LARGEST, MOST = 1e4, 6000
"""Largest magnitude, and most elements, of a value that a random graph may hold."""

STEADY = 2.0**-9
"""Most that noise may move a value, relative to the tensor's largest."""

UNIT = 2.0**-20
"""Share of a tensor's largest magnitude that is always rounding: 8 units in the last place."""


class Rejected(Exception):
    """A node that a random graph can't have: invalid, or with results that say nothing."""


@dataclass(frozen=True)
class Value:
    """What a tensor holds.

    Attributes:
        name: In the graph.
        exact: One array for each set of feeds.
        shaken: For each set, what it holds with noise, several times.
    """

    name: str
    exact: tuple[Array, ...]
    shaken: tuple[tuple[Array, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes with the first feeds."""
        shape: tuple[int, ...] = self.exact[0].shape
        return shape

    @property
    def rank(self) -> int:
        """The number of axes."""
        return self.exact[0].ndim

    @property
    def kind(self) -> str:
        """numpy's name of the dtype."""
        return str(self.exact[0].dtype.name)

    @property
    def is_float(self) -> bool:
        """Whether it has a float dtype."""
        return bool(self.exact[0].dtype.kind == "f")

    @property
    def free(self) -> tuple[int, ...]:
        """The axes whose size depends on the feeds."""
        shapes = zip(*(array.shape for array in self.exact), strict=True)
        return tuple(axis for axis, sizes in enumerate(shapes) if len(set(sizes)) > 1)

    def spread(self, index: int) -> float:
        """How far noise moves it with the feeds of that number; NaN where it isn't finite."""
        if not self.is_float or not self.exact[index].size:
            return 0.0
        exact = self.exact[index].astype(np.float64)
        with np.errstate(invalid="ignore"):
            return max(float(np.max(np.abs(array - exact))) for array in self.shaken[index])

    def tolerance(self, index: int) -> float:
        """The largest difference that can be rounding, with the feeds of that number."""
        if not self.is_float:
            return 0.0
        return 2 * self.spread(index) + UNIT * _largest(self.exact[index])

    def require_useful(self) -> None:
        """Raises Rejected where it is empty, too large, not finite, or hangs on rounding."""
        for array in self.exact:
            if array.ndim != self.rank:
                raise Rejected("its rank depends on the feeds")
            if array.size > MOST or not array.size:
                raise Rejected(f"{array.size} elements")
            if self.is_float and not _largest(array) <= LARGEST:
                raise Rejected("too large, or not finite")
        self.require_steady()

    def require_steady(self) -> None:
        """Raises Rejected where it hangs on rounding."""
        for index, exact in enumerate(self.exact):
            for array in self.shaken[index]:
                if array.shape != exact.shape:
                    raise Rejected("its shape hangs on rounding")
                if not self.is_float and not np.array_equal(array, exact):
                    raise Rejected("it hangs on rounding")
            if not self.spread(index) <= STEADY * _largest(exact):
                raise Rejected("rounding moves it far")


def given(name: str, arrays: Sequence[Array], shake: bool = True, noise: float = NOISE) -> Value:
    """A value that isn't computed: an input, or a constant (one array for all feeds)."""
    shaken = [
        tuple(_shaken(array, name, number, noise) if shake else array for number in range(SHAKES))
        for array in arrays
    ]
    return Value(name, tuple(arrays), tuple(shaken))


def computed(
    node: onnx.NodeProto,
    values: Mapping[str, Value],
    opset: int,
    sets: int,
    noise: float = NOISE,
) -> list[Value]:
    """The outputs of a node, with each of the sets of feeds.

    Raises:
        Rejected: ONNX Runtime refuses it on some feeds.
    """
    names = [name for name in (*node.input, *captured(node)) if name]
    inputs = list(dict.fromkeys(names))
    outputs = [name for name in node.output if name]
    session = _session(node, [values[name] for name in inputs], outputs, opset)
    exact: list[list[Array]] = []
    noisy: list[list[list[Array]]] = []
    try:
        for index in range(sets):
            exact.append(session.run(None, {n: values[n].exact[index] for n in inputs}))
            fed = [{n: values[n].shaken[index][i] for n in inputs} for i in range(SHAKES)]
            noisy.append([session.run(None, feeds) for feeds in fed])
    except Exception as error:  # ONNX Runtime's own exceptions share no public base
        raise Rejected(str(error)) from error
    made = []
    for place, name in enumerate(outputs):
        shaken = (
            tuple(_shaken(found[place], name, i, noise) for i, found in enumerate(runs))
            for runs in noisy
        )
        made.append(Value(name, tuple(found[place] for found in exact), tuple(shaken)))
    return made


def captured(node: onnx.NodeProto) -> list[str]:
    """Names that the node's subgraphs take from outside, in order."""
    found: list[str] = []
    for attribute in node.attribute:
        for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            found += _free_names(graph)
    return list(dict.fromkeys(found))


def _free_names(graph: onnx.GraphProto) -> Iterator[str]:
    known = {item.name for item in graph.initializer} | {item.name for item in graph.input}
    for node in graph.node:
        for name in (*node.input, *captured(node)):
            if name and name not in known:
                yield name
        known.update(node.output)
    yield from (item.name for item in graph.output if item.name not in known)


def _session(
    node: onnx.NodeProto, inputs: Sequence[Value], outputs: Sequence[str], opset: int
) -> Any:
    kinds = [helper.np_dtype_to_tensor_dtype(value.exact[0].dtype) for value in inputs]
    infos = [
        helper.make_tensor_value_info(value.name, kind, [None] * value.rank)
        for value, kind in zip(inputs, kinds, strict=True)
    ]
    made = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "one", infos, made)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    try:
        return open_session(model)
    except Exception as error:  # ONNX Runtime's own exceptions share no public base
        raise Rejected(str(error)) from error


def open_session(model: onnx.ModelProto) -> Any:
    """ONNX Runtime on a model as it is written: one thread, nothing optimized."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = model.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _shaken(array: Array, name: str, number: int, noise: float) -> Array:
    if array.dtype.kind != "f":
        return array
    random = np.random.default_rng([zlib.crc32(name.encode()), number])
    size = array if noise > 0 else _largest(array)
    with np.errstate(invalid="ignore", over="ignore"):
        moved = array + size * noise * random.uniform(-1, 1, array.shape)
        result: Array = np.asarray(moved).astype(array.dtype)
    return result


def _largest(array: Array) -> float:
    """NaN where there is one."""
    return float(np.max(np.abs(array.astype(np.float64)), initial=0.0))
