"""Means over height and width that become pools, and those that may not."""

from __future__ import annotations

import pytest

from converter.passes.fuse_convolution import FuseConvolution
from tests.passes.fusing import around, fused, kept, left

IMAGE = "batch,4,5,7"
AXES = (
    "int64[2] hw = {2,3}, int64[2] back = {-1,-2}, int64[2] nhwc = {1,2}, int64[1] w = {3}, "
    "int64[3] all = {1,2,3}"
)


@pytest.mark.parametrize("axes", ["hw", "back"])
def test_the_axes_are_kept(axes: str) -> None:
    nodes = f"b = ReduceMean(a, {axes})"
    model = fused(around(nodes, AXES, IMAGE, "batch,4,1,1"), FuseConvolution())
    assert left(model) == {"GlobalAveragePool": 1}


@pytest.mark.parametrize("axes", ["hw", "back"])
def test_the_axes_go_away(axes: str) -> None:
    nodes = f"b = ReduceMean<keepdims = 0>(a, {axes})"
    model = fused(around(nodes, AXES, IMAGE, "batch,4"), FuseConvolution())
    assert left(model) == {"GlobalAveragePool": 1, "Flatten": 1}


def test_the_end_of_a_classifier_with_a_free_size() -> None:
    """A name that nothing else has, an inner shape that is right, and height and width unknown."""
    nodes = "r = Relu(a) m = ReduceMean<keepdims = 0>(r, hw) b = Gemm(m, f)"
    constants = f"{AXES}, float[4,2] f = {{1,2,3,4,5,6,7,8}}"
    model = fused(around(nodes, constants, "batch,4,high,wide", "batch,2"), FuseConvolution())
    assert left(model) == {"Relu": 1, "GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1}


KEPT = [
    ("b = ReduceMean(a, w)", "batch,4,5,1", "it is over the axes [3], a pool over [2, 3]"),
    ("b = ReduceMean(a, all)", "batch,1,1,1", "it is over the axes [1, 2, 3]"),
]


@pytest.mark.parametrize(("nodes", "shape", "reason"), KEPT)
def test_other_axes(nodes: str, shape: str, reason: str) -> None:
    (found,) = kept(around(nodes, AXES, IMAGE, shape), FuseConvolution())
    assert found.startswith(reason)


@pytest.mark.parametrize(
    ("nodes", "shape", "result"),
    [
        ("b = ReduceMean(a, nhwc)", IMAGE, "batch,1,1,7"),  # channels last
        ("b = ReduceMean(a, w)", "batch,4,5,7,2", "batch,4,5,1,2"),
        ("b = ReduceMean(a, back)", "batch,4,5", "batch,1,1"),
        ("b = ReduceMean(a)", IMAGE, "1,1,1,1"),
    ],
)
def test_nothing_like_it(nodes: str, shape: str, result: str) -> None:
    assert not kept(around(nodes, AXES, shape, result), FuseConvolution())


def test_a_type_that_pools_do_not_take() -> None:
    nodes = "c = Cast<to = 16>(a) d = ReduceMean(c, hw) b = Cast<to = 1>(d)"
    model = around(nodes, AXES, IMAGE, "batch,4,1,1")
    (found,) = kept(model, FuseConvolution())
    assert "takes no BFLOAT16" in found
