"""Scan as a Loop, each round of which takes its elements of the scanned inputs by Gather.

    y, ys = Scan(s, xs)        y, ys = Loop(size of xs, s), with x = Gather(xs, i) in round i

What is gone through from its end is turned around before the loop; what is put together from its
end, behind it.

Source: the operator pages ``Scan`` and ``Loop``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.attributes import ints
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Builder, DataType, Free, Value, rank

_BEGINNING = np.iinfo(np.int64).min


def scan(b: Builder, node: onnx_ir.Node) -> tuple[Value, ...]:
    body, taken = node.attributes["body"].as_graph(), node.attributes["num_scan_inputs"].as_int()
    held = len(node.inputs) - taken
    elements = list(body.outputs)[held:]
    wholes = [x for x in node.inputs[held:] if x is not None and x.shape is not None]
    if len(wholes) < taken or any(value.shape is None for value in elements):
        raise Refused("a Scan of tensors with an unknown number of axes")
    axes = [a % rank(x) for a, x in zip(_each(node, "input_axes", taken), wholes, strict=True)]
    sizes = [b.size(x, axis) for x, axis in zip(wholes, axes, strict=True)]
    size = next((each for each in sizes if isinstance(each, int)), sizes[0])
    count = b.squeeze(size.value, [0]) if isinstance(size, Free) else np.asarray(size, np.int64)
    ways = zip(wholes, axes, _each(node, "input_directions", taken), strict=True)
    wholes = [turned(b, x, axis) if back else x for x, axis, back in ways]
    wholes = [b.cast(x, DataType.INT32) if x.dtype == DataType.BOOL else x for x in wholes]
    _take_elements(b, body, wholes, axes)
    inputs, name = [b.value(count), None, *node.inputs[:held]], f"{node.name}/loop"
    loop = onnx_ir.node("Loop", inputs, {"body": body}, num_outputs=len(node.outputs), name=name)
    made = b.add(loop)
    for place, (value, old) in enumerate(zip(made, node.outputs, strict=True)):
        value.name, value.type, value.shape = f"{name}_{place}", old.type, old.shape
    for value, element in zip(made[held:], elements, strict=True):
        number = size.name if isinstance(size, Free) else size
        value.shape = onnx_ir.Shape([number, *(element.shape or ())])
    ends = (_each(node, f"output_{name}", len(elements)) for name in ("directions", "axes"))
    rows = [_put_back(b, *each) for each in zip(made[held:], *ends, strict=True)]
    return (*made[:held], *rows)


def _each(node: onnx_ir.Node, name: str, count: int) -> list[int]:
    return ints(node, f"scan_{name}", [0] * count)


def turned(b: Builder, x: Value, axis: int) -> Value:
    """A tensor whose elements along an axis are in reverse.

    Args:
        b: Where the node goes.
        x: The tensor.
        axis: The axis.
    """
    return b.op("Slice", x, *(np.asarray([n], np.int64) for n in (-1, _BEGINNING, axis, -1)))


def _put_back(b: Builder, x: Value, back: int, axis: int) -> Value:
    """``x`` [rounds, ...] in its order, its first axis put where ``axis`` says."""
    order = list(range(1, rank(x)))
    order.insert(axis % rank(x), 0)
    return b.transpose(turned(b, x, 0) if back else x, order)


def _take_elements(
    b: Builder, body: onnx_ir.Graph, wholes: Sequence[Value], axes: Sequence[int]
) -> None:
    """Makes a Loop's body of a Scan's."""
    number, going, same = round_of(f"{b.node.name}")
    first = next(iter(body), None)
    body.append(same) if first is None else body.insert_before(first, same)
    inputs, inside = list(body.inputs), Builder(same, b.opset)
    for old, x, axis in zip(inputs[-len(wholes) :], wholes, axes, strict=True):
        made = inside.op("Gather", x, number, axis=axis)
        made = made if old.dtype is None else inside.cast(made, old.dtype)
        made.shape = made.shape if old.shape is None else old.shape
        old.replace_all_uses_with(made, replace_graph_outputs=True)
    body.inputs.clear()
    body.inputs.extend([number, going, *inputs[: -len(wholes)]])
    body.outputs.insert(0, same.outputs[0])


def round_of(name: str) -> tuple[Value, Value, onnx_ir.Node]:
    """A round's number and condition, which a Loop's body takes, and the node that gives the latter
    on: the loop ends by its count alone."""
    number, going = (
        Value(name=f"{name}/{what}", type=onnx_ir.TensorType(kind), shape=onnx_ir.Shape([]))
        for what, kind in (("number", DataType.INT64), ("going", DataType.BOOL))
    )
    same = onnx_ir.node("Identity", [going], name=f"{name}/same")
    same.outputs[0].name, same.outputs[0].type = f"{name}/goes_on", going.type
    same.outputs[0].shape = going.shape
    return number, going, same


REWRITES = {"Scan": scan}
