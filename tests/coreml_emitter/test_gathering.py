"""Indices that are made to count from the start, and places where no number is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter.errors import ModelError
from emitters.coreml import passes
from emitters.coreml.ops import gathering, scattering
from tests.coreml_emitter.running import (
    agree,
    emitted,
    lowered,
    numbers,
    parsed,
    refusals,
    run_package,
)


@pytest.mark.parametrize("kind", ["Gather", "GatherND", "GatherElements", "ScatterElements"])
def test_the_check_sees_an_index_that_does_not_count_from_the_start(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what has it count from there, the package isn't taken for right."""
    for module in (gathering, scattering):
        monkeypatch.setattr(module, "from_start", lambda _, indices, size: indices)
    left_out = passes.LEFT_OUT | {"common::guard_negative_gather_indices"}
    monkeypatch.setattr(passes, "LEFT_OUT", left_out)
    updates = ", x" if kind == "ScatterElements" else ""
    model = parsed(
        f"g (float[b, 1] x, int64[b, 1] i) => (float[?, ?] y) {{ y = {kind}(x, i{updates}) }}"
    )
    feeds = {"x": numbers(2, 1), "i": np.array([[0], [1]])}
    agree(model, feeds)
    with pytest.raises(ModelError, match="ONNX Runtime failed"):
        agree(model, {**feeds, "i": np.array([[0], [-1]])})


def test_constant_indices_are_made_positive() -> None:
    model = parsed("""g (float[2, 3, 4] x) => (float[2, 4] y)
        <int64[2, 2] i = {0, -1, -2, 1}> { y = GatherND(x, i) }""")
    for target in (15, 17):
        made = lowered(model, target).program.functions["main"].operations
        (indices,) = [op.indices.val for op in made if op.op_type == "gather_nd"]
        np.testing.assert_array_equal(indices, [[0, 2], [0, 1]])


def test_place_is_one_of_the_axis(tmp_path: Path) -> None:
    """Even where no number is."""
    model = parsed("g (float[n,3] x) => (int64[n,1] y) { y = ArgMax<axis=1>(x) }")
    package = emitted(model, tmp_path)
    x = np.full((2, 3), np.nan, np.float32)
    found = run_package(package, {"x": x})["y"]
    assert ((found >= 0) & (found < 3)).all()


def test_too_many_boxes_are_refused() -> None:
    model = parsed("""
        g (float[1, 20000, 4] boxes, float[1, 80, 20000] scores) => (int64[k, 3] y)
        <int64 most = {5}> { y = NonMaxSuppression(boxes, scores, most) }""")
    assert "20000 boxes of 80 classes" in refusals(model)[0].reason
