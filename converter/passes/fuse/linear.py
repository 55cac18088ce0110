"""Nodes that are linear in their data, with constant weights, as the fusing rules see them.

Conv, ConvTranspose, Gemm and MatMul (ONNX's operator pages of these names) all compute
``y = W x + b`` with one row of ``W`` for each output channel. What differs is where the channels
are in the weight, and which of them have a bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, attribute_ints, constant_tensor, static_shape
from converter.ir.facts import MATRIX_PRODUCTS
from converter.passes.fuse.patterns import Array, Edit, as_type_of, floats, input_of, producer

LARGE = 256 << 20
"""Bytes above which a weight isn't rewritten: that takes four times as much memory."""


@dataclass(frozen=True)
class Linear:
    """A linear node with a constant weight.

    Attributes:
        node: The node.
        weight: Its second input.
        channels, inputs: Channels that come out, and that go in.
        rank: Of the output; None where it isn't known.
        axis: The output's channel axis.
    """

    node: onnx_ir.Node
    weight: onnx_ir.Value
    channels: int
    inputs: int
    rank: int | None
    axis: int

    @property
    def takes_bias(self) -> bool:
        """Whether a bias can be written into it; a MatMul of matrices becomes a Gemm for that."""
        return self.node.op_type != "MatMul" or self.rank == 2

    def scaled(self, weight: Array, scale: Array) -> Array:
        """``weight`` with each output channel times its number; ``scale`` is [channels]."""
        if self.node.op_type != "ConvTranspose":
            return weight * _along(scale, weight.ndim, self._output_axis())
        groups = self._groups()
        grouped = scale.reshape(groups, 1, self.channels // groups, *[1] * (weight.ndim - 2))
        parts = weight.reshape(groups, -1, *weight.shape[1:])
        return np.asarray(parts * grouped).reshape(weight.shape)

    def scaled_inputs(self, weight: Array, scale: Array) -> Array:
        """``weight`` with each input channel times its number; ``scale`` is [inputs]."""
        if self.node.op_type != "Conv":
            axis = 1 if self._transposed() else 0
            return weight * _along(scale, weight.ndim, axis)
        groups = self._groups()
        parts = weight.reshape(groups, -1, *weight.shape[1:])
        grouped = scale.reshape(groups, 1, self.inputs // groups, *[1] * (weight.ndim - 2))
        return np.asarray(parts * grouped).reshape(weight.shape)

    def response(self, weight: Array, shift: Array) -> Array:
        """What comes out, [channels], where [inputs] numbers are all that goes in everywhere."""
        moved = self.scaled_inputs(weight, shift)
        others = tuple(axis for axis in range(weight.ndim) if axis != self._output_axis())
        return np.asarray(moved.sum(axis=others)) * self._float("alpha")

    def bias(self) -> Array | str:
        """The constant that is added, [channels]; or why it isn't known."""
        value = input_of(self.node, 2)
        if value is None:
            return np.zeros(self.channels)
        shape = static_shape(value)
        array = floats(value)
        if array is None or shape is None:
            return f"its bias {value.name} isn't constant"
        if array.size not in (1, self.channels) or array.ndim > 2:
            return f"its bias {value.name} of shape {shape} isn't one number for each channel"
        if array.size > 1 and array.shape[-1] != self.channels:
            return f"its bias {value.name} of shape {shape} isn't one number for each channel"
        return np.broadcast_to(array.reshape(-1) * self._float("beta"), (self.channels,))

    def pads_nothing(self) -> bool:
        """Whether no zeros are put around the data: what is constant stays so at the borders."""
        if self.node.op_type in ("Gemm", "MatMul"):
            return True
        mode = self.node.attributes.get_string("auto_pad", "NOTSET")
        pads = attribute_ints(self.node, "pads") or []
        return self.node.op_type == "Conv" and (
            mode == "VALID" or (mode == "NOTSET" and not any(pads))
        )

    def rewritten(
        self,
        edit: Edit,
        source: onnx_ir.Value,
        weight: Array | None = None,
        bias: Array | None = None,
    ) -> onnx_ir.Node:
        """A node like this one, not in the graph yet.

        Args:
            edit: Makes its constants.
            source: What takes the place of its first input.
            weight: Another weight; None to keep what is there.
            bias: A number for each output channel; None to keep what is there.
        """
        node, inputs = self.node, [source, self.weight]
        attributes = dict(node.attributes)
        if weight is not None:
            inputs[1] = edit.with_contents(self.weight, as_type_of(weight, self.weight))
        if bias is not None:
            attributes.pop("beta", None)
            inputs.append(self._new_bias(edit, as_type_of(bias, self.weight)))
        elif len(node.inputs) > 2 and node.inputs[2] is not None:
            inputs.append(node.inputs[2])
        op_type = "Gemm" if node.op_type == "MatMul" and bias is not None else node.op_type
        return onnx_ir.node(op_type, inputs, attributes)

    def _new_bias(self, edit: Edit, bias: Array) -> onnx_ir.Value:
        old = input_of(self.node, 2)
        if old is not None and old.is_initializer():
            return edit.with_contents(old, bias)
        return edit.constant(bias, f"{self.weight.name}_bias")

    def _groups(self) -> int:
        return attribute_int(self.node, "group", 1) or 1

    def _transposed(self) -> bool:
        return self.node.op_type == "Gemm" and bool(attribute_int(self.node, "transB", 0))

    def _output_axis(self) -> int:
        if self.node.op_type in ("Gemm", "MatMul"):
            return 0 if self._transposed() else 1
        return 0

    def _float(self, name: str) -> float:
        return self.node.attributes.get_float(name, 1.0) if self.node.op_type == "Gemm" else 1.0


def _along(numbers: Array, rank: int, axis: int) -> Array:
    return numbers.reshape([-1 if at == axis else 1 for at in range(rank)])


def linear_of(value: onnx_ir.Value | None) -> onnx_ir.Node | None:
    """The linear node that computes ``value``, its weight constant or not."""
    return producer(value, *MATRIX_PRODUCTS)


def read_linear(node: onnx_ir.Node) -> Linear | str:
    """``node`` as a :class:`Linear`, or why it can't be one."""
    weight = input_of(node, 1)
    tensor = constant_tensor(weight)
    if weight is None or tensor is None:
        return "its weight isn't constant"
    if not tensor.dtype.is_floating_point():
        return f"its weight is {tensor.dtype.name.lower()}"
    if tensor.nbytes > LARGE:
        return f"its weight of {tensor.nbytes >> 20} MB stays in its file"
    shape = [int(dim) for dim in tensor.shape if isinstance(dim, int)]
    if node.op_type == "Conv":
        groups = attribute_int(node, "group", 1) or 1
        return Linear(node, weight, shape[0], shape[1] * groups, len(shape), 1)
    if node.op_type == "ConvTranspose":
        groups = attribute_int(node, "group", 1) or 1
        return Linear(node, weight, shape[1] * groups, shape[0], len(shape), 1)
    if len(shape) != 2:
        return f"its weight has {len(shape)} dimensions"
    if node.op_type == "Gemm":
        rows, columns = reversed(shape) if attribute_int(node, "transB", 0) else shape
        return Linear(node, weight, columns, rows, 2, 1)
    data = static_shape(node.inputs[0])
    rank = len(data) if data is not None else None
    return Linear(node, weight, shape[1], shape[0], rank, -1 if rank is None else rank - 1)
