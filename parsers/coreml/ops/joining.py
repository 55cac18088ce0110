"""Tensors put together, cut into parts, repeated and padded."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.sizes import part, positive, rank, reshape, whole

_PADDINGS = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


@reads("concat")
def concat(reader: Reader, op: Operation) -> None:
    """Concat; interleaved, an element of each in turn. Numbers without axes become a vector."""
    values, axis = reader.all(op, "values"), reader.setting(op, "axis")
    if rank(values[0]) == 0:
        values = [reader.node("Unsqueeze", [value, reader.ints([0])]) for value in values]
        axis, axes = 0, 1
    else:
        axes = rank(values[0])
    if len(values) == 1:
        reader.give(op, reader.node("Identity", values))
    elif reader.setting(op, "interleave", False):
        reader.give(op, _interleaved(reader, values, positive(axis, axes)))
    else:
        reader.give(op, reader.node("Concat", values, {"axis": axis}))


def _interleaved(reader: Reader, values: list[onnx_ir.Value], axis: int) -> onnx_ir.Value:
    behind = reader.ints([axis + 1])
    apart = [reader.node("Unsqueeze", [value, behind]) for value in values]
    joined = reader.node("Concat", apart, {"axis": axis + 1})
    before, after = part(reader, values[0], 0, axis), part(reader, values[0], axis + 1)
    return reshape(reader, joined, [before, -1, after])


@reads("stack")
def stack(reader: Reader, op: Operation) -> None:
    """Each with a new axis, joined along it."""
    axis = reader.setting(op, "axis")
    new = reader.ints([axis])
    values = [reader.node("Unsqueeze", [value, new]) for value in reader.all(op, "values")]
    reader.give(op, reader.node("Concat", values, {"axis": axis}))


@reads("split")
def split(reader: Reader, op: Operation) -> None:
    """Split, into parts of given sizes, or a number of equal ones."""
    x, axis = reader.value(op, "x"), reader.setting(op, "axis")
    count = len(op.outputs)
    if reader.has(op, "split_sizes"):
        inputs, attributes = [x, whole(reader, op, "split_sizes")], {"axis": axis}
    else:
        inputs, attributes = [x], {"axis": axis, "num_outputs": count}
    reader.give(op, *reader.nodes_of("Split", inputs, count, attributes))


@reads("tile")
def tile(reader: Reader, op: Operation) -> None:
    reader.give(op, reader.node("Tile", [reader.value(op, "x"), whole(reader, op, "reps")]))


@reads("pad")
def pad(reader: Reader, op: Operation) -> None:
    """Pad: the last axes' amounts are before and after each axis in turn there, all before, then
    all after here."""
    x = reader.value(op, "x")
    mode = reader.setting(op, "mode", "constant")
    if mode not in _PADDINGS:
        raise Refusal(f"padding of the kind {mode}")
    inputs: list[onnx_ir.Value | None] = [x, _amounts(reader, op, rank(x))]
    if mode == "constant":
        value = reader.array(op, "constant_val")
        inputs.append(reader.number(0.0 if value is None else value.item(), x))
    reader.give(op, reader.node("Pad", inputs, {"mode": _PADDINGS[mode]}))


def _amounts(reader: Reader, op: Operation, axes: int) -> onnx_ir.Value:
    known = reader.array(op, "pad")
    if known is not None:
        padded = np.zeros((axes, 2), np.int64)
        padded[axes - known.size // 2 :] = known.reshape(-1, 2)
        return reader.ints(padded.T.ravel().tolist())
    in_turn = reshape(reader, whole(reader, op, "pad"), [axes, 2])
    return reshape(reader, reader.node("Transpose", [in_turn], {"perm": [1, 0]}), [-1])
