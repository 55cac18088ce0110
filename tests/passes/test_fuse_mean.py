"""Means over height and width that become pools, and those that may not."""

from __future__ import annotations

import pytest

from converter.passes.fuse_convolution import FuseConvolution
from tests.passes.fusing import around, fused, kept, left

IMAGE = "batch,4,5,7"
CONSTANTS = (
    "int64[2] hw = {2,3}, int64[2] back = {-1,-2}, int64[2] nhwc = {1,2}, int64[1] w = {3}, "
    "int64[3] all = {1,2,3}, float[4,2] f = {1,2,3,4,5,6,7,8}"
)


POOLED = [
    ("b = ReduceMean(a, hw)", IMAGE, "batch,4,1,1", {}),
    ("b = ReduceMean(a, back)", IMAGE, "batch,4,1,1", {}),
    ("b = ReduceMean<keepdims = 0>(a, hw)", IMAGE, "batch,4", {"Flatten": 1}),
    ("b = ReduceMean<keepdims = 0>(a, back)", IMAGE, "batch,4", {"Flatten": 1}),
    # the end of a classifier: the batch has a name that nothing else has, the inner shape is
    # right, height and width are unknown
    ("r = Relu(a) m = ReduceMean<keepdims = 0>(r, hw) b = Gemm(m, f)", "batch,4,high,wide",
     "batch,2", {"Relu": 1, "Flatten": 1, "Gemm": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "shape", "result", "others"), POOLED)
def test_becomes_a_pool(nodes: str, shape: str, result: str, others: dict[str, int]) -> None:
    model = fused(around(nodes, CONSTANTS, shape, result), FuseConvolution())
    assert left(model) == {"GlobalAveragePool": 1, **others}


KEPT = [
    ("b = ReduceMean(a, w)", IMAGE, "batch,4,5,1", "it is over the axes [3], a pool over [2, 3]"),
    ("b = ReduceMean(a, all)", IMAGE, "batch,1,1,1", "it is over the axes [1, 2, 3]"),
    ("c = Cast<to = 16>(a) d = ReduceMean(c, hw) b = Cast<to = 1>(d)", IMAGE, "batch,4,1,1",
     "GlobalAveragePool takes no BFLOAT16"),
    ("b = ReduceMean(a, nhwc)", IMAGE, "batch,1,1,7", None),  # channels last
    ("b = ReduceMean(a, w)", "batch,4,5,7,2", "batch,4,5,1,2", None),
    ("b = ReduceMean(a, back)", "batch,4,5", "batch,1,1", None),
    ("b = ReduceMean(a)", IMAGE, "1,1,1,1", None),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "shape", "result", "reason"), KEPT)
def test_stays(nodes: str, shape: str, result: str, reason: str | None) -> None:
    found = kept(around(nodes, CONSTANTS, shape, result), FuseConvolution())
    assert not found if reason is None else len(found) == 1 and reason in found[0]
