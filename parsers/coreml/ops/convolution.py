"""conv and conv_transpose (``conv``)."""

from __future__ import annotations

import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import Attribute, Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.values import like, size_of

AUTOMATIC = {"same": "SAME_UPPER", "same_lower": "SAME_LOWER"}
"""Paddings for outputs of the input's size, divided by the stride and rounded up."""


def paddings(reader: Reader, op: Operation, axes: int) -> dict[str, Attribute]:
    """ONNX's attributes of a padding: Core ML has before and after of each axis in turn, ONNX all
    before first.

    Args:
        reader: Gives the operation's settings.
        op: The operation.
        axes: How many spatial axes there are.
    """
    kind = str(reader.setting(op, "pad_type", "valid")).lower()
    if kind in AUTOMATIC:
        return {"auto_pad": AUTOMATIC[kind]}
    if kind not in ("custom", "valid"):
        raise Refusal(f"padding of the kind {kind}")
    pad = _pad(reader, op, axes) if kind == "custom" else [0] * 2 * axes
    return {"pads": [*pad[::2], *pad[1::2]]}


def _pad(reader: Reader, op: Operation, axes: int) -> list[int]:
    pad = [int(size) for size in reader.setting(op, "pad", [0] * 2 * axes)]
    if len(pad) != 2 * axes:
        raise Refusal(f"its pad has {len(pad)} numbers for {axes} axes")
    return pad


def _steps(reader: Reader, op: Operation, axes: int) -> dict[str, Attribute]:
    return {
        "strides": reader.setting(op, "strides", [1] * axes),
        "dilations": reader.setting(op, "dilations", [1] * axes),
        "group": reader.setting(op, "groups", 1),
    }


def _operands(reader: Reader, op: Operation) -> tuple[list[onnx_ir.Value], list[int | None]]:
    """x, weight, bias, in one type; and the kernel's sizes."""
    x = reader.value(op, "x")
    weight, bias = like(reader, op, "weight", x), like(reader, op, "bias", x)
    if weight is None:
        raise Refusal("it has no weight")
    stored = reader.value(op, "weight")
    if stored.shape is None:
        raise Refusal("the number of axes of its weight isn't known")
    kernel = [size_of(stored, axis) for axis in range(2, len(stored.shape))]
    return [x, weight, *([bias] if bias is not None else [])], kernel


@reads("conv")
def conv(reader: Reader, op: Operation) -> None:
    operands, kernel = _operands(reader, op)
    attributes = _steps(reader, op, len(kernel)) | paddings(reader, op, len(kernel))
    reader.give(op, reader.node("Conv", operands, attributes))


@reads("conv_transpose")
def conv_transpose(reader: Reader, op: Operation) -> None:
    """ConvTranspose. What its paddings take away may be less than nothing at the end of an axis:
    then the output is padded (``output_padding``)."""
    operands, kernel = _operands(reader, op)
    attributes = _steps(reader, op, len(kernel))
    cuts = _cuts(reader, op, operands[0], kernel, attributes)
    before, after = [cut[0] for cut in cuts], [cut[1] for cut in cuts]
    if min(before, default=0) < 0:
        raise Refusal("its output is larger than the kernel reaches at the start")
    attributes["pads"] = [*before, *(max(0, cut) for cut in after)]
    attributes["output_padding"] = [max(0, -cut) for cut in after]
    reader.give(op, reader.node("ConvTranspose", operands, attributes))


def _cuts(
    reader: Reader,
    op: Operation,
    x: onnx_ir.Value,
    kernel: list[int | None],
    steps: dict[str, Attribute],
) -> list[tuple[int, int]]:
    """What is cut off before and after each axis of the whole product, whose size is
    stride * (size - 1) + dilated kernel."""
    axes, cuts = len(kernel), []
    kind = str(reader.setting(op, "pad_type", "valid")).lower()
    if kind not in ("custom", "valid", "same"):
        raise Refusal(f"padding of the kind {kind}")
    pad = _pad(reader, op, axes) if kind == "custom" else [0] * 2 * axes
    sizes = reader.setting(op, "output_shape")
    strides, dilations = _ints(steps["strides"]), _ints(steps["dilations"])
    for axis, length in enumerate(kernel):
        reach = None if length is None else (length - 1) * dilations[axis] + 1
        size = None if sizes is None else int(sizes[axis - axes])
        whole = _whole(size_of(x, axis + 2), strides[axis], reach)
        if size is not None and whole is None:
            raise Refusal("it has an output_shape, and the size of its input is free")
        if kind == "same":
            total = _excess(size, whole, reach, strides[axis])
            before = max(0, total) // 2
            cuts.append((before, total - before))
        elif size is not None and whole is not None:
            cuts.append((pad[2 * axis], whole - size - pad[2 * axis]))
        else:
            cuts.append((pad[2 * axis], pad[2 * axis + 1]))
    return cuts


def _whole(size: int | None, stride: int, reach: int | None) -> int | None:
    return None if size is None or reach is None else stride * (size - 1) + reach


def _excess(size: int | None, whole: int | None, reach: int | None, stride: int) -> int:
    """How much longer the whole product is than the output, which is stride * size unless said."""
    if size is not None and whole is not None:
        return whole - size
    if reach is None:
        raise Refusal("the size of its kernel is free, and its padding depends on that size")
    return reach - stride


def _ints(numbers: Attribute) -> list[int]:
    assert isinstance(numbers, list)
    return [int(number) for number in numbers]
