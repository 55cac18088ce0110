"""Operators that TensorFlow's converter doesn't write from small functions, built by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from tests.tflite.build import File, Graph
from tests.tflite.ops.compare import Array, both, check

RNG = np.random.default_rng(0)


def real(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def add(
    graph: Graph,
    name: str,
    inputs: Sequence[int],
    outputs: Sequence[int],
    kind: str = "",
    **options: Any,
) -> None:
    """An operator with the options class ``kind`` of the schema."""
    graph.op(name, inputs, outputs)
    if kind:
        made = graph.raw.operators[-1]
        made.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
        made.builtinOptions = getattr(schema, f"{kind}T")()
        for key, value in options.items():
            setattr(made.builtinOptions, key, value)


TYPES = {"float32": "FLOAT32", "int32": "INT32", "int64": "INT64", "uint8": "UINT8"}
TYPES |= {"int8": "INT8", "bool": "BOOL", "float16": "FLOAT16"}


def constant(graph: Graph, array: Array, **more: Any) -> int:
    """A constant tensor; None is a left-out one."""
    number = len(graph.raw.tensors)
    return graph.tensor(f"c{number}", array.shape, TYPES[array.dtype.name], data=array, **more)


def single(
    name: str, shape: Sequence[int], result: Sequence[int], *constants: Array, **options: Any
) -> bytes:
    """A file with one operator on ``x`` and constants."""
    file = File()
    graph = file.graph()
    x, y = graph.tensor("x", shape), graph.tensor("y", result)
    add(graph, name, [x, *(constant(graph, item) for item in constants)], [y], **options)
    graph.interface([x], [y])
    return file.content()


SINGLES = {
    "gelu": ("GELU", (3, 5), (3, 5), (), {"kind": "GeluOptions", "approximate": False}),
    "gelu-tanh": ("GELU", (3, 5), (3, 5), (), {"kind": "GeluOptions", "approximate": True}),
    "relu-0-1": ("RELU_0_TO_1", (3, 5), (3, 5), (), {}),
    "l2-pool": (
        "L2_POOL_2D",
        (2, 5, 6, 3),
        (2, 3, 3, 3),
        (),
        {"kind": "Pool2DOptions", "strideH": 2, "strideW": 2, "filterHeight": 3, "filterWidth": 2},
    ),
    "softmax-beta": ("SOFTMAX", (3, 5), (3, 5), (), {"kind": "SoftmaxOptions", "beta": 0.3}),
    "update": (
        "DYNAMIC_UPDATE_SLICE",
        (4, 5),
        (4, 5),
        (real(2, 3), np.array([3, 1], np.int32)),
        {},
    ),
    "reversed": ("REVERSE_V2", (2, 3, 4), (2, 3, 4), (np.array([1], np.int32),), {}),
    "squeeze-all": ("SQUEEZE", (1, 3, 1, 4), (3, 4), (), {"kind": "SqueezeOptions"}),
    "reshape-option": (
        "RESHAPE",
        (2, 6),
        (3, 4),
        (),
        {"kind": "ReshapeOptions", "newShape": np.array([3, -1], np.int32)},
    ),
    "offset": (
        "STRIDED_SLICE",
        (5, 6),
        (3, 6),
        (np.array([1, 0], np.int32), np.array([3, 6], np.int32), np.array([1, 1], np.int32)),
        {"kind": "StridedSliceOptions", "offset": True},
    ),
}


@pytest.mark.parametrize("name", SINGLES)
def test_single_operator(name: str) -> None:
    operator, shape, result, constants, options = SINGLES[name]
    content = single(operator, shape, result, *constants, **options)
    check(*both(content, {"x": real(*shape)}))


def test_embedding_lookup_and_sparse_to_dense() -> None:
    file = File()
    graph = file.graph()
    x = graph.tensor("x", (3,), "INT32")
    rows, dense = graph.tensor("rows", (3, 4)), graph.tensor("dense", (6,))
    add(graph, "EMBEDDING_LOOKUP", [x, constant(graph, real(6, 4))], [rows])
    shape = constant(graph, np.array([6], np.int32))
    values, blank = constant(graph, real(3)), constant(graph, np.array(-1, np.float32))
    add(graph, "SPARSE_TO_DENSE", [x, shape, values, blank], [dense], "SparseToDenseOptions")
    graph.interface([x], [rows, dense])
    check(*both(file.content(), {"x": np.array([1, 3, 5], np.int32)}))


def test_legacy_uint8_convolution() -> None:
    """Unsigned weights and activations with zero points in the middle."""
    file = File()
    graph = file.graph()
    x = graph.tensor("x", (1, 6, 6, 3), "UINT8", scale=[0.02], zero=[120])
    y = graph.tensor("y", (1, 3, 3, 4), "UINT8", scale=[0.05], zero=[90])
    filters = RNG.integers(0, 256, (4, 3, 3, 3)).astype(np.uint8)
    bias = RNG.integers(-500, 500, 4).astype(np.int32)
    weights = constant(graph, filters, scale=[0.01], zero=[131])
    offsets = constant(graph, bias, scale=[0.02 * 0.01], zero=[0])
    options = {"strideH": 2, "strideW": 2, "fusedActivationFunction": 1}
    add(graph, "CONV_2D", [x, weights, offsets], [y], "Conv2DOptions", **options)
    graph.interface([x], [y])
    check(*both(file.content(), {"x": RNG.integers(0, 256, (1, 6, 6, 3)).astype(np.uint8)}))


def test_concatenation_of_other_scales() -> None:
    """uint8 parts with scales of their own are brought to the result's."""
    file = File()
    graph = file.graph()
    x = graph.tensor("x", (2, 3), "UINT8", scale=[0.02], zero=[120])
    y = graph.tensor("y", (2, 6), "UINT8", scale=[0.03], zero=[100])
    other = constant(graph, RNG.integers(0, 256, (2, 3)).astype(np.uint8), scale=[0.01], zero=[3])
    add(graph, "CONCATENATION", [x, other], [y], "ConcatenationOptions", axis=1)
    graph.interface([x], [y])
    check(*both(file.content(), {"x": RNG.integers(0, 256, (2, 3)).astype(np.uint8)}))


def test_one_value_under_two_names() -> None:
    """An output that is an input, one that is a constant, one that is there twice."""
    file = File()
    graph = file.graph()
    x, y = graph.tensor("x", (2, 3)), graph.tensor("y", (2, 3))
    add(graph, "RELU", [x], [y])
    graph.interface([x], [y, x, y, constant(graph, real(2))])
    check(*both(file.content(), {"x": real(2, 3)}))


def test_counts_with_a_scale_stay_counts() -> None:
    """Computed 32-bit integers are what they say, whatever scale the file gives them."""
    file = File()
    graph = file.graph()
    x = graph.tensor("x", (4,), "INT32", scale=[0.5], zero=[0])
    y = graph.tensor("y", (2, 2), "INT32")
    z = graph.tensor("z", (2, 2), "INT32", scale=[0.25], zero=[0])
    add(graph, "RESHAPE", [x, constant(graph, np.array([2, 2], np.int32))], [y])
    add(graph, "ABS", [y], [z])
    graph.interface([x], [y, z])
    check(*both(file.content(), {"x": np.array([1, -2, 3, 4], np.int32)}))
