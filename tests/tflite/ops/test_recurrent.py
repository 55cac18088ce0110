"""Recurrent operators with their states as inputs and outputs, against LiteRT step by step."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest

from parsers.tflite.importer import unsupported
from parsers.tflite.reader import read
from tests.tflite.build import File, Graph
from tests.tflite.litert import Stepped
from tests.tflite.ops.compare import check, imported
from tests.tflite.ops.test_built import real
from tests.tflite.test_state import made_explicit

BATCH, TIME, FEATURES, UNITS = 2, 5, 3, 4
TANH = 4


class Layer:
    """A graph with one recurrent operator on x, whose states can be set and read."""

    def __init__(self, *shape: int) -> None:
        self.file = File()
        self.graph: Graph = self.file.graph()
        self.shape, self.x = shape, self.graph.tensor("x", shape)
        self.states: list[int] = []
        self.chance = np.random.default_rng(0)

    def weights(self, *shape: int) -> int:
        return self.graph.constant(self.chance.standard_normal(shape).astype(np.float32) / 2)

    def state(self, units: int = UNITS, batch: int = BATCH) -> int:
        number = self.graph.tensor(f"state{len(self.states)}", (batch, units), variable=True)
        self.states.append(number)
        return number

    def gates(self, count: int, *shape: int, without: Sequence[int] = ()) -> list[int]:
        return [-1 if k in without else self.weights(*shape) for k in range(count)]

    def op(self, name: str, inputs: Sequence[int], *shapes: tuple[int, ...],
           **options: Any) -> list[int]:  # fmt: skip
        """The operator on x and these inputs; gives its outputs."""
        made = [self.graph.tensor(f"{name}_{k}", shape) for k, shape in enumerate(shapes)]
        given = {"fusedActivationFunction": TANH, "timeMajor": False} | options
        self.graph.op(name, [self.x, *inputs], made, **given)
        return made

    def run(self, outputs: list[int]) -> None:
        """LiteRT over two runs, and the imported model from the state that it starts from."""
        x = real(*self.shape)
        self.graph.interface([self.x], outputs)
        content = self.file.content()
        made, rewritten = made_explicit(content)
        assert sorted((one.input, one.output) for one in made.states) == [
            (n, n) for n in self.states
        ]
        session = onnxruntime.InferenceSession(imported(read(rewritten, "state")))
        litert = Stepped(content)
        for _ in range(2):
            feeds = {f"state{k}": litert.get(i) for k, i in enumerate(self.states)}
            litert.run({0: x})
            wanted = [litert.get(i) for i in (*outputs, *self.states)]
            check(wanted, session.run(None, {"x": x, **feeds}))
        assert any(np.any(value) for value in feeds.values()), "the state never changed"


def lstm_inputs(layer: Layer, without: Sequence[int], peephole: bool) -> list[int]:
    weights = layer.gates(4, UNITS, FEATURES, without=without)
    recurrent = layer.gates(4, UNITS, UNITS, without=without)
    peepholes = layer.gates(3, UNITS, without=([0] if without else []) if peephole else range(3))
    return [*weights, *recurrent, *peepholes, *layer.gates(4, UNITS, without=without), -1, -1]


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("without", [(), (0,)], ids=["all-gates", "no-input-gate"])
@pytest.mark.parametrize("peephole", [False, True])
def test_sequence_lstm(time_major: bool, without: tuple[int, ...], peephole: bool) -> None:
    shape = (TIME, BATCH) if time_major else (BATCH, TIME)
    layer = Layer(*shape, FEATURES)
    inputs = [*lstm_inputs(layer, without, peephole), layer.state(), layer.state(), *[-1] * 4]
    name = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    layer.run(layer.op(name, inputs, (*shape, UNITS), timeMajor=time_major))


@pytest.mark.parametrize("merge", [False, True])
def test_both_ways_lstm(merge: bool) -> None:
    """Merged with a batch of one: LiteRT's kernel otherwise keeps the state of the first only."""
    batch = 1 if merge else BATCH
    layer = Layer(batch, TIME, FEATURES)
    shapes = [(batch, TIME, UNITS * (1 + merge))] * (2 - merge)
    both_ways = [*lstm_inputs(layer, (), False), *lstm_inputs(layer, (), False)]
    inputs = [*both_ways, *(layer.state(batch=batch) for _ in range(4)), *[-1] * 9]
    layer.run(layer.op("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, *shapes, mergeOutputs=merge))


@pytest.mark.parametrize("activation", [0, 1, TANH])
def test_sequence_rnn(activation: int) -> None:
    layer = Layer(BATCH, TIME, FEATURES)
    inputs = [layer.weights(4, 3), layer.weights(4, 4), layer.weights(4), layer.state()]
    how = {"fusedActivationFunction": activation}
    layer.run(layer.op("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, (BATCH, TIME, UNITS), **how))


def test_single_steps() -> None:
    """RNN and LSTM for one step of time, one after the other."""
    layer = Layer(BATCH, FEATURES)
    x, rnn = layer.x, [layer.weights(3, 3), layer.weights(3, 3), layer.weights(3), layer.state(3)]
    (layer.x,) = layer.op("RNN", rnn, (BATCH, FEATURES))
    lstm = [*lstm_inputs(layer, (), False), layer.state(), layer.state()]
    made = layer.op("LSTM", lstm, (BATCH, UNITS))
    layer.x = x
    layer.run(made)


def test_svdf() -> None:
    layer = Layer(BATCH, FEATURES)
    inputs = [layer.weights(8, 3), layer.weights(8, 6), layer.weights(4), layer.state(8 * 6)]
    layer.run(layer.op("SVDF", inputs, (BATCH, UNITS), rank=2, fusedActivationFunction=1))


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"cellClip": 3.0}, "clipped"), ({"fusedActivationFunction": 3}, "number 3")],
)
def test_variants_that_onnx_has_not_are_refused(options: dict[str, Any], reason: str) -> None:
    layer = Layer(BATCH, TIME, FEATURES)
    inputs = [*lstm_inputs(layer, (), False), layer.state(), layer.state()]
    made = layer.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (BATCH, TIME, UNITS), **options)
    layer.graph.interface([layer.x, *layer.states], [*made, *layer.states])
    (item,) = unsupported(read(layer.file.content(), "test"), 0)
    assert reason in item.reason
