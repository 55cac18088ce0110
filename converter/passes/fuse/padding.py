"""Lets convolutions and pools do the padding before them.

1. Pad by zeros before Conv, also before a Reshape that only adds axes of size 1, which is how
   a convolution of sound becomes one of images.
2. Pad by zeros before AveragePool: those zeros count, so that it takes over the padding only
   where it counts its own too, or has none.
3. Pad by minus infinity, or by float32's lowest number, before MaxPool, which pads with minus
   infinity itself; also by zeros, where nothing that is pooled is negative and each window sees
   some of it.
4. Pad by a constant before another by the same one.

Only spatial axes, nothing cut off (a negative pad), no ``auto_pad``, which sizes itself by its
input, and no ``ceil_mode``, whose last window may lie in the padding.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, attribute_ints, static_shape
from converter.passes.fuse.pads import Padding, not_negative, read_padding
from converter.passes.fuse.patterns import (
    Edit,
    FusePass,
    Rule,
    input_of,
    only_used_by,
    producer,
    used_elsewhere,
)

LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Padded:
    """A node and the Pad before it."""

    pad: onnx_ir.Node
    node: onnx_ir.Node


class _IntoWindow(Rule[Padded]):
    """Pad before an operator that slides a window."""

    def pattern(self, node: onnx_ir.Node) -> Padded | None:
        """The operator's data comes from a Pad."""
        pad = producer(node.inputs[0], "Pad")
        return Padded(pad, node) if pad is not None else None

    def check(self, match: Padded) -> str:
        """Whether the operator would pad the same."""
        used = used_elsewhere([match.pad], match.node)
        padding = read_padding(match.pad)
        if used or isinstance(padding, str):
            return used or str(padding)
        return _takes(match.node, padding) or self.check_operator(match, padding)

    @abstractmethod
    def check_operator(self, match: Padded, padding: Padding) -> str:
        """What this operator wants besides."""

    def attributes(self, match: Padded) -> dict[str, int]:
        """Attributes that change besides ``pads``."""
        return {}

    def rewrite(self, match: Padded, edit: Edit) -> None:
        """The operator with both paddings."""
        padding = read_padding(match.pad)
        assert not isinstance(padding, str)
        attributes: dict[str, Any] = {
            key: value for key, value in match.node.attributes.items() if key != "auto_pad"
        }
        attributes |= self.attributes(match)
        attributes["pads"] = _sum(padding, match.node)
        inputs = [match.pad.inputs[0], *match.node.inputs[1:]]
        edit.replace(match.node, onnx_ir.node(match.node.op_type, inputs, attributes))


def _takes(node: onnx_ir.Node, padding: Padding) -> str:
    """Why an operator with a window can't do this padding, whatever it pads with."""
    if min(*padding.begin, *padding.end) < 0:
        return "it cuts something off"
    if any(padding.begin[:2]) or any(padding.end[:2]):
        return "it pads the batch or the channels"
    if node.attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return "auto_pad sizes itself by the padded data"
    if attribute_int(node, "ceil_mode", 0):
        return "with ceil_mode the last window may be inside the padding"
    return ""


def _own_pads(node: onnx_ir.Node) -> list[int]:
    return attribute_ints(node, "pads") or []


def _sum(padding: Padding, node: onnx_ir.Node) -> list[int]:
    own = _own_pads(node) or [0] * len(padding.spatial)
    return [a + b for a, b in zip(own, padding.spatial, strict=True)]


class IntoConvolution(_IntoWindow):
    """Case 1."""

    name = "pad-into-conv"
    roots = frozenset({"Conv"})

    def check_operator(self, match: Padded, padding: Padding) -> str:
        """Convolutions pad with zeros."""
        return self.wants(padding)

    @staticmethod
    def wants(padding: Padding) -> str:
        """Why a Conv wouldn't pad like this."""
        return "" if padding.value == 0 else f"it pads with {padding.value:g}, a Conv with 0"


@dataclass(frozen=True)
class PaddedAndReshaped:
    """A convolution, the Reshape before it, and the Pad before that."""

    pad: onnx_ir.Node
    reshape: onnx_ir.Node
    node: onnx_ir.Node


class IntoConvolutionFarther(Rule[PaddedAndReshaped]):
    """Case 1 with a Reshape between: the Pad moves behind it, where it goes into the Conv."""

    name = "pad-and-reshape-into-conv"
    roots = frozenset({"Conv"})

    def pattern(self, node: onnx_ir.Node) -> PaddedAndReshaped | None:
        """Conv of a Reshape or Unsqueeze of a Pad."""
        reshape = producer(node.inputs[0], "Reshape", "Unsqueeze")
        pad = producer(reshape.inputs[0], "Pad") if reshape is not None else None
        return PaddedAndReshaped(pad, reshape, node) if pad and reshape else None

    def check(self, match: PaddedAndReshaped) -> str:
        """Whether the axes stay apart, and the Conv would take the Pad."""
        used = used_elsewhere([match.pad, match.reshape], match.node)
        moved = _moved(match)
        if used or isinstance(moved, str):
            return used or str(moved)
        padding, _ = moved
        return _takes(match.node, padding) or IntoConvolution.wants(padding)

    def rewrite(self, match: PaddedAndReshaped, edit: Edit) -> None:
        """The Reshape of what isn't padded, and a Conv that pads."""
        moved = _moved(match)
        assert not isinstance(moved, str)
        padding, target = moved
        shape = edit.constant(np.array(target, np.int64), f"{match.reshape.name}_shape")
        new = onnx_ir.node("Reshape", [match.pad.inputs[0], shape], name=match.reshape.name)
        reshaped = edit.insert(match.reshape, new)
        reshaped.type = match.reshape.outputs[0].type
        old = match.reshape.outputs[0].shape
        assert old is not None
        reshaped.shape = onnx_ir.Shape(
            [dim if size == -1 else size for dim, size in zip(old, target, strict=True)]
        )
        attributes: dict[str, Any] = dict(match.node.attributes)
        attributes.pop("auto_pad", None)
        attributes["pads"] = _sum(padding, match.node)
        inputs = [reshaped, *match.node.inputs[1:]]
        edit.replace(match.node, onnx_ir.node("Conv", inputs, attributes))


