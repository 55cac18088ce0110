"""max_pool, avg_pool, l2_pool (``pool``)."""

from __future__ import annotations

import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.ops.convolution import paddings
from parsers.coreml.reader import Attribute, Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.values import size_of


@reads("max_pool")
def max_pool(reader: Reader, op: Operation) -> None:
    reader.give(op, reader.node("MaxPool", [reader.value(op, "x")], _window(reader, op)))


@reads("avg_pool")
def avg_pool(reader: Reader, op: Operation) -> None:
    """AveragePool; padding counts unless it is excluded."""
    counted = not reader.setting(op, "exclude_padding_from_average", False)
    attributes = _window(reader, op) | {"count_include_pad": int(counted)}
    reader.give(op, reader.node("AveragePool", [reader.value(op, "x")], attributes))


@reads("l2_pool")
def l2_pool(reader: Reader, op: Operation) -> None:
    """LpPool with p = 2."""
    attributes = _window(reader, op) | {"p": 2}
    reader.give(op, reader.node("LpPool", [reader.value(op, "x")], attributes))


def _window(reader: Reader, op: Operation) -> dict[str, Attribute]:
    kernel = [int(size) for size in reader.setting(op, "kernel_sizes")]
    strides = [int(size) for size in reader.setting(op, "strides", [1] * len(kernel))]
    attributes: dict[str, Attribute] = {"kernel_shape": kernel, "strides": strides}
    padded = paddings(reader, op, len(kernel))
    attributes |= padded
    if reader.setting(op, "ceil_mode", False):
        _check_ceil(reader.value(op, "x"), kernel, strides, padded)
        attributes["ceil_mode"] = 1
    return attributes


def _check_ceil(
    x: onnx_ir.Value, kernel: list[int], strides: list[int], padded: dict[str, Attribute]
) -> None:
    """A last window that begins behind the input: ONNX drops it, Core ML only where there is
    padding."""
    pads = padded.get("pads")
    if isinstance(pads, list) and any(pads):
        return
    for axis, (length, stride) in enumerate(zip(kernel, strides, strict=True)):
        size = size_of(x, axis + 2)
        if stride <= length:
            continue
        if size is None or 0 < (size - length) % stride <= stride - length:
            raise Refusal("with ceil_mode, its last window can begin after the input")
