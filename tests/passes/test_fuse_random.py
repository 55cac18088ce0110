"""All fusing passes on seeded random graphs: what they change computes the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.errors import ModelError
from converter.passes.cleanup import Cleanup
from converter.passes.fuse_activation import FuseActivation
from converter.passes.fuse_convolution import FuseConvolution
from converter.passes.fuse_normalization import FuseNormalization
from converter.passes.fuse_padding import FusePadding
from converter.passes.fuse_shapes import FuseShapes
from converter.passes.patterns import Edit, FusePass
from converter.passes.transposes import Transposes
from tests.passes.models import noise, run, text_model
from tests.passes.random_graphs import RandomGraph

PASSES: tuple[type[FusePass], ...] = (
    FuseShapes,
    FusePadding,
    FuseActivation,
    FuseNormalization,
    FuseConvolution,
)


@pytest.mark.parametrize("start", [0, 30])
def test_random_graphs_compute_the_same(start: int) -> None:
    changed = Counter[str]()
    for seed in range(start, start + 30):
        model = RandomGraph(seed, 18).model()
        feeds = noise(model)
        try:
            before = run(model, feeds)
        except ModelError:
            continue  # of an operator that ONNX Runtime has no kernel for
        for prepare in (Transposes(), Cleanup()):
            prepare(model.graph)
        for kind in PASSES:
            changed[kind.name] += kind()(model.graph).modified
        onnx.checker.check_model(onnx_ir.to_proto(model.graph), full_check=True)
        after = run(model, feeds)
        for name, array in before.items():
            limit = 1e-5 * max(1.0, float(np.abs(array).max(initial=0)))
            np.testing.assert_allclose(after[name], array, rtol=1e-5, atol=limit, err_msg=str(seed))
    assert sum(changed.values()) > 8


@pytest.mark.parametrize("kind", PASSES)
def test_a_second_run_finds_nothing(kind: type[FusePass]) -> None:
    for seed in range(20):
        model = RandomGraph(seed, 18).model()
        kind()(model.graph)
        assert not kind()(model.graph).modified


def test_constants_are_made_once_and_never_changed_for_two() -> None:
    model = text_model("m (float[2] x) => (float[2] y) <float[2] a = {1,2}> { y = Add(x, a) }")
    edit = Edit(model.graph)
    first, again = (edit.constant(np.ones(2, np.float32), "a") for _ in range(2))
    assert first is again and first.name == "a_1"
    own = model.graph.graph.initializers["a"]
    assert edit.with_contents(own, np.zeros(2, np.float32)) is own
    node = next(iter(model.graph.graph))
    node.replace_input_with(0, own)  # two uses now
    assert edit.with_contents(own, np.ones(2, np.float32)) is first
