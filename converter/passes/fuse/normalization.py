"""Makes one operator of a normalization that is spelled out (:mod:`.fuse_moments`).

1. Over the last axes: LayerNormalization (opset 17).
2. Over all but batch and channels: InstanceNormalization, where a scale for each channel follows,
   or nothing that would tell it from case 1 and there is more than one such axis.
3. Without the mean (RMSNormalization, an operator from opset 23 on): one form of it,
   ``x / sqrt(mean(x * x) + epsilon)``, which targets look for.
4. Scales and shifts by constants after LayerNormalization, InstanceNormalization and
   BatchNormalization go into their scale and bias.

GroupNormalization has one scale for each group in opset 18 to 20, where networks have one for
each channel, and ONNX itself deprecates it; PyTorch's export, InstanceNormalization between two
Reshapes, stays. A variance as ``mean(x^2) - mean(x)^2`` stays: its rounding is another.
onnxscript's rule for case 1 knows axis -1 alone and doesn't look at the scale's shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir
from onnx_ir import DataType

from converter.ir.edit import constant_tensor, static_shape
from converter.ir.facts import ARITHMETIC
from converter.passes.fuse.affine import Affine, read_affine
from converter.passes.fuse.moments import Moments, Spread, normalized, spread
from converter.passes.fuse.patterns import (
    Array,
    Edit,
    FusePass,
    Rule,
    as_type_of,
    floats,
    input_of,
    producer,
    scalar,
    used_elsewhere,
)


@dataclass(frozen=True)
class Spelled:
    """A normalization and the node that it ends with."""

    root: onnx_ir.Node
    moments: Moments
    scale: onnx_ir.Value | None = None
    bias: onnx_ir.Value | None = None


class Centered(Rule[Spelled]):
    """Cases 1 and 2."""

    name = "layer-normalization"
    roots = ARITHMETIC

    def pattern(self, node: onnx_ir.Node) -> Spelled | None:
        """A quotient, or the form with a product and a sum."""
        if node.op_type in ("Div", "Mul"):
            moments = normalized(node)
            return Spelled(node, moments) if moments is not None and moments.centered else None
        found: Spread | None = spread(node)
        return Spelled(node, found.moments, found.scale, found.bias) if found is not None else None

    def check(self, match: Spelled) -> str:
        """Axes, sizes and types that one of the operators takes."""
        moments = match.moments
        wrong = _wrong(moments) or used_elsewhere(
            [node for node in moments.nodes if node is not match.root], match.root
        )
        if wrong:
            return wrong
        if _is_instance(match):
            return ""
        shape = _shape(moments)
        assert moments.axes is not None
        first = moments.axes[0]
        if moments.axes != tuple(range(first, len(shape))):
            return f"axes {list(moments.axes)} of {len(shape)} aren't the last ones"
        if not all(isinstance(dim, int) for dim in shape[first:]):
            return f"the sizes of its axes {shape[first:]} aren't known"
        for value in (match.scale, match.bias):
            if value is not None and _over(value, shape, first) is None:
                return f"{value.name} doesn't have the shape of the normalized axes"
        return ""

    def rewrite(self, match: Spelled, edit: Edit) -> None:
        """The operator with scale and bias, ones and none where there are none."""
        moments, base = match.moments, match.root.name or "normalization"
        if _is_instance(match):
            self._instance(match, edit)
            return
        shape = _shape(moments)
        assert moments.axes is not None and moments.epsilon is not None
        first = moments.axes[0]
        scale = _over(match.scale, shape, first) if match.scale is not None else None
        if scale is None:
            scale = np.ones([dim for dim in shape[first:] if isinstance(dim, int)])
        inputs = [moments.x, edit.constant(as_type_of(scale, moments.x), f"{base}_scale")]
        bias = _over(match.bias, shape, first) if match.bias is not None else None
        if bias is not None:
            inputs.append(edit.constant(as_type_of(bias, moments.x), f"{base}_bias"))
        attributes = {"axis": first - len(shape), "epsilon": moments.epsilon}
        edit.replace(match.root, onnx_ir.node("LayerNormalization", inputs, attributes))

    def _instance(self, match: Spelled, edit: Edit) -> None:
        moments, base = match.moments, match.root.name or "normalization"
        channels = _shape(moments)[1]
        assert isinstance(channels, int) and moments.epsilon is not None
        scale = edit.constant(as_type_of(np.ones(channels), moments.x), f"{base}_scale")
        bias = edit.constant(as_type_of(np.zeros(channels), moments.x), f"{base}_bias")
        attributes = {"epsilon": moments.epsilon}
        inputs = [moments.x, scale, bias]
        edit.replace(match.root, onnx_ir.node("InstanceNormalization", inputs, attributes))


def _shape(moments: Moments) -> list[int | str | None]:
    shape = static_shape(moments.x)
    assert shape is not None
    return shape


def _wrong(moments: Moments) -> str:
    if moments.axes is None:
        return "its axes aren't known"
    if moments.epsilon is None or not moments.epsilon > 0:
        return "the value added to the variance isn't a positive constant"
    if moments.x.dtype != DataType.FLOAT:
        return f"it computes in {moments.x.dtype}; the operator in float32"
    return "" if moments.axes else "it normalizes over no axis"


def _is_instance(match: Spelled) -> bool:
    """Whether it is over all axes from the second on, and what follows is by channel."""
    shape, axes = _shape(match.moments), match.moments.axes
    if len(shape) < 3 or axes != tuple(range(2, len(shape))) or not isinstance(shape[1], int):
        return False
    if match.scale is not None or match.bias is not None:
        return False
    following = _following(match.root)
    if following is None or scalar(following.constants[0]) is not None:
        return len(axes) > 1
    return not isinstance(following.by_channel(shape[1], 1, len(shape)), str)


def _following(node: onnx_ir.Node) -> Affine | None:
    """The only user, where it scales or shifts by a constant."""
    uses = list(node.outputs[0].uses())
    if len(uses) != 1 or node.outputs[0].is_graph_output():
        return None
    affine = read_affine(uses[0].node)
    return affine if affine is not None and uses[0].node.op_type in ("Mul", "Add") else None


def _over(
    value: onnx_ir.Value | None, shape: Sequence[int | str | None], first: int
) -> Array | None:
    """A constant as one number for each element from axis ``first`` on; None where it isn't."""
    tensor, sizes = constant_tensor(value), shape[first:]
    if tensor is None:
        return None
    own = [int(dim) for dim in tensor.shape if isinstance(dim, int)]
    while own and len(own) > len(sizes) and own[0] == 1 and len(own) <= len(shape):
        own = own[1:]
    array = floats(value)
    if array is None or len(own) > len(sizes):
        return None
    ends = sizes[len(sizes) - len(own) :]
    if any(size not in (1, dim) for size, dim in zip(own, ends, strict=True)):
        return None
    return np.broadcast_to(array.reshape(own), [dim for dim in sizes if isinstance(dim, int)])


