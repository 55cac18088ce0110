"""What the reading of a layer works with: ONNX nodes with sizes, and ML programs' operations.

Until iOS12 every tensor of a network has five axes: sequence, batch, channels, height, width
(``RANK5_ARRAY_MAPPING``). Such a network is read with four, [batch, channels, height, width]: a
sequence is a batch to every layer but the recurrent ones and those that move its axis, which are
refused. Later networks have tensors of any rank. Layers name axes from the last, so both read
alike. All values are float32; truth is 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir

from converter.ir.model import IR_VERSION, OPSET
from parsers.coreml.operation import STRING, Constant, Named, Operation, Type
from parsers.coreml.reader import Array, Attribute, DataType, Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reading_of
from parsers.coreml.sizes import rank, sizes

_SMALL = 64
"""Elements up to which a constant may be a shape or axes, which sizes follow from."""


class Network:
    """A network becoming a graph.

    Args:
        legacy: Whether its tensors have five axes there, and four here.
    """

    def __init__(self, *, legacy: bool) -> None:
        self.reader = Reader()
        self.legacy = legacy
        self.values: dict[str, onnx_ir.Value] = {}
        self._count = 0

    # -- nodes -----------------------------------------------------------------------

    def node(
        self,
        kind: str,
        inputs: Sequence[onnx_ir.Value | None],
        attributes: Mapping[str, Attribute] | None = None,
        dtype: DataType | None = None,
    ) -> onnx_ir.Value:
        """The one output of a new node, its sizes inferred.

        Args:
            kind: ONNX's operator.
            inputs: In the operator's order; None leaves one out.
            attributes: The operator's.
            dtype: The output's type; None: the first input's.
        """
        return self.nodes_of(kind, inputs, 1, attributes, dtype)[0]

    def nodes_of(
        self,
        kind: str,
        inputs: Sequence[onnx_ir.Value | None],
        outputs: int,
        attributes: Mapping[str, Attribute] | None = None,
        dtype: DataType | None = None,
    ) -> Sequence[onnx_ir.Value]:
        """The outputs of a new node, their sizes inferred.

        Args:
            kind: ONNX's operator.
            inputs: In the operator's order; None leaves one out.
            outputs: How many.
            attributes: The operator's.
            dtype: The outputs' type; None: the first input's.
        """
        made = self.reader.nodes_of(kind, inputs, outputs, attributes, dtype)
        infer(self.reader.nodes[-1])
        return made

    def const(self, array: Any, dtype: Any = np.float32) -> onnx_ir.Value:
        """An initializer, of float32 unless told."""
        return self.reader.const(array, dtype)

    def ints(self, numbers: Sequence[int]) -> onnx_ir.Value:
        """A vector of int64."""
        return self.reader.ints([int(number) for number in numbers])

    # -- operations of ML programs ---------------------------------------------------

    def op(self, kind: str, **given: Any) -> onnx_ir.Value:
        """The one output of an operation of an ML program, of float32, read as there.

        Args:
            kind: The operation.
            given: Its parameters: values, arrays, numbers, text; those that are None are left
                out.
        """
        self._count += 1
        name = f"{self.reader.op}_{kind}_{self._count}"
        inputs = {
            key: [self._binding(f"{name}_{key}", value)]
            for key, value in given.items()
            if value is not None
        }
        reading = reading_of(kind)
        if reading is None:
            raise Refusal(f"Modelyard can't read {kind}")
        first = len(self.reader.nodes)
        made = Operation(kind, self.reader.op, inputs, [Named(name, Type(DataType.FLOAT, None))])
        reading(self.reader, made)
        for new in self.reader.nodes[first:]:
            infer(new)
        return self.reader.named(name)

    def _binding(self, name: str, value: Any) -> str | Constant:
        if isinstance(value, onnx_ir.Value):
            self.reader.bind(name, value)
            return name
        if isinstance(value, str):
            return Constant(Type(None, (), STRING), plain=value)
        array: Array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        tensor = onnx_ir.Tensor(array)
        return Constant(Type(tensor.dtype, array.shape), tensor)

    # -- sizes -----------------------------------------------------------------------

    def shaped(self, x: onnx_ir.Value, target: Sequence[int]) -> onnx_ir.Value:
        """Reshape; 0 keeps a size, one may be -1."""
        return self.node("Reshape", [x, self.ints(target)])

    def need_rank(self, x: onnx_ir.Value, *wanted: int) -> int:
        """How many axes a value has.

        Raises:
            Refusal: It isn't known, or not one that is wanted.
        """
        found = rank(x)
        if wanted and found not in wanted:
            raise Refusal(f"its input has {found} axes")
        return found

    def size(self, x: onnx_ir.Value, axis: int) -> int:
        """A size that has to be known."""
        found = sizes(x)[axis]
        if found is None:
            raise Refusal(f"the size of its input along axis {axis} is free")
        return found

    def channels(self, array: Array) -> onnx_ir.Value:
        """A vector with a number for each channel, or one for all, as [channels, 1, 1]."""
        return self.const(np.asarray(array, np.float32).reshape(-1, 1, 1))


def infer(node: onnx_ir.Node) -> None:
    """Gives a node's outputs the types and sizes that follow from its inputs.

    Raises:
        Refusal: They don't fit together.
    """
    schema = onnx.defs.get_schema(node.op_type, OPSET)
    types = {}
    data = {}
    for value in node.inputs:
        if value is None:
            continue
        assert value.name is not None
        types[value.name] = onnx_ir.to_proto(value).type
        tensor = value.const_value
        if tensor is not None and tensor.size <= _SMALL:
            data[value.name] = onnx.numpy_helper.from_array(tensor.numpy(), value.name)
    proto = onnx_ir.to_proto(node)
    opset = [onnx.helper.make_opsetid("", OPSET)]
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, proto, types, data, opset_imports=opset, ir_version=IR_VERSION
        )
    except onnx.shape_inference.InferenceError as error:
        raise Refusal(f"its sizes don't fit together: {error}") from error
    for value in node.outputs:
        told = found.get(value.name or "")
        if told is None:
            continue
        value.type = _type(told)
        if told.tensor_type.HasField("shape"):
            value.shape = _shape(told)


def _type(told: onnx.TypeProto) -> onnx_ir.TypeProtocol:
    return onnx_ir.TensorType(DataType(told.tensor_type.elem_type))


def _shape(told: onnx.TypeProto) -> onnx_ir.Shape:
    return onnx_ir.Shape(
        [
            dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
            for dim in told.tensor_type.shape.dim
        ]
    )
