"""Folds constant scales and shifts into the weights of the linear nodes beside them.

    Conv(x, W, b) * s + t              ->  Conv(x, W * s, b * s + t)
    Conv(x * s + t, W, b)              ->  Conv(x, W * s, b + W t)

1. Mul, Div, Add, Sub and BatchNormalization, by one number for each channel, after Conv,
   ConvTranspose, Gemm, and MatMul.
2. The same before Conv, Gemm and MatMul; before ConvTranspose scales alone. A shift goes into a
   Conv only where it pads nothing: its zeros aren't shifted.
3. MatMul of matrices (rank 2, nothing else) with a constant added becomes a Gemm.
4. ``Conv(x * s + t, W)`` whose shift has to stay becomes ``Conv(x + t / s, W * s)``.
5. One number that something farther on is multiplied by (:mod:`.fuse_scale`).

The mean that follows a network's last convolution becomes a pool (:mod:`.fuse_mean`); here, because
normalizations, which have means too, are recognized by now.

BatchNormalization computes ``(x - mean) / sqrt(variance + epsilon) * scale + shift`` (ONNX's
operator page); with constants that is a scale and a shift. The numbers are worked out in float64
and rounded once. Weights that others use too are copied.

onnxscript's rules for case 1 want a weight that nothing else uses, and don't look at
``training_mode``; it has none for the rest but for single numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, static_shape
from converter.ir.facts import MATRIX_PRODUCTS
from converter.passes.fuse.affine import AFFINE, Affine, read_affine
from converter.passes.fuse.linear import Linear, linear_of, read_linear
from converter.passes.fuse.mean import MeanOfImage
from converter.passes.fuse.patterns import (
    Array,
    Edit,
    FusePass,
    Rule,
    as_type_of,
    floats,
    producer,
    used_elsewhere,
)
from converter.passes.fuse.scale import ScaleFarther


@dataclass(frozen=True)
class Pair:
    """A linear node and an affine one beside it."""

    linear: onnx_ir.Node
    affine: Affine


@dataclass(frozen=True)
class Folded:
    """What a pair comes to: None is what the linear node has already."""

    linear: Linear
    weight: Array | None
    bias: Array | None


class AffineAfter(Rule[Pair]):
    """Scale and shift what a linear node gives."""

    name = "affine-after-linear"
    roots = AFFINE

    def pattern(self, node: onnx_ir.Node) -> Pair | None:
        """An affine node whose source is a linear one; an Add to a MatMul of more than two
        dimensions is as it should be."""
        affine = read_affine(node)
        linear = linear_of(affine.source) if affine is not None else None
        if affine is None or linear is None:
            return None
        shape = static_shape(linear.inputs[0])
        flat = shape is not None and len(shape) == 2
        if linear.op_type == "MatMul" and not affine.scales and not flat:
            return None
        return Pair(linear, affine)

    def check(self, match: Pair) -> str:
        """Whether the numbers are one for each channel, and nobody else needs what is between."""
        used = used_elsewhere([match.linear], match.affine.node)
        if used:
            return used
        folded = self._fold(match)
        return folded if isinstance(folded, str) else ""

    def rewrite(self, match: Pair, edit: Edit) -> None:
        """A linear node with other weights, under its own name."""
        folded = self._fold(match)
        assert not isinstance(folded, str)
        source = match.linear.inputs[0]
        assert source is not None
        new = folded.linear.rewritten(edit, source, folded.weight, folded.bias)
        edit.replace(match.affine.node, new, match.linear.name)

    def _fold(self, match: Pair) -> Folded | str:
        linear = read_linear(match.linear)
        if isinstance(linear, str):
            return linear
        numbers = match.affine.by_channel(linear.channels, linear.axis, linear.rank)
        if isinstance(numbers, str):
            return numbers
        bias = linear.bias()
        if isinstance(bias, str):
            return bias
        scale, shift = numbers
        with np.errstate(invalid="ignore"):
            return _fold(linear, match.affine, scale, bias * scale + shift)


def _fold(linear: Linear, affine: Affine, scale: Array, bias: Array) -> Folded | str:
    has_bias = len(linear.node.inputs) > 2 and linear.node.inputs[2] is not None
    wants_bias = affine.shifts or has_bias
    if wants_bias and not linear.takes_bias:
        return "a MatMul of more than two dimensions takes no bias"
    weight = _scaled(linear, scale, inputs=False) if affine.scales else None
    if not _fits(linear, weight) or not _fits(linear, bias):
        return "the folded numbers aren't finite"
    return Folded(linear, weight, bias if wants_bias else None)


def _scaled(linear: Linear, scale: Array, *, inputs: bool) -> Array:
    weight = floats(linear.weight)
    assert weight is not None
    with np.errstate(invalid="ignore"):
        return linear.scaled_inputs(weight, scale) if inputs else linear.scaled(weight, scale)


def _fits(linear: Linear, array: Array | None) -> bool:
    if array is None:
        return True
    assert linear.weight.dtype is not None
    largest = float(linear.weight.dtype.max)
    return bool(np.isfinite(array).all()) and float(np.max(np.abs(array), initial=0)) <= largest


class AffineBefore(Rule[Pair]):
    """Scale and shift what goes into a linear node."""

    name = "affine-before-linear"
    roots = MATRIX_PRODUCTS

    def pattern(self, node: onnx_ir.Node) -> Pair | None:
        """A linear node whose source is an affine one."""
        before = node.inputs[0].producer() if node.inputs and node.inputs[0] else None
        affine = read_affine(before) if before is not None else None
        return Pair(node, affine) if affine is not None else None

    def check(self, match: Pair) -> str:
        """As :class:`AffineAfter`, and whether a shift reaches every output in full."""
        used = used_elsewhere([match.affine.node], match.linear)
        if used:
            return used
        folded = self._fold(match)
        return folded if isinstance(folded, str) else ""

    def rewrite(self, match: Pair, edit: Edit) -> None:
        """A linear node on the affine one's source."""
        folded = self._fold(match)
        assert not isinstance(folded, str)
        new = folded.linear.rewritten(edit, match.affine.source, folded.weight, folded.bias)
        edit.replace(match.linear, new)

    def _fold(self, match: Pair) -> Folded | str:
        linear, affine = read_linear(match.linear), match.affine
        if isinstance(linear, str):
            return linear
        numbers = _of_inputs(linear, affine)
        if isinstance(numbers, str):
            return numbers
        scale, shift = numbers
        if not affine.shifts:
            weight = _scaled(linear, scale, inputs=True)
            return Folded(linear, weight, None) if _fits(linear, weight) else "it isn't finite"
        if not linear.pads_nothing():
            return "it shifts, and the zeros that are padded with aren't shifted"
        bias, old = linear.bias(), floats(linear.weight)
        if isinstance(bias, str):
            return bias
        assert old is not None
        folded = _fold(linear, affine, np.ones(linear.channels), bias + linear.response(old, shift))
        if isinstance(folded, str):
            return folded
        weight = linear.scaled_inputs(old, scale)
        if not _fits(linear, weight):
            return "the folded numbers aren't finite"
        return Folded(linear, weight if affine.scales else None, folded.bias)


