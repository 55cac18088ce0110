"""Refuses a model that makes huge constants out of little, before anything computes them.

    x -> Add(x, ReduceSum(Expand(1.0, [60000, 60000])))        171 bytes, of which come 14.4 GB

What follows from constants alone is a constant: runtimes and passes compute it where they load or
simplify a model, and each target would have to store it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import onnx_ir

from converter.errors import ModelError
from converter.ir.dependence import graphs_in
from converter.ir.edit import constant_tensor, is_op
from converter.ir.inference import Inferred, infer
from converter.ir.randomness import draws
from converter.ir.small_values import with_small_values

LARGEST = 2 << 30
"""Bytes that all such constants may come to; no protobuf and no flatbuffer holds more."""

SHARE = 32
"""How much more than its weights they may come to in a model of large ones: int8 made float32 is 4
times, and each step on the way counts."""

_LISTED = 5


def require_modest_constants(model: onnx_ir.Model) -> None:
    """Refuses constants whose known sizes, multiplied out, come to more than a model may hold.

    Raises:
        ModelError: The largest of them are listed.
    """
    if next(_computed_constants(model), None) is None:
        return
    model = with_small_values(model)
    made, inferred = list(_computed_constants(model)), infer(model)
    sizes = {value: _bytes(inferred[value]) for value in made if value in inferred}
    stored, total = sum(_stored(model)), sum(sizes.values())
    if total <= max(LARGEST, SHARE * stored):
        return
    largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:_LISTED]
    raise ModelError(
        f"the model expands {stored:,} bytes of weights to constants of {total:,} bytes",
        code="model-too-large",
        details=[_described(value, inferred[value], sizes[value]) for value in largest],
        hint="A value that depends on no input has to be small, or stored in the file.",
    )


def _stored(model: onnx_ir.Model) -> Iterator[int]:
    """The bytes of each constant that the file holds."""
    for graph in model.graphs():
        values = [value.const_value for value in graph.initializers.values()]
        values += [constant_tensor(node.outputs[0]) for node in graph if is_op(node, "Constant")]
        yield from (tensor.nbytes for tensor in values if tensor is not None)


def _computed_constants(model: onnx_ir.Model) -> Iterator[onnx_ir.Value]:
    """What nodes compute from constants alone; a Constant's own value is stored."""
    stored = (value for graph in model.graphs() for value in graph.initializers.values())
    known = {value for value in stored if not value.is_graph_input()}
    for graph in model.graphs():
        for node in graph:
            if not known.issuperset(value for value in node.inputs if value is not None):
                continue
            if node.op_type == "Constant":
                known.update(node.outputs)
            elif not draws(node) and not any(map(graphs_in, node.attributes.values())):
                known.update(node.outputs)
                yield from (output for output in node.outputs if output.name)


def _bytes(found: Inferred) -> int:
    """Of a tensor whose sizes are all known; 0 for any other."""
    if found.shape is None or not isinstance(found.type, onnx_ir.TensorType):
        return 0
    sizes = [size for size in found.shape if isinstance(size, int)]
    known = len(sizes) == len(found.shape) and found.type.dtype != onnx_ir.DataType.STRING
    return math.prod(sizes) * found.type.dtype.bitwidth // 8 if known else 0


def _described(value: onnx_ir.Value, found: Inferred, size: int) -> str:
    node = value.producer()
    op = f"{node.op_type} ({node.name or value.name})" if node is not None else value.name
    return f"{op}: {found.shape} is {size:,} bytes"
