"""Models of one node, or of many side by side, so that one package tests them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from converter.ir import Model
from tests.coreml_emitter.running import Array, Feeds, agree, as_model, numbers

Inputs = Mapping[str, Sequence[int | str] | Array | None]


@dataclass(frozen=True)
class Node:
    """A node of a test.

    Attributes:
        op: The operator.
        inputs: In the node's order: sizes of an input, an array for a constant, None for what is
            left out.
        attributes: The node's.
        outputs: How many it has.
        dtypes: Types of inputs and outputs (y, y1, ...) that aren't the model's.
        shape: Of y, where onnx doesn't infer it.
    """

    op: str
    inputs: Inputs
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    dtypes: Mapping[str, str] = field(default_factory=dict)
    shape: Sequence[int | str] | None = None


def one(
    op: str,
    inputs: Inputs,
    *,
    dtype: str = "float32",
    outputs: int = 1,
    dtypes: Mapping[str, str] | None = None,
    **attributes: Any,
) -> Model:
    """A model of one node, with inputs of its names, and outputs y, y1, ..."""
    return joined([Node(op, inputs, attributes, outputs, dtypes or {})], dtype, named=False)


def joined(nodes: Sequence[Node], dtype: str = "float32", *, named: bool = True) -> Model:
    """A model of many nodes.

    Args:
        nodes: Each of inputs of its own.
        dtype: Of inputs and outputs.
        named: Whether names begin with the node's number: ``3_x``.
    """
    given, constants, results, made = [], [], [], []
    for number, node in enumerate(nodes):
        mark = f"{number}_" if named else ""
        for name, what in node.inputs.items():
            if isinstance(what, np.ndarray):
                constants.append(onnx.numpy_helper.from_array(what, mark + name))
            elif what is not None:
                kind = _kind(node.dtypes.get(name, dtype))
                given.append(helper.make_tensor_value_info(mark + name, kind, list(what)))
        names = [f"y{index or ''}" for index in range(node.outputs)]
        for name in names:
            kind = _kind(node.dtypes.get(name, dtype))
            shape = node.shape if name == "y" else None
            results.append(helper.make_tensor_value_info(mark + name, kind, shape))
        inputs = ["" if what is None else mark + name for name, what in node.inputs.items()]
        outputs = [mark + name for name in names]
        title = f"{mark}{node.op}"
        made.append(helper.make_node(node.op, inputs, outputs, name=title, **node.attributes))
    graph = helper.make_graph(made, "nodes", given, results, constants)
    opsets = [helper.make_opsetid("", 20)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return as_model(onnx.shape_inference.infer_shapes(proto))


def _kind(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def agree_all(
    nodes: Sequence[Node],
    sizes: Sequence[Mapping[str, int]] = ({},),
    *,
    dtype: str = "float32",
    **options: Any,
) -> dict[str, Array]:
    """Many nodes in one package, on seeded normal numbers, against ONNX Runtime.

    Args:
        nodes: Their inputs are of floats.
        sizes: What the free dimensions are, in each run.
        dtype: Of inputs and outputs.
        options: Of :func:`agree`.
    """
    feeds: list[Feeds] = [
        {
            f"{number}_{name}": numbers(*_known(what, run), seed=number + place).astype(dtype)
            for number, node in enumerate(nodes)
            for place, (name, what) in enumerate(node.inputs.items())
            if what is not None and not isinstance(what, np.ndarray)
        }
        for run in sizes
    ]
    return agree(joined(nodes, dtype), feeds, **options)


def _known(dims: Sequence[int | str], run: Mapping[str, int]) -> list[int]:
    return [run[dim] if isinstance(dim, str) else dim for dim in dims]
