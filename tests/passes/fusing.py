"""What the tests of fusing passes share: a model, a pass, what is left, and the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir

from converter.ir import Model
from converter.passes.patterns import FusePass
from tests.passes.models import noise, ops, run, text_model

ROUNDING = 2e-6
"""Of the largest magnitude: some 16 units in the last place of a float32."""


def around(nodes: str, constants: str = "", shape: str = "batch,4", result: str = "") -> Model:
    """A model of ``nodes`` from ``a`` to ``b``, neither of which is an input or output."""
    return text_model(
        f"m (float[{shape}] x) => (float[{result or shape}] y) <{constants}> "
        f"{{ a = Identity(x) {nodes} y = Identity(b) }}"
    )


def left(model: Model) -> dict[str, int]:
    """The operators besides the two around."""
    counts = ops(model)
    counts.subtract({"Identity": 2})
    return {op: count for op, count in counts.items() if count}


def fused(
    model: Model, step: FusePass, feeds: dict[str, np.ndarray[Any, Any]] | None = None
) -> Model:
    """The model after the pass: valid, with its interface, and its outputs to rounding."""
    feeds = feeds or noise(model)
    before, interface = run(model, feeds), (model.inputs, model.outputs)
    modified = step(model.graph).modified
    onnx.checker.check_model(_proto(model), full_check=True)
    assert (model.inputs, model.outputs) == interface
    after = run(model, feeds)
    for name, array in before.items():
        limit = ROUNDING * max(1.0, float(np.abs(array).max(initial=0)))
        np.testing.assert_allclose(after[name], array, rtol=0, atol=limit)
    names = [node.name for node in model.nodes()]
    assert not modified or (all(names) and len(set(names)) == len(names))
    return model


def kept(model: Model, step: FusePass) -> list[str]:
    """The reasons why the pass left a model alone."""
    assert not step(model.graph).modified
    return [miss.reason for miss in step.misses]


def _proto(model: Model) -> onnx.ModelProto:
    return onnx_ir.to_proto(model.graph)
