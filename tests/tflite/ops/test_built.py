"""Operators that TensorFlow's converter doesn't write from small functions, built by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.tflite.build import File
from tests.tflite.ops.compare import Array, both, check


def real(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def whole(*values: int) -> Array:
    return np.array(values, np.int32)


def bytes_(*shape: int) -> Array:
    return np.random.default_rng(shape).integers(0, 256, shape).astype(np.uint8)


OFFSET = {"offset": True}
LEVELS = {"min": -0.7, "max": 1.9, "numBits": 8}
POOL = {"strideH": 2, "strideW": 2, "filterHeight": 3, "filterWidth": 2}
SINGLES: dict[str, tuple[str, Sequence[int], Sequence[int], list[Array], dict[str, Any]]] = {
    "gelu": ("GELU", (3, 5), (3, 5), [], {"approximate": False}),
    "gelu-tanh": ("GELU", (3, 5), (3, 5), [], {"approximate": True}),
    "fake-quant": ("FAKE_QUANT", (3, 5), (3, 5), [], LEVELS),
    "fake-quant-4-bits": ("FAKE_QUANT", (3, 5), (3, 5), [], {**LEVELS, "numBits": 4}),
    "relu-0-1": ("RELU_0_TO_1", (3, 5), (3, 5), [], {}),
    "l2-pool": ("L2_POOL_2D", (2, 5, 6, 3), (2, 3, 3, 3), [], POOL),
    "softmax-beta": ("SOFTMAX", (3, 5), (3, 5), [], {"beta": 0.3}),
    "update": ("DYNAMIC_UPDATE_SLICE", (4, 5), (4, 5), [real(2, 3), whole(3, 1)], {}),
    "reversed": ("REVERSE_V2", (2, 3, 4), (2, 3, 4), [whole(1)], {}),
    "squeeze-all": ("SQUEEZE", (1, 3, 1, 4), (3, 4), [], {}),
    "reshape-option": ("RESHAPE", (2, 6), (3, 4), [], {"newShape": whole(3, -1)}),
    "offset": ("STRIDED_SLICE", (5, 6), (3, 6), [whole(1, 0), whole(3, 6), whole(1, 1)], OFFSET),
}
"""An operator on x: its name, the shape of x and of the result, its constants and its options."""


@pytest.mark.parametrize("name", SINGLES)
def test_single_operator(name: str) -> None:
    operator, shape, result, constants, options = SINGLES[name]
    file = File()
    graph = file.graph()
    x, y = graph.tensor("x", shape), graph.tensor("y", result)
    graph.op(operator, [x, *map(graph.constant, constants)], [y], **options)
    agree(file, [x], [y], real(*shape))


def agree(file: File, inputs: Sequence[int], outputs: Sequence[int], x: Array) -> None:
    """LiteRT and the imported model compute the same of the input x."""
    file.main.interface(inputs, outputs)
    check(*both(file.content(), {"x": x}))


def test_embedding_lookup_and_sparse_to_dense() -> None:
    file = File()
    graph = file.graph()
    x, rows = graph.tensor("x", (3,), "INT32"), graph.tensor("rows", (3, 4))
    dense = graph.tensor("dense", (6,))
    graph.op("EMBEDDING_LOOKUP", [x, graph.constant(real(6, 4))], [rows])
    given = [graph.constant(array) for array in (whole(6), real(3), np.array(-1, np.float32))]
    graph.op("SPARSE_TO_DENSE", [x, *given], [dense])
    agree(file, [x], [rows, dense], whole(1, 3, 5))


def test_legacy_uint8() -> None:
    """Unsigned weights and activations with zero points in the middle; parts with scales of their
    own are brought to the result's."""
    file = File()
    graph = file.graph()
    x = graph.tensor("x", (1, 6, 6, 3), "UINT8", scale=[0.02], zero=[120])
    y = graph.tensor("y", (1, 3, 3, 4), "UINT8", scale=[0.05], zero=[90])
    weights = graph.constant(bytes_(4, 3, 3, 3), scale=[0.01], zero=[131])
    bias = np.random.default_rng(0).integers(-500, 500, 4).astype(np.int32)
    offsets = graph.constant(bias, scale=[0.02 * 0.01], zero=[0])
    options = {"strideH": 2, "strideW": 2, "fusedActivationFunction": 1}
    graph.op("CONV_2D", [x, weights, offsets], [y], **options)
    z = graph.tensor("z", (1, 6, 6, 6), "UINT8", scale=[0.03], zero=[100])
    other = graph.constant(bytes_(1, 6, 6, 3)[..., ::-1], scale=[0.01], zero=[3])
    graph.op("CONCATENATION", [x, other], [z], axis=3)
    agree(file, [x], [y, z], bytes_(1, 6, 6, 3))


def test_one_value_under_two_names() -> None:
    """An output that is an input, one that is a constant, one that is there twice."""
    file = File()
    graph = file.graph()
    x, y = graph.tensor("x", (2, 3)), graph.tensor("y", (2, 3))
    graph.op("RELU", [x], [y])
    agree(file, [x], [y, x, y, graph.constant(real(2))], real(2, 3))


def test_counts_with_a_scale_stay_counts() -> None:
    """Computed 32-bit integers are what they say, whatever scale the file gives them."""
    file = File()
    graph = file.graph()
    x = graph.tensor("x", (4,), "INT32", scale=[0.5], zero=[0])
    y = graph.tensor("y", (2, 2), "INT32")
    z = graph.tensor("z", (2, 2), "INT32", scale=[0.25], zero=[0])
    graph.op("RESHAPE", [x, graph.constant(whole(2, 2))], [y])
    graph.op("ABS", [y], [z])
    agree(file, [x], [y, z], whole(1, -2, 3, 4))
