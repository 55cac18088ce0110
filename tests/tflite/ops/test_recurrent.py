"""Recurrent operators with their states as inputs and outputs, against LiteRT step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from parsers.tflite_import.importer import unsupported
from parsers.tflite_import.reader import read
from tests.tflite.build import File, Graph
from tests.tflite.ops.compare import Array, check, imported
from tests.tflite.ops.test_built import add, constant, real

BATCH, TIME, FEATURES, UNITS = 2, 5, 3, 4
TANH = 4


class Layer:
    """A graph with one recurrent operator, whose states can be set and read."""

    def __init__(self) -> None:
        self.file = File()
        self.graph: Graph = self.file.graph()
        self.states: list[int] = []

    def weights(self, *shape: int) -> int:
        return constant(self.graph, real(*shape) / 2)

    def state(self, units: int = UNITS, batch: int = BATCH) -> int:
        number = self.graph.tensor(f"state{len(self.states)}", (batch, units), variable=True)
        self.states.append(number)
        return number

    def gates(self, count: int, *shape: int, without: Sequence[int] = ()) -> list[int]:
        return [-1 if k in without else self.weights(*shape) for k in range(count)]

    def run(self, x: Array, results: int) -> None:
        """LiteRT over two runs, and the imported model from the state that it starts from."""
        self.graph.raw.inputs = np.array([0], np.int32)
        content = self.file.content()
        outputs = list(self.graph.raw.outputs)
        self.graph.raw.inputs = np.array([0, *self.states], np.int32)
        self.graph.raw.outputs = np.array([*outputs, *self.states], np.int32)
        session = onnxruntime.InferenceSession(imported(read(self.file.content(), "state")))
        plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        interpreter = Interpreter(
            model_content=content,
            experimental_op_resolver_type=plain,
            experimental_preserve_all_tensors=True,
        )
        interpreter.allocate_tensors()
        for _ in range(2):
            feeds = {f"state{k}": interpreter.get_tensor(i) for k, i in enumerate(self.states)}
            interpreter.set_tensor(0, x)
            interpreter.invoke()
            wanted = [interpreter.get_tensor(i) for i in (*outputs, *self.states)]
            check(wanted, session.run(None, {"x": x, **feeds}))
        assert any(np.any(value) for value in feeds.values()), "the state never changed"
        assert len(outputs) == results


def lstm_inputs(layer: Layer, without: Sequence[int], peephole: bool) -> list[int]:
    weights = layer.gates(4, UNITS, FEATURES, without=without)
    recurrent = layer.gates(4, UNITS, UNITS, without=without)
    gone = [0] if without else []
    peepholes = layer.gates(3, UNITS, without=gone if peephole else range(3))
    biases = layer.gates(4, UNITS, without=without)
    return [*weights, *recurrent, *peepholes, *biases, -1, -1]


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("without", [(), (0,)], ids=["all-gates", "no-input-gate"])
@pytest.mark.parametrize("peephole", [False, True])
def test_sequence_lstm(time_major: bool, without: tuple[int, ...], peephole: bool) -> None:
    layer = Layer()
    shape = (TIME, BATCH) if time_major else (BATCH, TIME)
    x, y = (layer.graph.tensor(name, (*shape, size)) for name, size in (("x", 3), ("y", 4)))
    inputs = [x, *lstm_inputs(layer, without, peephole), layer.state(), layer.state()]
    options = {"fusedActivationFunction": TANH, "timeMajor": time_major}
    kind = "UnidirectionalSequenceLSTMOptions"
    add(layer.graph, "UNIDIRECTIONAL_SEQUENCE_LSTM", [*inputs, *[-1] * 4], [y], kind, **options)
    layer.graph.interface([x], [y])
    layer.run(real(*shape, FEATURES), 1)


@pytest.mark.parametrize("merge", [False, True])
def test_both_ways_lstm(merge: bool) -> None:
    """Merged with a batch of one: LiteRT's kernel otherwise keeps the state of the first only."""
    layer, batch = Layer(), 1 if merge else BATCH
    x = layer.graph.tensor("x", (batch, TIME, FEATURES))
    width = UNITS * (1 + merge)
    names = ["y"] if merge else ["y", "z"]
    outputs = [layer.graph.tensor(name, (batch, TIME, width)) for name in names]
    forward, backward = (lstm_inputs(layer, (), False) for _ in range(2))
    states = [layer.state(batch=batch) for _ in range(4)]
    inputs = [x, *forward, *backward, *states, *[-1] * 9]
    options = {"fusedActivationFunction": TANH, "timeMajor": False, "mergeOutputs": merge}
    kind = "BidirectionalSequenceLSTMOptions"
    add(layer.graph, "BIDIRECTIONAL_SEQUENCE_LSTM", inputs, outputs, kind, **options)
    layer.graph.interface([x], outputs)
    layer.run(real(batch, TIME, FEATURES), len(outputs))


