"""conv."""

from __future__ import annotations

from parsers.coreml_import.operation import Operation
from parsers.coreml_import.reader import Reader
from parsers.coreml_import.refusal import Refusal
from parsers.coreml_import.registry import reads


@reads("conv")
def conv(reader: Reader, op: Operation) -> None:
    """Conv: paddings are before and after each axis in turn there, all before, then all after
    here."""
    x, weight = reader.value(op, "x"), reader.value(op, "weight")
    assert weight.shape is not None
    axes = len(weight.shape) - 2
    kind = reader.setting(op, "pad_type", "valid")
    if kind not in ("custom", "valid"):
        raise Refusal(f"padding of the kind {kind}")
    pad = reader.setting(op, "pad", [0] * 2 * axes) if kind == "custom" else [0] * 2 * axes
    attributes = {
        "strides": reader.setting(op, "strides", [1] * axes),
        "dilations": reader.setting(op, "dilations", [1] * axes),
        "group": reader.setting(op, "groups", 1),
        "pads": [*pad[::2], *pad[1::2]],
    }
    inputs = [x, weight, reader.optional(op, "bias")]
    reader.give(
        op, reader.node("Conv", inputs if inputs[2] is not None else inputs[:2], attributes)
    )
