"""Recurrent layers: LSTM and RNN over sequences or one step, SVDF.

Their states are variable tensors, which have become inputs and outputs: they are read before
the operator, and what it leaves is put back (:meth:`Context.update`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.registry import lowers


@dataclass(frozen=True)
class Cell:
    """Where an LSTM's inputs are in the operator's list (kernel unidirectional_sequence_lstm).

    ``weights``, ``recurrent`` and ``biases`` are of the input, forget, cell and output gate;
    ``peepholes`` of the input, forget and output gate; ``projection`` its weights and bias;
    ``states`` the output's and the cell's; ``norms`` the layer normalization's.
    """

    weights: Sequence[int]
    recurrent: Sequence[int]
    peepholes: Sequence[int]
    biases: Sequence[int]
    projection: Sequence[int]
    states: Sequence[int]
    norms: Sequence[int] = ()


_FORWARD = Cell(
    range(1, 5), range(5, 9), range(9, 12), range(12, 16), (16, 17), (18, 19), range(20, 24)
)
_BOTH = (
    Cell(range(1, 5), range(5, 9), range(9, 12), range(12, 16), (16, 17), (35, 36)),
    Cell(range(18, 22), range(22, 26), range(26, 29), range(29, 33), (33, 34), (37, 38)),
)
_RNN_INPUTS = ((1, 2, 3, 4), (5, 6, 7, 8))
"""Weights, recurrent weights, bias and state of an RNN, forwards and backwards."""


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM")
def sequence_lstm(ctx: Context) -> None:
    ctx.set(0, _from_time_major(ctx, _lstm(ctx, _FORWARD, _time_major(ctx))))


@lowers("BIDIRECTIONAL_SEQUENCE_LSTM")
def both_ways_lstm(ctx: Context) -> None:
    """Two LSTMs, one of which goes backwards."""
    if any(ctx.has(i) for i in range(39, ctx.n_inputs)):
        ctx.refuse("auxiliary inputs")
    value = _time_major(ctx)
    results = [_lstm(ctx, cell, value, backwards=bool(k)) for k, cell in enumerate(_BOTH)]
    _set_both(ctx, results)


@lowers("UNIDIRECTIONAL_SEQUENCE_RNN")
def sequence_rnn(ctx: Context) -> None:
    ctx.set(0, _from_time_major(ctx, _rnn(ctx, _RNN_INPUTS[0], _time_major(ctx))))


@lowers("BIDIRECTIONAL_SEQUENCE_RNN")
def both_ways_rnn(ctx: Context) -> None:
    """Two RNNs, one of which goes backwards."""
    if any(ctx.has(i) for i in range(9, ctx.n_inputs)):
        ctx.refuse("auxiliary inputs")
    value = _time_major(ctx)
    pairs = enumerate(_RNN_INPUTS)
    _set_both(ctx, [_rnn(ctx, inputs, value, backwards=bool(k)) for k, inputs in pairs])


@lowers("RNN")
def rnn_step(ctx: Context) -> None:
    """RNN over a sequence of one."""
    value = _rnn(ctx, _RNN_INPUTS[0], ctx.add("Unsqueeze", ctx.value(0), ctx.ints([0])))
    ctx.set(0, ctx.add("Squeeze", value, ctx.ints([0])))


@lowers("LSTM")
def lstm_step(ctx: Context) -> None:
    """LSTM over a sequence of one (kernel type FULL)."""
    if ctx.option("kernelType") != 0:
        ctx.refuse("the BASIC kernel, with its activations as outputs")
    value = _lstm(ctx, _FORWARD, ctx.add("Unsqueeze", ctx.value(0), ctx.ints([0])))
    ctx.set(0, ctx.add("Squeeze", value, ctx.ints([0])))


def _time_major(ctx: Context) -> onnx_ir.Value:
    """The input as [time, batch, features]."""
    value = ctx.value(0)
    return value if ctx.option("timeMajor", False) else ctx.transpose(value, [1, 0, 2])


def _from_time_major(ctx: Context, value: onnx_ir.Value) -> onnx_ir.Value:
    return value if ctx.option("timeMajor", False) else ctx.transpose(value, [1, 0, 2])


def _set_both(ctx: Context, results: list[onnx_ir.Value]) -> None:
    values = [_from_time_major(ctx, value) for value in results]
    if ctx.option("mergeOutputs", False):
        ctx.set(0, ctx.add("Concat", *values, axis=-1))
        return
    for i, value in enumerate(values):
        ctx.set(i, value)


# -- LSTM --------------------------------------------------------------------------


def _lstm(ctx: Context, cell: Cell, value: onnx_ir.Value, backwards: bool = False) -> onnx_ir.Value:
    """[time, batch, units] of [time, batch, features]; updates the states.

    ONNX's gates stand in the order input, output, forget, cell.
    """
    _refuse_variants(ctx, cell)
    units = ctx.shape(cell.recurrent[1])[0]
    peepholes = None
    if ctx.has(cell.peepholes[1]):
        found = _gates(ctx, cell.peepholes, [0, 2, 1])
        peepholes = ctx.add("Unsqueeze", found, ctx.ints([0]))
    zeros = ctx.add("ConstantOfShape", ctx.ints([4 * units]))
    biases = [_gates(ctx, cell.biases, [0, 3, 1, 2]), zeros]
    results = ctx.add_many(
        "LSTM",
        3,
        value,
        ctx.add("Unsqueeze", _gates(ctx, cell.weights, [0, 3, 1, 2]), ctx.ints([0])),
        ctx.add("Unsqueeze", _gates(ctx, cell.recurrent, [0, 3, 1, 2]), ctx.ints([0])),
        ctx.add("Unsqueeze", ctx.add("Concat", *biases, axis=0), ctx.ints([0])),
        None,
        *(ctx.add("Unsqueeze", ctx.value(i), ctx.ints([0])) for i in cell.states),
        peepholes,
        hidden_size=units,
        direction="reverse" if backwards else "forward",
        activations=["Sigmoid", *[_activation_name(ctx)] * 2],
    )
    for i, state in zip(cell.states, results[1:], strict=True):
        ctx.update(i, ctx.add("Squeeze", state, ctx.ints([0])))
    return ctx.add("Squeeze", results[0], ctx.ints([1]))


def _refuse_variants(ctx: Context, cell: Cell) -> None:
    """What ONNX's LSTM hasn't."""
    if any(ctx.has(i) for i in cell.norms):
        ctx.refuse("layer normalization inside the cell")
    if ctx.has(cell.projection[0]):
        ctx.refuse("a projection of the output inside the cell")
    if ctx.option("cellClip", 0.0) or ctx.option("projClip", 0.0):
        ctx.refuse("a cell whose state is clipped")
    if ctx.option("diagonalRecurrentTensors", False):
        ctx.refuse("recurrent weights of which only the diagonal is kept")


def _gates(ctx: Context, inputs: Sequence[int], order: Sequence[int]) -> onnx_ir.Value:
    """Tensors of the gates, one after the other.

    A cell without an input gate takes 1 - forget for it. That is the sigmoid of the negated
    sum, so the forget gate's tensors are negated instead.
    """
    forget = inputs[1]
    values = []
    for place in order:
        i = inputs[place]
        if ctx.has(i):
            values.append(ctx.value(i))
        elif place == 0:
            values.append(ctx.add("Neg", ctx.value(forget)))
        else:
            ctx.refuse(f"input {i} is missing")
    return ctx.add("Concat", *values, axis=0)


_NAMES = {0: "Affine", 1: "Relu", 4: "Tanh"}


def _activation_name(ctx: Context) -> str:
    kind = ctx.option("fusedActivationFunction")
    if kind not in _NAMES:
        ctx.refuse(f"activation function number {kind} inside the cell")
    return _NAMES[kind]


# -- RNN ---------------------------------------------------------------------------


def _rnn(
    ctx: Context, inputs: Sequence[int], value: onnx_ir.Value, backwards: bool = False
) -> onnx_ir.Value:
    """[time, batch, units] of [time, batch, features]; updates the state."""
    weights, recurrent, bias, state = inputs
    units = ctx.shape(weights)[0]
    zeros = ctx.add("ConstantOfShape", ctx.ints([units]))
    biases = ctx.add("Concat", ctx.value(bias), zeros, axis=0)
    tensors = (ctx.value(weights), ctx.value(recurrent), biases)
    name = _activation_name(ctx)
    results = ctx.add_many(
        "RNN",
        2,
        value,
        *(ctx.add("Unsqueeze", item, ctx.ints([0])) for item in tensors),
        None,
        ctx.add("Unsqueeze", ctx.value(state), ctx.ints([0])),
        hidden_size=units,
        direction="reverse" if backwards else "forward",
        activations=[name],
        activation_alpha=[1.0] if name == "Affine" else None,
        activation_beta=[0.0] if name == "Affine" else None,
    )
    ctx.update(state, ctx.add("Squeeze", results[1], ctx.ints([0])))
    return ctx.add("Squeeze", results[0], ctx.ints([1]))


# -- SVDF --------------------------------------------------------------------------


@lowers("SVDF")
def svdf(ctx: Context) -> None:
    """A filter over features, whose last results are kept, and one over those in time; ``rank``
    of them make a unit (kernel reference_ops::EvalFloatSVDF)."""
    filters, memory = ctx.shape(2)
    rank = int(ctx.option("rank", 1))
    state = ctx.reshape(ctx.value(4), [-1, filters, memory])
    kept = ctx.add("Slice", state, ctx.ints([1]), ctx.ints([memory]), ctx.ints([2]))
    newest = ctx.add("Gemm", ctx.value(0), ctx.value(1), transB=1)
    newest = ctx.add("Unsqueeze", newest, ctx.ints([2]))
    state = ctx.add("Concat", kept, newest, axis=2)
    weighted = ctx.add("Mul", state, ctx.value(2))
    value = ctx.add("ReduceSum", weighted, ctx.ints([2]), keepdims=0)
    value = ctx.reshape(value, [-1, filters // rank, rank])
    value = ctx.add("ReduceSum", value, ctx.ints([2]), keepdims=0)
    if ctx.has(3):
        value = ctx.add("Add", value, ctx.value(3))
    ctx.update(4, ctx.reshape(state, [-1, filters * memory]))
    ctx.set(0, ctx.activate(value))
