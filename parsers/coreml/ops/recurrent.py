"""lstm, gru and rnn.

Gates are in another order than ONNX has them, both directions' states lie side by side, and with
the direction ``reverse`` the outputs come in the order in which they are computed: the last
element's first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.ops.compression import dequantized
from parsers.coreml.reader import Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.sizes import FAR

Array = np.ndarray[Any, Any]

_ACTIVATIONS: dict[str, tuple[str, tuple[float, float] | None]] = {
    "sigmoid": ("Sigmoid", None),
    "tanh": ("Tanh", None),
    "relu": ("Relu", None),
    "linear": ("Affine", (1.0, 0.0)),
    "hard_sigmoid": ("HardSigmoid", (0.2, 0.5)),
    "sigmoid_hard": ("HardSigmoid", (0.2, 0.5)),
    "scaled_tanh": ("ScaledTanh", (1.7159, 2 / 3)),
}
"""ONNX's names, and alpha and beta of those that have them; for hard_sigmoid and scaled_tanh what
coremltools gives layers of neural networks."""

_INEFFECTIVE_CLIP = 1e4


@dataclass(frozen=True)
class _Gates:
    """How weights lie: how many gates, and which of them is ONNX's first, second ..."""

    order: Sequence[int]

    def sorted(self, weights: Array) -> Array:
        """Weights or biases with the gates as ONNX has them, and an axis for the direction."""
        parts = np.split(weights, len(self.order))
        return np.concatenate([parts[gate] for gate in self.order])[None]


_LSTM = _Gates([0, 2, 1, 3])  # ifoz there, iofc here
_LSTM_PEEPHOLES = _Gates([0, 2, 1])  # ifo there, iof here
_GRU = _Gates([2, 0, 1])  # roz there, zrh here
_RNN = _Gates([0])


def _weights(reader: Reader, op: Operation, gates: _Gates, names: Sequence[str]) -> Array:
    """One or both directions' weights."""
    found = []
    for name in names:
        array = reader.array(op, name)
        if array is None:
            array = dequantized(reader.value(op, name))  # whose gates have to be moved too
        if array is None:
            raise Refusal(f"its {name} isn't a constant")
        found.append(gates.sorted(array))
    return np.concatenate(found)


def _biases(
    reader: Reader, op: Operation, gates: _Gates, names: Sequence[tuple[str, str]], like: Array
) -> Array:
    """Biases of the inputs, then of the state, for each direction; zeros where there are none."""
    none = np.zeros(like.shape[1], like.dtype)
    rows = []
    for of_input, of_state in names:
        pair = [reader.array(op, name) if name else None for name in (of_input, of_state)]
        halves = [gates.sorted(none if half is None else half) for half in pair]
        rows.append(np.concatenate(halves, axis=1))
    return np.concatenate(rows)


def _activations(op: Operation, reader: Reader, names: Sequence[tuple[str, str]]) -> dict[str, Any]:
    found = []
    for parameter, default in names:
        name = str(reader.setting(op, parameter, default)).lower()
        if name not in _ACTIVATIONS:
            raise Refusal(f"its {parameter} is {name}")
        found.append(_ACTIVATIONS[name])
    numbers = [pair for _, pair in found if pair is not None]
    attributes: dict[str, Any] = {"activations": [name for name, _ in found]}
    if numbers:
        attributes["activation_alpha"] = [alpha for alpha, _ in numbers]
        attributes["activation_beta"] = [beta for _, beta in numbers]
    return attributes


def _state(reader: Reader, op: Operation, name: str, directions: int) -> onnx_ir.Value:
    """An initial state: the direction becomes the first axis."""
    x = reader.value(op, name)
    if directions == 1:
        return reader.node("Unsqueeze", [x, reader.ints([0])])
    apart = reader.node("Reshape", [x, reader.ints([0, directions, -1])])
    return reader.node("Transpose", [apart], {"perm": [1, 0, 2]})


def _last(reader: Reader, state: onnx_ir.Value, directions: int) -> onnx_ir.Value:
    """A final state: the directions side by side."""
    if directions == 1:
        return reader.node("Squeeze", [state, reader.ints([0])])
    turned = reader.node("Transpose", [state], {"perm": [1, 0, 2]})
    return reader.node("Reshape", [turned, reader.ints([0, -1])])