class WithoutMean(Rule[Spelled]):
    """Case 3."""

    name = "rms-normalization"
    roots = frozenset({"Mul", "Div"})

    def pattern(self, node: onnx_ir.Node) -> Spelled | None:
        """x over the root of its mean square, in another form than the one wanted."""
        moments = normalized(node)
        if moments is None or moments.centered:
            return None
        kinds = {item.op_type for item in moments.nodes}
        done = node.op_type == "Div" and kinds == {"Div", "Sqrt", "Add", "ReduceMean", "Mul"}
        return None if done else Spelled(node, moments)

    def check(self, match: Spelled) -> str:
        """Whether everything between is its alone."""
        inner = [node for node in match.moments.nodes if node is not match.root]
        return used_elsewhere(inner, match.root)

    def rewrite(self, match: Spelled, edit: Edit) -> None:
        """The square as a product, the root as Sqrt, the rest as a quotient."""
        x, root = match.moments.x, match.root
        by_type = {node.op_type: node for node in match.moments.nodes}
        square = edit.insert(root, onnx_ir.node("Mul", [x, x]), x)
        mean, total = by_type["ReduceMean"], by_type["Add"]
        new = onnx_ir.node("ReduceMean", [square, *mean.inputs[1:]], dict(mean.attributes))
        averaged = edit.insert(root, new, mean.outputs[0])
        epsilon = next(value for value in total.inputs if value is not mean.outputs[0])
        summed = edit.insert(root, onnx_ir.node("Add", [averaged, epsilon]), total.outputs[0])
        below = edit.insert(root, onnx_ir.node("Sqrt", [summed]), total.outputs[0])
        edit.replace(root, onnx_ir.node("Div", [x, below]))


