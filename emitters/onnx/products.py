"""Keeps ONNX Runtime from ending on a float16 product of a transposed tensor and a matrix.

With default options on an x86 CPU, 1.24 to 1.31 end with SIGSEGV while they load a MatMul of a
matrix (rank 2) and of a tensor that a Transpose made, whose first axis it brings next to the last
two: CPUs have no float16 product, ``MatmulTransposeFusion`` moves the Cast that is put in ahead of
the Transpose, and ``NchwcTransformer`` looks at the new node's schema before it has one
(microsoft/onnxruntime#28392). With one axis more in front, the fusion leaves the Transpose alone.

Its other rewrites may move a Transpose there too, which can't be foreseen: :func:`ends` tries.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant, is_op, replace
from converter.ir.model import Model
from converter.ir.serialized import read_outline

_AXES = 13
"""The first opset whose Unsqueeze has its axes as an input."""

_LOAD = """
import sys
import onnxruntime
onnxruntime.set_default_logger_severity(4)
options = onnxruntime.SessionOptions()
options.enable_cpu_mem_arena = False
options.add_session_config_entry("session.disable_prepacking", "1")
folder = "session.model_external_initializers_file_folder_path"
options.add_session_config_entry(folder, sys.argv[1])
model = sys.stdin.buffer.read() or sys.argv[2]
onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
"""


def keep_products(model: Model) -> Model:
    """The model; a copy where it has such products, which then have an axis more inside.

    Opsets before 13 have other Unsqueezes: such a model stays as it is.
    """
    if model.opset < _AXES or not any(True for _ in _endangered(model)):
        return model
    copy = model.copy()
    for node, index in list(_endangered(copy)):
        _add_axis(node, index)
    return copy


def ends(file: Path, *, mapped: bool = False) -> bool:
    """Whether a process ends by a signal that loads a file on the CPU, optimized as by default, and
    without what only takes memory; ``mapped``: its weights stay in it."""
    given = read_outline(file).SerializeToString() if mapped else b""
    command = [sys.executable, "-P", "-c", _LOAD, str(file.absolute().parent), str(file)]
    return subprocess.run(command, input=given, capture_output=True).returncode < 0


def _endangered(model: Model) -> Iterator[tuple[onnx_ir.Node, int]]:
    """The products, and which of their inputs is transposed."""
    for graph in model.graph.graphs():
        for node in graph:
            if not is_op(node, "MatMul"):
                continue
            for index, value in enumerate(node.inputs):
                if _rank(node.inputs[1 - index]) == 2 and _is_made_so(value):
                    yield node, index


def _is_made_so(value: onnx_ir.Value | None) -> bool:
    """Whether a Transpose like that made it in float16; Casts may lie between."""
    halves = False
    while value is not None:
        halves = halves or value.dtype == onnx_ir.DataType.FLOAT16
        node = value.producer()
        if node is None:
            return False
        if is_op(node, "Transpose"):
            return halves and _brings_first_to_last(node.attributes.get_ints("perm") or ())
        if not is_op(node, "Cast", "Identity"):
            return False
        value = node.inputs[0]
    return False


def _brings_first_to_last(perm: Sequence[int]) -> bool:
    """Whether other axes come first in their order, and axis 0 is one of the last two."""
    if len(perm) < 3:
        return False
    leading = list(perm[:-2])
    return leading == list(range(1, len(leading) + 1)) and 0 in perm[-2:]


def _rank(value: onnx_ir.Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)


def _add_axis(node: onnx_ir.Node, index: int) -> None:
    """The same product with an axis of 1 in front: Unsqueeze before, Squeeze behind."""
    graph, given, result = node.graph, node.inputs[index], node.outputs[0]
    assert isinstance(graph, onnx_ir.Graph) and given is not None and given.shape is not None
    taken = {value.name for each in graph for value in each.outputs} | set(graph.initializers)
    name = f"{result.name}_wide"
    while any(each and each.startswith(name) for each in taken):
        name += "_"
    axis = add_constant(graph, f"{name}_axis", np.zeros(1, np.int64))
    before = onnx_ir.node("Unsqueeze", [given, axis], name=f"{name}_input")
    inputs = [before.outputs[0] if i == index else value for i, value in enumerate(node.inputs)]
    product = onnx_ir.node("MatMul", inputs, name=name)
    after = onnx_ir.node("Squeeze", [product.outputs[0], axis])
    _declare(before.outputs[0], f"{name}_input", given, given.shape)
    _declare(product.outputs[0], name, result, result.shape)
    replace(node, after)
    graph.insert_before(after, [before, product])


def _declare(
    value: onnx_ir.Value, name: str, like: onnx_ir.Value, shape: onnx_ir.Shape | None
) -> None:
    """Names a value, of another's type, and of this shape behind an axis of 1."""
    value.name, value.type = name, like.type
    value.shape = None if shape is None else onnx_ir.Shape([1, *shape])
