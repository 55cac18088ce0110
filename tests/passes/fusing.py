"""What the tests of passes share: a model, a pass, what is left, and the same numbers."""

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir

from converter.ir.model import Model
from converter.passes.base import ModelPass
from converter.passes.fuse.patterns import FusePass
from tests.passes.models import Array, noise, ops, run, text_model

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
    model: Model,
    step: ModelPass,
    feeds: Mapping[str, Array] | None = None,
    rounding: float = ROUNDING,
) -> Model:
    """The model after the pass: valid, with its interface, and its outputs to rounding."""
    feeds = feeds or noise(model)
    before, interface = run(model, feeds), (model.inputs, model.outputs)
    modified = step(model.graph).modified
    onnx.checker.check_model(onnx_ir.to_proto(model.graph), full_check=True)
    assert (model.inputs, model.outputs) == interface
    after = run(model, feeds)
    for name, array in before.items():
        limit = rounding * max(1.0, float(np.abs(array).max(initial=0)))
        assert after[name].dtype == array.dtype
        np.testing.assert_allclose(after[name], array, rtol=0, atol=limit)
    names = [node.name for node in model.nodes()]
    assert not modified or (all(names) and len(set(names)) == len(names))
    return model


def kept(model: Model, step: FusePass) -> list[str]:
    """The reasons why the pass left a model alone."""
    assert not step(model.graph).modified
    return [miss.reason for miss in step.misses]


def stays(model: Model, step: FusePass, reason: str | None) -> bool:
    """Whether the pass leaves a model alone, and says why; with None, without a word."""
    reasons = kept(model, step)
    return not reasons if reason is None else any(reason in item for item in reasons)