def _of_inputs(linear: Linear, affine: Affine) -> tuple[Array, Array] | str:
    """Scale and shift of what goes into a linear node, [inputs] each; or why they aren't."""
    if attribute_int(linear.node, "transA", 0):
        return "it takes its data transposed"
    shape = static_shape(affine.source)
    if shape is None:
        return f"the shape of {affine.source.name} isn't known"
    axis = len(shape) - 1 if linear.node.op_type in ("Gemm", "MatMul") else 1
    if axis >= len(shape) or shape[axis] != linear.inputs:
        return f"{affine.source.name} doesn't have {linear.inputs} channels on axis {axis}"
    return affine.by_channel(linear.inputs, axis, len(shape))


@dataclass(frozen=True)
class ScaledAndShifted:
    """A linear node, the shift before it, and the scale before that."""

    linear: onnx_ir.Node
    shift: Affine
    scale: Affine


class ScaleBeforeShift(Rule[ScaledAndShifted]):
    """Case 4, where the shift has to stay: the zeros of a padded Conv stay zeros when scaled."""

    name = "scale-before-shift"
    roots = MATRIX_PRODUCTS

    def pattern(self, node: onnx_ir.Node) -> ScaledAndShifted | None:
        """A linear node of a sum of a product, each with a constant."""
        before = producer(node.inputs[0], "Add", "Sub")
        shift = read_affine(before) if before is not None else None
        first = producer(shift.source, "Mul", "Div") if shift is not None else None
        scale = read_affine(first) if first is not None else None
        if shift is None or scale is None or shift.scales:
            return None
        return ScaledAndShifted(node, shift, scale)

    def check(self, match: ScaledAndShifted) -> str:
        """Whether both are by channel, and no channel is scaled by zero."""
        used = used_elsewhere([match.shift.node, match.scale.node], match.linear)
        folded = self._fold(match)
        return used or (folded if isinstance(folded, str) else "")

    def rewrite(self, match: ScaledAndShifted, edit: Edit) -> None:
        """The shift over the scale on the data, the scale in the weight."""
        folded = self._fold(match)
        assert not isinstance(folded, str)
        linear, shift, weight = folded
        old = match.shift.node
        name = match.shift.constants[0].name or "shift"
        constant = edit.constant(as_type_of(shift, linear.weight), name)
        total = onnx_ir.node("Add", [match.scale.source, constant], name=old.name)
        source = edit.insert(old, total, old.outputs[0])
        edit.replace(match.linear, linear.rewritten(edit, source, weight))

    def _fold(self, match: ScaledAndShifted) -> tuple[Linear, Array, Array] | str:
        linear = read_linear(match.linear)
        if isinstance(linear, str):
            return linear
        scale = _of_inputs(linear, match.scale)
        shift = _of_inputs(linear, match.shift)
        if isinstance(scale, str) or isinstance(shift, str):
            return str(scale) if isinstance(scale, str) else str(shift)
        weight = _scaled(linear, scale[0], inputs=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = shift[1] / scale[0]
        if not _fits(linear, weight) or not _fits(linear, moved):
            return "the folded numbers aren't finite"
        last = linear.node.op_type in ("Gemm", "MatMul")
        return linear, moved.reshape(-1, *[1] * (0 if last else weight.ndim - 2)), weight


class FuseConvolution(FusePass):
    """Applies the module's rules."""

    name = "fuse-convolution"
    summary = "folds normalizations, scales and biases into Conv, ConvTranspose, Gemm, MatMul"
    rules: ClassVar[Sequence[Rule[Any]]] = (
        AffineAfter(),
        AffineBefore(),
        ScaleBeforeShift(),
        ScaleFarther(),
        MeanOfImage(),
    )