@dataclass(frozen=True)
class After:
    """A scale or shift after a normalization."""

    normalization: onnx_ir.Node
    affine: Affine


class ScaledAfter(Rule[After]):
    """Case 4."""

    name = "affine-after-normalization"
    roots = ARITHMETIC

    def pattern(self, node: onnx_ir.Node) -> After | None:
        """An affine node on what a normalization gives."""
        affine = read_affine(node)
        before = producer(
            affine.source if affine is not None else None,
            "LayerNormalization",
            "InstanceNormalization",
            "BatchNormalization",
        )
        return After(before, affine) if affine is not None and before is not None else None

    def check(self, match: After) -> str:
        """Whether the constants are the normalization's, and its own are known."""
        node = match.normalization
        if any(out.uses() or out.is_graph_output() for out in node.outputs[1:]):
            return "its mean or variance is used"
        found = self._fold(match)
        return used_elsewhere([node], match.affine.node) or (
            found if isinstance(found, str) else ""
        )

    def rewrite(self, match: After, edit: Edit) -> None:
        """The normalization with other constants."""
        found = self._fold(match)
        assert not isinstance(found, str)
        node, inputs = match.normalization, list(match.normalization.inputs)
        scale = inputs[1]
        assert scale is not None
        rounded = [as_type_of(array, scale) for array in found]
        inputs[1] = edit.with_contents(scale, rounded[0])
        bias = input_of(node, 2)
        if bias is not None:
            inputs[2] = edit.with_contents(bias, rounded[1])
        elif match.affine.shifts:
            inputs[2:] = [edit.constant(rounded[1], f"{node.name}_bias")]
        new = onnx_ir.node(node.op_type, inputs, dict(node.attributes))
        edit.replace(match.affine.node, new, node.name)

    def _fold(self, match: After) -> tuple[Array, Array] | str:
        node = match.normalization
        scale, bias = floats(node.inputs[1]), floats(input_of(node, 2))
        if scale is None or (bias is None and input_of(node, 2) is not None):
            return "its scale or bias isn't constant"
        numbers = self._numbers(match, scale)
        if isinstance(numbers, str):
            return numbers
        factor, shift = numbers
        with np.errstate(invalid="ignore"):
            results = scale * factor, (0 if bias is None else bias) * factor + shift
        if any(np.abs(array).max(initial=0) > 3e38 for array in results) or any(
            not np.isfinite(array).all() for array in results
        ):
            return "the folded numbers aren't finite"
        return results

    def _numbers(self, match: After, scale: Array) -> tuple[Array, Array] | str:
        node, affine = match.normalization, match.affine
        shape = static_shape(node.inputs[0])
        if shape is None:
            return "the number of axes of the normalized tensor isn't known"
        if node.op_type != "LayerNormalization":
            return affine.by_channel(scale.size, 1, len(shape))
        first = node.attributes.get_int("axis", -1) % len(shape)
        if list(scale.shape) != shape[first:]:
            return f"its scale of shape {list(scale.shape)} isn't that of {shape[first:]}"
        array = _over(affine.constants[0], shape, first)
        if array is None:
            return f"{affine.constants[0].name} doesn't have the shape of the normalized axes"
        return _line(affine, array)


def _line(affine: Affine, array: Array) -> tuple[Array, Array]:
    one, zero = np.ones_like(array), np.zeros_like(array)
    if affine.node.op_type == "Mul":
        return array, zero
    if affine.node.op_type == "Div":
        with np.errstate(divide="ignore"):
            return one / array, zero
    if affine.node.op_type == "Add":
        return one, array
    return (one, -array) if affine.node.inputs[0] is affine.source else (-one, array)


class FuseNormalization(FusePass):
    """Applies the module's rules."""

    name = "fuse-normalization"
    summary = "LayerNormalization, InstanceNormalization, one form of RMSNormalization"
    rules: ClassVar[Sequence[Rule[Any]]] = (Centered(), WithoutMean(), ScaledAfter())
