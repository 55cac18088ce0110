"""Layers with constant weights, seen as matrices: rows of inputs times a matrix of weights.

    Conv            rows are the patches under the kernel, a group of channels each
    ConvTranspose   the same on the input with zeros between its elements, the kernel turned round
    Gemm, MatMul    rows are the rows

What a weight-side method does to ``rows @ matrix.T`` then holds for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, attribute_ints, is_constant, is_op
from converter.ir.facts import MATRIX_PRODUCTS

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layer:
    """A matrix operator with constant weights.

    Attributes:
        node: The node; a Conv's pads are explicit or from ``auto_pad``.
        weight: The initializer that holds the weights: float, or int8 behind a DequantizeLinear.
        dequantize: That DequantizeLinear; None for float weights.
    """

    node: onnx_ir.Node
    weight: onnx_ir.Value
    dequantize: onnx_ir.Node | None

    @property
    def name(self) -> str:
        return self.node.name or ""

    @property
    def op(self) -> str:
        return self.node.op_type

    @property
    def shape(self) -> tuple[int, ...]:
        """The weights' shape, as the operator has it."""
        assert self.weight.const_value is not None
        return tuple(int(size) for size in self.weight.const_value.shape.numpy())

    @property
    def groups(self) -> int:
        """Groups of channels that don't meet; 1 but for a grouped Conv or ConvTranspose."""
        return attribute_int(self.node, "group", 1) or 1

    @property
    def channel_axis(self) -> int:
        """The axis of the output that holds its channels: 1, or -1 for a MatMul."""
        return -1 if self.op == "MatMul" else 1

    @property
    def outputs(self) -> int:
        if self.op == "ConvTranspose":
            return self.shape[1] * self.groups
        return self.shape[0] if self.op == "Conv" or self._transposed else self.shape[1]

    @property
    def inputs(self) -> int:
        """Numbers that each output is a sum over: channels of its group times kernel taps."""
        return int(np.prod(self.shape)) // self.outputs

    @property
    def alpha(self) -> float:
        """What a Gemm multiplies the product with; lowering takes it into the weights."""
        attribute = self.node.attributes.get("alpha")
        return 1.0 if self.op != "Gemm" or attribute is None else attribute.as_float()

    def real(self) -> Array:
        """The weights as real numbers, float32, as the operator has them; ``alpha`` is in them."""
        stored = array_of(self.weight)
        if self.dequantize is None:
            return stored * np.float32(self.alpha)
        return (stored.astype(np.float32) * self.spread(self.scales())).astype(np.float32)

    def scales(self) -> Array:
        """The scale of each output channel, float32 (outputs,)."""
        assert self.dequantize is not None
        scale = self.dequantize.inputs[1]
        assert scale is not None
        each = array_of(scale).ravel()
        if each.size == self.outputs:
            return each
        # a ConvTranspose's scales lie along its axis of output channels in one group
        return np.resize(each, self.outputs)

    def spread(self, per_channel: Array) -> Array:
        """One number for each output channel, shaped to multiply the weights."""
        columns = per_channel.reshape(self.groups, -1, 1)
        return self.tensor(np.broadcast_to(columns, (*columns.shape[:2], self.inputs)))

    def matrices(self, weights: Array) -> Array:
        """``weights`` as (groups, outputs of a group, inputs)."""
        if self.op == "Conv":
            return weights.reshape(self.groups, -1, self.inputs)
        if self.op == "ConvTranspose":
            channels, outputs = self.shape[0] // self.groups, self.shape[1]
            grouped = weights.reshape(self.groups, channels, outputs, -1)[..., ::-1]
            return grouped.transpose(0, 2, 1, 3).reshape(self.groups, outputs, self.inputs)
        return (weights if self._transposed else weights.T)[None]

    def tensor(self, matrices: Array) -> Array:
        """The inverse of :meth:`matrices`: the weights as the operator has them."""
        if self.op == "Conv":
            return matrices.reshape(self.shape)
        if self.op == "ConvTranspose":
            channels, outputs = self.shape[0] // self.groups, self.shape[1]
            grouped = matrices.reshape(self.groups, outputs, channels, -1)[..., ::-1]
            return grouped.transpose(0, 2, 1, 3).reshape(self.shape)
        weights: Array = matrices[0] if self._transposed else matrices[0].T
        return weights

    @property
    def _transposed(self) -> bool:
        return self.op == "Gemm" and attribute_int(self.node, "transB", 0) == 1

    def rows(self, x: Array, limit: int, seed: int = 0) -> Array:
        """At most ``limit`` of the rows that the weights are multiplied with.

        Args:
            x: The layer's input, batch first for a Conv.
            limit: Rows, evenly strewn over the positions.
            seed: Which positions are picked: the same ones for the same seed and shape.

        Returns:
            (groups, rows, inputs)
        """
        if self.op in ("Gemm", "MatMul"):
            rows = x.reshape(-1, x.shape[-1])
            return rows[_picked(len(rows), limit, seed)][None]
        padded, strides, out = self._padded(x)
        picked = np.unravel_index(_picked(int(np.prod(out)), limit, seed), out)
        kernel, dilations = self.shape[2:], self._sizes("dilations", 1)
        taps = [
            padded[
                (
                    picked[0],
                    slice(None),
                    *(
                        at * stride + tap * dilation
                        for at, stride, tap, dilation in zip(
                            picked[1:], strides, offset, dilations, strict=True
                        )
                    ),
                )
            ]
            for offset in np.ndindex(*kernel)
        ]
        patches = np.stack(taps, axis=-1)  # rows, channels, taps
        grouped = patches.reshape(len(patches), self.groups, -1)
        return np.ascontiguousarray(grouped.transpose(1, 0, 2))

    def row_count(self, x: Array) -> int:
        """How many rows there are in an input."""
        if self.op in ("Gemm", "MatMul"):
            return int(np.prod(x.shape[:-1]))
        sizes = self._placed(x.shape)[2]
        return int(np.prod(sizes))

    def _sizes(self, name: str, default: int) -> list[int]:
        return attribute_ints(self.node, name) or [default] * (len(self.shape) - 2)

    def _placed(
        self, shape: tuple[int, ...]
    ) -> tuple[list[tuple[int, int]], list[int], tuple[int, ...]]:
        """The border of an input, the strides over it, and (batch, *output positions)."""
        kernel, strides = self.shape[2:], self._sizes("strides", 1)
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, self._sizes("dilations", 1), strict=True)]
        sizes = list(shape[2:])
        if self.op == "ConvTranspose":
            # what its pads cut off the output is a border like any other
            sizes = [(size - 1) * s + 1 for size, s in zip(sizes, strides, strict=True)]
            pads, strides = [(near - 1, near - 1) for near in reach], [1] * len(strides)
        else:
            pads = list(_conv_pads(self.node, tuple(sizes), reach, strides))
        places = zip(sizes, pads, reach, strides, strict=True)
        out = tuple((size + sum(pad) - near) // s + 1 for size, pad, near, s in places)
        return pads, strides, (shape[0], *out)

    def _padded(self, x: Array) -> tuple[Array, list[int], tuple[int, ...]]:
        """The input with its border, the strides over it, and (batch, *output positions)."""
        pads, strides, out = self._placed(x.shape)
        if self.op == "ConvTranspose":
            x = _strewn(x, self._sizes("strides", 1))
        return np.pad(x, [(0, 0), (0, 0), *pads]), strides, out


def layers(graph: onnx_ir.Graph) -> Iterator[Layer]:
    """The layers of a graph in its order, subgraphs left out.

    Left out as well are layers whose weights something else uses too, a Gemm that transposes
    its input or turns its sign, and a MatMul whose constant isn't the second operand or isn't
    a matrix.
    """
    for node in graph:
        if is_op(node, *MATRIX_PRODUCTS) and len(node.inputs) > 1:
            layer = _layer(node)
            if layer is not None:
                yield layer


def _layer(node: onnx_ir.Node) -> Layer | None:
    value, dequantize = node.inputs[1], None
    if value is None or node.inputs[0] is None:
        return None
    if is_op(value.producer(), "DequantizeLinear"):
        dequantize = value.producer()
        assert dequantize is not None
        if len(list(value.uses())) > 1:
            return None
        value = dequantize.inputs[0]
    if value is None or not is_constant(value) or len(list(value.uses())) > 1:
        return None
    assert value.const_value is not None
    if node.op_type in ("Gemm", "MatMul") and len(value.const_value.shape) != 2:
        return None
    layer = Layer(node, value, dequantize)
    if node.op_type == "Gemm" and (attribute_int(node, "transA", 0) != 0 or layer.alpha <= 0):
        return None
    return layer


def array_of(value: onnx_ir.Value) -> Array:
    assert value.const_value is not None
    return value.const_value.numpy()


def store(value: onnx_ir.Value, array: Array) -> None:
    """Gives an initializer other elements of the same type and shape."""
    old = value.const_value
    assert old is not None and array.shape == tuple(old.shape.numpy())
    typed = np.ascontiguousarray(array.astype(old.dtype.numpy()))
    value.const_value = onnx_ir.Tensor(typed, dtype=old.dtype, name=value.name)


def _picked(count: int, limit: int, seed: int) -> Array:
    """``limit`` of ``count`` places in order, one at random in each of as many equal stretches."""
    if count <= limit:
        return np.arange(count)
    edges = np.linspace(0, count, limit + 1)
    within = np.random.default_rng(seed).random(limit)
    return np.minimum((edges[:-1] + within * np.diff(edges)).astype(np.int64), count - 1)


def _strewn(x: Array, strides: list[int]) -> Array:
    """``x`` with ``stride - 1`` zeros between its elements, along each spatial axis."""
    sizes = [(size - 1) * s + 1 for size, s in zip(x.shape[2:], strides, strict=True)]
    wide = np.zeros((*x.shape[:2], *sizes), x.dtype)
    wide[(slice(None), slice(None), *(slice(None, None, s) for s in strides))] = x
    return wide


def _conv_pads(
    node: onnx_ir.Node, sizes: tuple[int, ...], reach: list[int], strides: list[int]
) -> Iterator[tuple[int, int]]:
    """Elements before and after, for each spatial axis (ONNX's Conv: pads, auto_pad)."""
    attribute = node.attributes.get("auto_pad")
    auto = "NOTSET" if attribute is None else attribute.as_string()
    pads = attribute_ints(node, "pads") or [0] * (2 * len(sizes))
    for axis, (size, near, stride) in enumerate(zip(sizes, reach, strides, strict=True)):
        if auto == "NOTSET":
            yield pads[axis], pads[axis + len(sizes)]
        elif auto == "VALID":
            yield 0, 0
        else:
            total = max((-(-size // stride) - 1) * stride + near - size, 0)
            less, more = total // 2, total - total // 2
            yield (less, more) if auto == "SAME_UPPER" else (more, less)