def _give(reader: Reader, op: Operation, outputs: Sequence[onnx_ir.Value], direction: str) -> None:
    """All steps' outputs or the last one's, and the final states."""
    directions = 2 if direction == "bidirectional" else 1
    states = [_last(reader, state, directions) for state in outputs[1:]]
    if not reader.setting(op, "output_sequence", False):
        y = reader.node("Unsqueeze", [states[0], reader.ints([0])])
    elif directions == 2:
        turned = reader.node("Transpose", [outputs[0]], {"perm": [0, 2, 1, 3]})
        y = reader.node("Reshape", [turned, reader.ints([0, 0, -1])])
    else:
        y = reader.node("Squeeze", [outputs[0], reader.ints([1])])
        if direction == "reverse":
            back = [reader.ints([number]) for number in (-1, -FAR, 0, -1)]
            y = reader.node("Slice", [y, *back])
    reader.give(op, y, *states)


def _direction(reader: Reader, op: Operation) -> str:
    found = str(reader.setting(op, "direction", "forward"))
    if found not in ("forward", "reverse", "bidirectional"):
        raise Refusal(f"its direction is {found}")
    return found


@reads("lstm")
def lstm(reader: Reader, op: Operation) -> None:
    direction = _direction(reader, op)
    ends = ["", "_back"] if direction == "bidirectional" else [""]
    w = _weights(reader, op, _LSTM, [f"weight_ih{end}" for end in ends])
    r = _weights(reader, op, _LSTM, [f"weight_hh{end}" for end in ends])
    b = _biases(reader, op, _LSTM, [(f"bias{end}", "") for end in ends], w)
    given = [("recurrent_activation", "sigmoid"), ("cell_activation", "tanh")]
    attributes = _activations(op, reader, [*given, ("activation", "tanh")] * len(ends))
    clip = reader.setting(op, "clip")
    if clip is not None and clip < _INEFFECTIVE_CLIP:
        raise Refusal(f"it clips the cell's state at {clip}, which ONNX's LSTM doesn't do")
    states = [_state(reader, op, name, len(ends)) for name in ("initial_h", "initial_c")]
    inputs = [
        reader.value(op, "x"),
        *(reader.const(array) for array in (w, r, b)),
        None,
        *states,
    ]
    if reader.has(op, "peephole") or reader.has(op, "peephole_back"):
        inputs.append(reader.const(_peepholes(reader, op, ends, r)))
    settings = {"hidden_size": r.shape[2], "direction": direction, **attributes}
    _give(reader, op, reader.nodes_of("LSTM", inputs, 3, settings), direction)


def _peepholes(reader: Reader, op: Operation, ends: Sequence[str], like: Array) -> Array:
    none = np.zeros(3 * like.shape[2], like.dtype)
    found = [reader.array(op, f"peephole{end}") for end in ends]
    return np.concatenate(
        [_LSTM_PEEPHOLES.sorted(none if array is None else array) for array in found]
    )


@reads("gru")
def gru(reader: Reader, op: Operation) -> None:
    """GRU; from iOS18 on the state may be reset after its product with the weights, and then its
    bias counts within."""
    direction = _direction(reader, op)
    w = _weights(reader, op, _GRU, ["weight_ih"])
    r = _weights(reader, op, _GRU, ["weight_hh"])
    b = _biases(reader, op, _GRU, [("input_bias", "bias")], w)
    given = [("recurrent_activation", "sigmoid"), ("activation", "tanh")]
    settings = {
        "hidden_size": r.shape[2],
        "direction": direction,
        "linear_before_reset": int(reader.setting(op, "reset_after", False)),
        **_activations(op, reader, given),
    }
    state = _state(reader, op, "initial_h", 1)
    inputs = [reader.value(op, "x"), *(reader.const(array) for array in (w, r, b)), None, state]
    _give(reader, op, reader.nodes_of("GRU", inputs, 2, settings), direction)


@reads("rnn")
def rnn(reader: Reader, op: Operation) -> None:
    direction = _direction(reader, op)
    w = _weights(reader, op, _RNN, ["weight_ih"])
    r = _weights(reader, op, _RNN, ["weight_hh"])
    b = _biases(reader, op, _RNN, [("bias", "")], w)
    settings = {
        "hidden_size": r.shape[2],
        "direction": direction,
        **_activations(op, reader, [("activation", "tanh")]),
    }
    state = _state(reader, op, "initial_h", 1)
    inputs = [reader.value(op, "x"), *(reader.const(array) for array in (w, r, b)), None, state]
    _give(reader, op, reader.nodes_of("RNN", inputs, 2, settings), direction)