def _moved(match: PaddedAndReshaped) -> tuple[Padding, list[int]] | str:
    """The padding in terms of the Reshape's result, and the target without it; or why not."""
    padding = read_padding(match.pad)
    before = static_shape(match.reshape.inputs[0])
    after = static_shape(match.reshape.outputs[0])
    if isinstance(padding, str) or before is None or after is None:
        return padding if isinstance(padding, str) else "its shapes aren't known"
    old = [axis for axis, dim in enumerate(before) if dim != 1]
    new = [axis for axis, dim in enumerate(after) if dim != 1]
    sizes = [[dim if isinstance(dim, int) else -1 for dim in shape] for shape in (before, after)]
    kept = [sizes[0][axis] for axis in old]
    if kept != [sizes[1][axis] for axis in new] or kept.count(-1) > 1 or 0 in kept:
        return f"{before} becomes {after}, which may be more than axes of size 1"
    begin, end, target = [0] * len(after), [0] * len(after), sizes[1]
    for one, other in zip(old, new, strict=True):
        begin[other], end[other] = padding.begin[one], padding.end[one]
        if begin[other] or end[other]:
            if target[other] < 0:
                return "it pads an axis of unknown size"
            target[other] -= begin[other] + end[other]
    if sum(begin) + sum(end) != sum(padding.begin) + sum(padding.end) or min(begin + end) < 0:
        return "it cuts something off, or pads an axis of size 0"
    return Padding(tuple(begin), tuple(end), padding.value), target


class IntoAveragePool(_IntoWindow):
    """Case 2."""

    name = "pad-into-average-pool"
    roots = frozenset({"AveragePool"})

    def check_operator(self, match: Padded, padding: Padding) -> str:
        """The zeros that are counted now are counted after."""
        if padding.value != 0:
            return f"it pads with {padding.value:g}, an AveragePool with 0"
        if any(_own_pads(match.node)) and not attribute_int(match.node, "count_include_pad", 0):
            return "the pool counts the Pad's zeros and not its own"
        return _some_data_in_each_window(match.node, padding)

    def attributes(self, match: Padded) -> dict[str, int]:
        """All that is padded is counted."""
        return {"count_include_pad": 1}


class IntoMaxPool(_IntoWindow):
    """Case 3."""

    name = "pad-into-max-pool"
    roots = frozenset({"MaxPool"})

    def check_operator(self, match: Padded, padding: Padding) -> str:
        """What is padded never is the largest."""
        if len(match.node.outputs) > 1:
            return "its indices count the padding"
        if padding.value > LOWEST and not (
            padding.value == 0 and not_negative(match.pad.inputs[0])
        ):
            return f"it pads with {padding.value:g}, which may be the largest of a window"
        return _some_data_in_each_window(match.node, padding)


def _some_data_in_each_window(node: onnx_ir.Node, padding: Padding) -> str:
    """A window of ``k`` that starts at most ``k - 1`` early, or ends as late, meets the data."""
    kernel = attribute_ints(node, "kernel_shape") or []
    if any(step != 1 for step in attribute_ints(node, "dilations") or []):
        return "a dilated window may meet nothing but padding"
    if any(pad >= size for pad, size in zip(_sum(padding, node), [*kernel, *kernel], strict=True)):
        return f"windows of {kernel} may meet nothing but padding"
    return ""


class PadOfPad(Rule[Padded]):
    """Case 4."""

    name = "pad-of-pad"
    roots = frozenset({"Pad"})

    def pattern(self, node: onnx_ir.Node) -> Padded | None:
        """One Pad after another."""
        pad = producer(node.inputs[0], "Pad")
        return Padded(pad, node) if pad is not None else None

    def check(self, match: Padded) -> str:
        """Both known, by the same number, and nothing cut off."""
        first, second = read_padding(match.pad), read_padding(match.node)
        if isinstance(first, str) or isinstance(second, str):
            return str(first) if isinstance(first, str) else str(second)
        if not only_used_by(match.pad.outputs[0], [match.node]):
            return f"{match.pad.outputs[0].name} is used elsewhere too"
        if min(*first.begin, *first.end, *second.begin, *second.end) < 0:
            return "one of them cuts something off"
        if first.value != second.value:
            return f"one pads with {first.value:g}, the other with {second.value:g}"
        return ""

    def rewrite(self, match: Padded, edit: Edit) -> None:
        """One Pad by the sum."""
        first, second = read_padding(match.pad), read_padding(match.node)
        assert not isinstance(first, str) and not isinstance(second, str)
        one, other = (*first.begin, *first.end), (*second.begin, *second.end)
        total = np.array([a + b for a, b in zip(one, other, strict=True)], np.int64)
        pads = edit.constant(total, f"{match.node.name}_pads")
        inputs = [match.pad.inputs[0], pads, input_of(match.pad, 2)]
        edit.replace(match.node, onnx_ir.node("Pad", inputs))


class FusePadding(FusePass):
    """Applies the module's rules."""

    name = "fuse-padding"
    summary = "lets Conv, AveragePool and MaxPool do the padding before them"
    rules: ClassVar[Sequence[Rule[Any]]] = (
        IntoConvolution(),
        IntoConvolutionFarther(),
        IntoAveragePool(),
        IntoMaxPool(),
        PadOfPad(),
    )
