"""LSTM with projections (proj_size), as one without.

A step gives h = P m, m being what the LSTM gives without. Since R h = (R P) m, an LSTM of the
recurrent weights R P gives m, and P is applied to all steps at once. The state before the first
step is no P m: its part of the gates, R h0, is added as further inputs of the first step,
[x, h0] with weights [W, R]; those of later steps are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir
from onnxscript import opset18 as op
from onnxscript.function_libs.torch_lib.ops import core as torchlib


def _lstm(
    input: Any,
    hx: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """aten.lstm.input"""
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    if each != (5 if has_biases else 3):
        return torchlib.aten_lstm(
            input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
        )
    given = op.Transpose(input, perm=[1, 0, 2]) if batch_first else input
    lasts, cells = [], []
    for layer in range(num_layers):
        outputs = []
        for number in range(layer * directions, (layer + 1) * directions):
            weights = params[number * each : (number + 1) * each]
            state = [_row(value, number) for value in hx]
            output, last, cell = _one(given, state, weights, number % directions == 1)
            outputs.append(output)
            lasts.append(last)
            cells.append(cell)
        given = op.Concat(*outputs, axis=2) if bidirectional else outputs[0]
    last, cell = (op.Concat(*values, axis=0) for values in (lasts, cells))
    return (op.Transpose(given, perm=[1, 0, 2]) if batch_first else given), last, cell


def _row(value: Any, number: int) -> Any:
    """One layer's state in one direction: [1, batch, size], with its shape."""
    row = op.Slice(value, _ints(number), _ints(number + 1), _ints(0))
    row.shape = onnx_ir.Shape([1, *value.shape[1:]])
    row.dtype = value.dtype
    return row


def _one(x: Any, state: Sequence[Any], weights: Sequence[Any], backwards: bool) -> Any:
    """One layer in one direction: outputs, and the last states of shape [1, batch, ...]."""
    first, cell = state
    inner, recurrent, *biases, projection = weights
    turned = op.Transpose(projection, perm=[1, 0])
    start = op.Mul(cell, _zero(cell))
    start.shape, start.dtype = cell.shape, cell.dtype
    made, last, cell = torchlib.aten_lstm(
        op.Concat(_turned(x, backwards), _at_start(first, x), axis=2),
        [start, cell],
        [op.Concat(inner, recurrent, axis=1), op.MatMul(recurrent, projection), *biases],
        bool(biases), 1, 0.0, False, False, False,
    )  # fmt: skip
    return _turned(op.MatMul(made, turned), backwards), op.MatMul(last, turned), cell


def _turned(x: Any, backwards: bool) -> Any:
    """Along its first axis, from the last step to the first."""
    if not backwards:
        return x
    return op.Slice(x, _ints(-1), _ints(-(2**63 - 1)), _ints(0), _ints(-1))


def _at_start(first: Any, x: Any) -> Any:
    """The state before the first step, and zeros for all others: [steps, batch, size]."""
    steps = op.Shape(x, start=0, end=1)
    rest = op.Concat(_ints(0, 0, 0), op.Sub(steps, _ints(1)), _ints(0, 0), axis=0)
    return op.Pad(first, rest, _zero(first))


def _zero(like: Any) -> Any:
    return op.Constant(value=onnx_ir.tensor(0.0, dtype=like.dtype))


def _ints(*values: int) -> Any:
    return op.Constant(value_ints=values)


TABLE: dict[str, Any] = {"aten.lstm.input": _lstm}
