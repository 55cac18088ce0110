"""Nodes that scale and shift by constants, as the fusing rules see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, constant_tensor, is_op
from converter.ir.facts import ARITHMETIC
from converter.passes.fuse.patterns import Array, either_order, floats

AFFINE = ARITHMETIC | {"Neg", "BatchNormalization"}


@dataclass(frozen=True)
class Affine:
    """A node that computes ``x * scale + shift``.

    Attributes:
        node: The node.
        source: Its ``x``.
        constants: The constants that it has them from; a Neg has none.
    """

    node: onnx_ir.Node
    source: onnx_ir.Value
    constants: tuple[onnx_ir.Value, ...]

    @property
    def shifts(self) -> bool:
        """Whether it adds something."""
        return self.node.op_type in ("Add", "Sub", "BatchNormalization")

    @property
    def scales(self) -> bool:
        """Whether it multiplies by something other than 1."""
        negated = self.node.op_type == "Sub" and self.node.inputs[1] is self.source
        return negated or self.node.op_type in ("Mul", "Div", "Neg", "BatchNormalization")

    def by_channel(self, channels: int, axis: int, rank: int | None) -> tuple[Array, Array] | str:
        """Scale and shift as float64 [channels] each, or why they aren't.

        Args:
            channels: How many there are.
            axis: Where they are in ``source``; -1 for the last where ``rank`` isn't known.
            rank: Of ``source``.
        """
        if self.node.op_type == "BatchNormalization":
            return self._normalization(channels, axis)
        one, zero = np.ones(channels), np.zeros(channels)
        if self.node.op_type == "Neg":
            return -one, zero
        array = _spread(self.constants[0], channels, axis, rank)
        if isinstance(array, str):
            return array
        if self.node.op_type == "Mul":
            return array, zero
        if self.node.op_type == "Add":
            return one, array
        if self.node.op_type == "Div":
            with np.errstate(divide="ignore"):
                return one / array, zero
        return (one, -array) if self.node.inputs[0] is self.source else (-one, array)

    def _normalization(self, channels: int, axis: int) -> tuple[Array, Array] | str:
        if axis != 1:
            return f"it normalizes axis 1, and the channels are on axis {axis}"
        arrays = [floats(value) for value in self.constants]
        if any(array is None or array.shape != (channels,) for array in arrays):
            return f"its parameters aren't {channels} constants each"
        scale, shift, mean, variance = (array for array in arrays if array is not None)
        epsilon = self.node.attributes.get_float("epsilon", 1e-5)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = scale / np.sqrt(variance + epsilon)
            return factor, shift - mean * factor


def _spread(value: onnx_ir.Value, channels: int, axis: int, rank: int | None) -> Array | str:
    """A constant as one number for each channel, or why it isn't that."""
    tensor = constant_tensor(value)
    assert tensor is not None
    shape = [int(dim) for dim in tensor.shape if isinstance(dim, int)]
    words = f"its constant {value.name} of shape {shape}"
    if tensor.size == 1 and (rank is None or len(shape) <= rank):
        array = floats(value)
        assert array is not None
        return np.broadcast_to(array.reshape(-1), (channels,)).copy()
    limit = 1 if rank is None else rank
    if len(shape) > limit:
        return f"{words} has more dimensions than the {limit} it is applied to"
    at = (axis if axis < 0 else axis - limit) + len(shape)
    others = [size for place, size in enumerate(shape) if place != at]
    if at < 0 or any(size != 1 for size in others) or shape[at] != channels:
        return f"{words} isn't one number for each of {channels} channels"
    array = floats(value)
    assert array is not None
    return array.reshape(-1)


def read_affine(node: onnx_ir.Node) -> Affine | None:
    """``node`` as an :class:`Affine`; None where it isn't one, or not by constants."""
    if is_op(node, "BatchNormalization"):
        return _read_normalization(node)
    if not is_op(node, *AFFINE) or node.inputs[0] is None:
        return None
    if node.op_type == "Neg":
        return Affine(node, node.inputs[0], ())
    for source, other in either_order(node)[: 1 if node.op_type == "Div" else 2]:
        tensor = constant_tensor(other)
        if (
            tensor is None
            or not tensor.dtype.is_floating_point()
            or constant_tensor(source) is not None
        ):
            continue
        return Affine(node, source, (other,))
    return None


def _read_normalization(node: onnx_ir.Node) -> Affine | None:
    if attribute_int(node, "training_mode", 0) != 0 or len(node.inputs) != 5:
        return None
    if any(out.uses() or out.is_graph_output() for out in node.outputs[1:]):
        return None
    values = [value for value in node.inputs if value is not None]
    if len(values) != 5 or any(constant_tensor(value) is None for value in values[1:]):
        return None
    return Affine(node, values[0], tuple(values[1:]))
