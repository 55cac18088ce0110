"""An ONNX model becomes Keras' code: prepared, then each node by its operator's entry."""

from __future__ import annotations

import onnx_ir

from converter.errors import Unsupported
from converter.ir.definitions import define
from converter.ir.edit import constant_tensor
from converter.ir.model import Model
from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.keras import ops
from emitters.code.keras.dialect import Keras
from emitters.code.keras.registry import TABLE
from emitters.code.keras.types import keras_type
from emitters.code.legalizing import LegalizeToTable
from emitters.code.program import Program, program_of
from emitters.code.table import HINT
from emitters.lowering.channels_last import function, put_last

SPATIAL = (
    *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace", "LRN"),
    *("GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization", "MaxPool", "Resize"),
    "SpaceToDepth",
)
"""Operators whose channels are last in Keras."""


_OTHERS = (onnx_ir.DataType.FLOAT16, onnx_ir.DataType.BFLOAT16, onnx_ir.DataType.DOUBLE)


class Legalize(LegalizeToTable):
    """Brings a model to what the table has, with channels last, and as few Transposes as there can
    be in the whole graph."""

    name = "legalize:keras"
    table = TABLE

    def chain(self, model: onnx_ir.Model) -> None:
        """And the layout."""
        super().chain(model)
        self.each(model, _put_last, "with channels last")
        self.whole(model, "transposes")
        opset = model.opset_imports[""]
        define(model, [function(op_type, opset) for op_type in SPATIAL])


def _put_last(node: onnx_ir.Node) -> bool:
    return TABLE.is_legal(node) and put_last(node, SPATIAL)


def lower(model: Model) -> Program:
    """The model as code. It stays as it is; weights are shared.

    Args:
        model: At the pipeline's opset.
    """
    graph = Legalize().apply(model).graph
    refusals = TABLE.foreign(graph.graph, keras_type)
    if not [v for v in graph.graph.inputs if v.name not in graph.graph.initializers]:
        told = "a Keras model takes at least one input"
        refusals.append(Unsupported("", "model", told, HINT))
    if refusals:
        return Program.refused(refusals)
    _name_constants(graph.graph)
    return program_of(graph.graph, _lower_one, dialect_of(graph.graph), ("Tensor", "Any"))


_KEEP_WIDE = frozenset({
    *("Add", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Concat"),
    *("Equal", "Flatten", "Gather", "Identity", "Mul", "Reshape", "Shape", "Size", "Slice"),
    *("Split", "Squeeze", "Sub", "Transpose", "Unsqueeze"),
})  # fmt: skip
"""Operators that leave uint64 as it is; in others Keras makes uint32 of it: numbers are cut off."""


def _lower_one(context: Context) -> None:
    node = context.node
    values = (*node.inputs, *node.outputs)
    wide = any(v is not None and v.dtype == onnx_ir.DataType.UINT64 for v in values)
    if wide and node.op_type not in _KEEP_WIDE:
        raise Refused("Keras converts uint64 to uint32 there", "use int64")
    TABLE.lower(context)


def dialect_of(graph: onnx_ir.Graph) -> Keras:
    """How its classes are written."""
    values = [*graph.inputs, *(out for node in graph for out in node.outputs)]
    return Keras(any(value.dtype in _OTHERS for value in values))


def _name_constants(graph: onnx_ir.Graph) -> None:
    """Has a node give each output that is a constant: a layer gives no weights of its own."""
    for at, value in enumerate(graph.outputs):
        if constant_tensor(value) is not None:
            node = onnx_ir.node("Identity", [value], name="")
            given = node.outputs[0]
            given.type, given.shape = value.type, value.shape
            given.name, value.name = value.name, f"{value.name}_constant"
            graph.append(node)
            graph.outputs[at] = given


__all__ = ["TABLE", "Legalize", "lower", "ops"]
