"""What rounding alone may change: inputs, and weights, that differ in their last places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant, all_nodes, constant_tensor, is_op
from converter.ir.facts import MATRIX_PRODUCTS, WEIGHTED

Array = np.ndarray[Any, Any]

_SHAKE = 2.0**-22

_MOST = 1 << 24
"""Elements above which a weight stays as it is."""


def rounded(feeds: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """The feeds with rounding added to floats, to zeros too."""
    rng = np.random.default_rng(seed)
    moved = dict(feeds)
    for name, array in feeds.items():
        if array.dtype.kind == "f":
            noise = _SHAKE * rng.standard_normal((2, *array.shape))
            moved[name] = (array * (1 + noise[0]) + noise[1]).astype(array.dtype)
    return moved


def with_rounded_weights(model: onnx_ir.Model, seed: int) -> onnx_ir.Model:
    """A copy whose layers have weights and biases off by rounding: on a constant signal that is all
    that can be."""
    rng, copy = np.random.default_rng(seed), model.clone()
    for node in all_nodes(copy):
        for place in _weights(node):
            tensor = constant_tensor(node.inputs[place])
            if tensor is not None and tensor.size <= _MOST and tensor.dtype.is_floating_point():
                assert isinstance(node.graph, onnx_ir.Graph)
                array = tensor.numpy()
                noise = _SHAKE * rng.standard_normal(array.shape)
                moved = (array * (1 + noise)).astype(array.dtype)
                name = f"{node.name}/{place}/rounded"
                node.replace_input_with(place, add_constant(node.graph, name, moved))
    return copy


def _weights(node: onnx_ir.Node) -> range:
    """The places of a layer's weights and bias among its inputs; of a sum, that of a product's
    bias."""
    if is_op(node, *WEIGHTED):
        return range(1, len(node.inputs))
    makers = [value.producer() for value in node.inputs if value is not None]
    behind = is_op(node, "Add") and any(is_op(maker, *MATRIX_PRODUCTS) for maker in makers)
    return range(len(node.inputs)) if behind else range(0)
