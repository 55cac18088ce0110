"""Nodes, constants and names of the ONNX graph that is being built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import constant_value
from parsers.tflite.model import Array
from parsers.tflite.registry import Refusal

DTYPES = {
    "float32": onnx_ir.DataType.FLOAT,
    "float64": onnx_ir.DataType.DOUBLE,
    "float16": onnx_ir.DataType.FLOAT16,
    "bfloat16": onnx_ir.DataType.BFLOAT16,
    "bool": onnx_ir.DataType.BOOL,
    "int4": onnx_ir.DataType.INT8,  # 4-bit types are of opset 21; the values fit
    "int8": onnx_ir.DataType.INT8,
    "int16": onnx_ir.DataType.INT16,
    "int32": onnx_ir.DataType.INT32,
    "int64": onnx_ir.DataType.INT64,
    "uint8": onnx_ir.DataType.UINT8,
    "uint16": onnx_ir.DataType.UINT16,
    "uint32": onnx_ir.DataType.UINT32,
    "uint64": onnx_ir.DataType.UINT64,
}
"""ONNX's type for each TFLite type that ONNX can hold."""

_SHARED_BELOW = 256
"""Elements below which equal constants become one initializer."""


def tensor_type(dtype: str) -> onnx_ir.TensorType:
    """ONNX's type for a tensor of the TFLite type ``dtype``, as stored.

    Raises:
        Refusal: ONNX tensors here can't hold it.
    """
    if dtype not in DTYPES:
        raise Refusal(f"a tensor of type {dtype}")
    return onnx_ir.TensorType(DTYPES[dtype])


class UniqueNames:
    """UniqueNames of one model's values, or of its nodes, each given once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        """``wanted``, or with a number behind where that is taken."""
        name = wanted
        while name in self._taken:
            number = self._next[wanted] = self._next.get(wanted, 0) + 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name


class Builder:
    """One graph in the making: the main one, or the body of an If or a Loop.

    Constants all go to the main graph, which bodies see: so equal ones are one.
    """

    def __init__(self, names: UniqueNames, parent: Builder | None = None) -> None:
        self.names = names
        self.nodes: list[onnx_ir.Node] = []
        self.prefix = ""
        self._root: Builder = parent._root if parent else self
        self._node_names = UniqueNames()
        self._initializers: list[onnx_ir.Value] = []
        self._shared: dict[tuple[str, tuple[int, ...], bytes], onnx_ir.Value] = {}

    @property
    def initializers(self) -> list[onnx_ir.Value]:
        """The constants of the whole model."""
        return self._root._initializers

    def inner(self) -> Builder:
        """A builder for the body of a node of this graph."""
        body = Builder(self.names, self)
        body.prefix = self.prefix
        return body

    def add(
        self,
        op_type: str,
        inputs: Sequence[onnx_ir.Value | None],
        n_outputs: int = 1,
        **attributes: Any,
    ) -> onnx_ir.Node:
        """Appends a node.

        Args:
            op_type: The operator.
            inputs: In the operator's order; None leaves one out.
            n_outputs: How many outputs it has.
            **attributes: The operator's; one that is None is left out.
        """
        wanted = f"{self.prefix}/{op_type}" if self.prefix else op_type
        name = self._root._node_names.unique(wanted)
        given = {key: value for key, value in attributes.items() if value is not None}
        node = onnx_ir.node(op_type, inputs, given, num_outputs=n_outputs, name=name)
        for index, value in enumerate(node.outputs):
            value.name = self.names.unique(f"{name}.{index}" if n_outputs > 1 else name)
        self.nodes.append(node)
        return node

    def const(self, array: Array, name: str = "") -> onnx_ir.Value:
        """An initializer; small equal ones are shared."""
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        if array.size >= _SHARED_BELOW:
            return self._initializer(array, name)
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._root._shared:
            self._root._shared[key] = self._initializer(array, name)
        return self._root._shared[key]

    def _initializer(self, array: Array, name: str) -> onnx_ir.Value:
        value = constant_value(self.names.unique(name or "constant"), array)
        self._root._initializers.append(value)
        return value
