"""Gather and its like: negative indices, free axes, batch axes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter.errors import ModelError
from emitters.coreml import passes
from emitters.coreml.ops import gathering, scattering
from tests.coreml_emitter.running import agree, emitted, kinds, lowered, numbers, parsed, refusals
from tests.coreml_emitter.several import several


@pytest.mark.parametrize("target", [15, 16, 17, 18])
def test_gathers_count_from_the_end(target: int) -> None:
    nodes = [f"Gather<axis = {axis}>(x, i)" for axis in (0, 1, -1)]
    model = several("float[b, n, 4] x, int64[2, 2] i", "float", nodes)
    feeds = [{"x": numbers(3, n, 4), "i": np.array([[0, -1], [-3, 2]])} for n in (5, 3)]
    agree(model, feeds, target=target)


@pytest.mark.parametrize(("target", "times"), [(15, 0), (16, 0), (17, 1), (18, 1)])
@pytest.mark.parametrize("kind", ["Gather", "GatherND", "GatherElements"])
def test_indices_are_made_positive_once(kind: str, target: int, times: int, tmp_path: Path) -> None:
    """From iOS17 on negative ones are out of bounds; before, only gather is said to take them.
    ONNX Runtime, which runs what is read back, takes them everywhere."""
    model = several("float[b, n] x, int64[m, 1] i", "float", [f"{kind}(x, i)"])
    made = kinds(emitted(model, tmp_path, target=target))
    assert made.count("select") == (times if kind == "Gather" else 1)


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
    model = several("float[b, 1] x, int64[b, 1] i", "float", [f"{kind}(x, i{updates})"])
    feeds = {"x": numbers(2, 1), "i": np.array([[0], [1]])}
    agree(model, feeds)
    with pytest.raises(ModelError, match="ONNX Runtime failed"):
        agree(model, {**feeds, "i": np.array([[0], [-1]])})


def test_gather_of_constant_indices() -> None:
    model = parsed("""
        g (int64[b, n] x, bool[3, b] m) => (int64[2, b] y, int64[b] z, bool[2, b] w)
        <int64[2] i = {-1, 0}, int64 j = {-2}> {
            t = Gather<axis = 1>(x, i)
            y = Transpose(t)
            z = Gather<axis = 1>(x, j)
            w = Gather(m, i)
        }""")
    feeds = {"x": np.arange(12).reshape(3, 4), "m": numbers(3, 3) > 0}
    agree(model, feeds)


def test_gather_of_one_computed_index() -> None:
    model = parsed("g (float[b, 4] x, int64 i) => (float[4] y) { y = Gather(x, i) }")
    agree(model, [{"x": numbers(3, 4), "i": np.asarray(i)} for i in (-3, 0, 2)])


def test_gathers_of_fewer_elements() -> None:
    """The indices may be fewer than the data along the other axes."""
    nodes = [f"GatherElements<axis = {axis}>(x, i)" for axis in (0, 1, -1)]
    model = several("float[b, 4, n] x, int64[c, 2, m] i", "float", nodes)
    index = np.array([[[-1, 0], [1, -2]]])
    agree(model, [{"x": numbers(b, 4, n), "i": index} for b, n in ((3, 2), (2, 5))])


def test_gather_elements_of_booleans() -> None:
    model = parsed("""
        g (bool[b, 3] x, int32[b, 3] i) => (bool[b, 3] y) { y = GatherElements<axis = 1>(x, i) }""")
    index = np.array([[0, -1, 1], [2, 2, -3]], np.int32)
    agree(model, {"x": numbers(2, 3) > 0, "i": index})


@pytest.mark.parametrize("target", [15, 16, 17])
def test_gather_nd_with_batch_axes(target: int) -> None:
    nodes = [f"GatherND<batch_dims = {batch}>(x, i)" for batch in (0, 1, 2)]
    model = several("float[b, n, 3, 4] x, int64[b, n, 2] i", "float", nodes)
    index = np.array([[[0, -1], [1, 0]], [[-2, 1], [-1, -1]]])
    agree(model, {"x": numbers(2, 2, 3, 4), "i": index}, target=target)


def test_gather_nd_of_one_batch_of_free_size() -> None:
    model = parsed("""
        g (bool[b, n] x, int64[b, 1] i) => (bool[b] y) { y = GatherND<batch_dims = 1>(x, i) }""")
    feeds = [
        {"x": numbers(b, n) > 0, "i": (-1 - np.arange(b))[:, None]} for b, n in ((2, 3), (3, 4))
    ]
    for target in (15, 17):
        agree(model, feeds, target=target)


def test_gather_nd_of_constant_indices() -> None:
    weights = "int64[2, 2] i = {0, -1, -2, 1}"
    model = several("float[2, 3, 4] x", "float", ["GatherND(x, i)"], weights)
    for target in (15, 17):
        agree(model, {"x": numbers(2, 3, 4)}, target=target)
        made = lowered(model, target).program.functions["main"].operations
        (indices,) = [op.indices.val for op in made if op.op_type == "gather_nd"]
        np.testing.assert_array_equal(indices, [[0, 2], [0, 1]])


def test_gather_nd_of_unknown_depth_is_refused() -> None:
    model = parsed("g (float[b, n] x, int64[m, k] i) => (float[p] y) { y = GatherND(x, i) }")
    assert "length isn't known" in refusals(model)[0].reason