@pytest.mark.parametrize("activation", [0, 1, TANH])
def test_sequence_rnn(activation: int) -> None:
    layer = Layer()
    x, y = (layer.graph.tensor(name, (BATCH, TIME, n)) for name, n in (("x", 3), ("y", 4)))
    inputs = [x, layer.weights(4, 3), layer.weights(4, 4), layer.weights(4), layer.state()]
    options = {"fusedActivationFunction": activation, "timeMajor": False}
    add(layer.graph, "UNIDIRECTIONAL_SEQUENCE_RNN", inputs, [y], "SequenceRNNOptions", **options)
    layer.graph.interface([x], [y])
    layer.run(real(BATCH, TIME, FEATURES), 1)


def test_single_steps() -> None:
    """RNN and LSTM for one step of time, one after the other."""
    layer = Layer()
    x, middle, y = (
        layer.graph.tensor(name, (BATCH, n)) for name, n in (("x", 3), ("m", 3), ("y", 4))
    )
    rnn = [x, layer.weights(3, 3), layer.weights(3, 3), layer.weights(3), layer.state(3)]
    add(layer.graph, "RNN", rnn, [middle], "RNNOptions", fusedActivationFunction=TANH)
    lstm = [middle, *lstm_inputs(layer, (), False), layer.state(), layer.state()]
    add(layer.graph, "LSTM", lstm, [y], "LSTMOptions", fusedActivationFunction=TANH)
    layer.graph.interface([x], [y])
    layer.run(real(BATCH, FEATURES), 1)


def test_svdf() -> None:
    layer = Layer()
    x, y = (layer.graph.tensor(name, (BATCH, n)) for name, n in (("x", 3), ("y", 4)))
    weights = [layer.weights(8, 3), layer.weights(8, 6), layer.weights(4)]
    options = {"rank": 2, "fusedActivationFunction": 1}
    add(layer.graph, "SVDF", [x, *weights, layer.state(8 * 6)], [y], "SVDFOptions", **options)
    layer.graph.interface([x], [y])
    layer.run(real(BATCH, FEATURES), 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"cellClip": 3.0}, "clipped"), ({"fusedActivationFunction": 3}, "number 3")],
)
def test_variants_that_onnx_has_not_are_refused(options: dict[str, Any], reason: str) -> None:
    layer = Layer()
    x, y = (layer.graph.tensor(name, (BATCH, TIME, n)) for name, n in (("x", 3), ("y", 4)))
    inputs = [x, *lstm_inputs(layer, (), False), layer.state(), layer.state()]
    kind = "UnidirectionalSequenceLSTMOptions"
    options = {"fusedActivationFunction": TANH, **options}
    add(layer.graph, "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], kind, **options)
    layer.graph.interface([x, *layer.states], [y, *layer.states])
    (item,) = unsupported(read(layer.file.content(), "test"), 0)
    assert reason in item.reason
