"""Pairs of nodes that become one, and pairs that only look as if they could."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_ir import DataType

from converter.passes.cleanup import Cleanup
from converter.passes.merge import MergeChains, fits
from tests.passes.models import noise, ops, run, text_model

MERGED = [
    (
        "b = Transpose<perm: ints = [2,0,1]>(a) c = Transpose<perm: ints = [0,2,1]>(b)",
        "",
        {"Transpose": 1},
    ),
    ("b = Transpose<perm: ints = [2,0,1]>(a) c = Transpose<perm: ints = [1,2,0]>(b)", "", {}),
    (
        "b = Reshape(a, s) c = Reshape(b, t)",
        "int64[1] s = {-1}, int64[2] t = {3,-1}",
        {"Reshape": 1},
    ),
    ("b = Flatten(a) c = Reshape(b, t)", "int64[2] t = {3,-1}", {"Reshape": 1}),
    ("b = Unsqueeze(a, s) c = Squeeze(b, s)", "int64[2] s = {0,2}", {}),
    ("b = Cast<to: int = 11>(a) c = Cast<to: int = 1>(b)", "", {}),
    ("b = Cast<to: int = 11>(a) c = Cast<to: int = 10>(b)", "", {"Cast": 1}),
]

APART = [
    ("b = Cast<to: int = 10>(a) c = Cast<to: int = 1>(b)", ""),
    ("b = Cast<to: int = 6>(a) c = Cast<to: int = 1>(b)", ""),
    ("b = Cast<to: int = 11>(a) c = Cast<to: int = 3>(b)", ""),
    ("b = Reshape(a, s) c = Reshape(b, t)", "int64[2] s = {4,-1}, int64[2] t = {0,-1}"),
    ("b = Unsqueeze(a, s) c = Squeeze(b, t)", "int64[1] s = {0}, int64[1] t = {1}"),
]


def _model(nodes: str, constants: str) -> str:
    return f"m (float[2,1,6] x) => (y) <{constants}> {{ a = Neg(x) {nodes} y = Identity(c) }}"


@pytest.mark.parametrize(("nodes", "constants", "left"), MERGED)
def test_merges(nodes: str, constants: str, left: dict[str, int]) -> None:
    halves = nodes.endswith("= 10>(b)")
    model = text_model(
        _model(nodes, constants).replace("(y)", f"({'float16' if halves else 'float'} y)")
    )
    model.graph.graph.outputs[0].shape = None
    feeds = noise(model)
    before = run(model, feeds)["y"]
    Cleanup()(model.graph)
    assert ops(model) == {"Neg": 1, **left}
    after = run(model, feeds)["y"]
    assert after.dtype == before.dtype
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(("nodes", "constants"), APART)
def test_leaves_apart(nodes: str, constants: str) -> None:
    model = text_model(_model(nodes, constants).replace("(y)", "(float y)"))
    assert not MergeChains()(model.graph).modified


def test_a_middle_value_in_use_stays() -> None:
    model = text_model("""
        m (float[2,3] x) => (float[2,3] y, float[3,2] z) {
            a = Transpose<perm: ints = [1,0]>(x)
            y = Transpose<perm: ints = [1,0]>(a)
            z = Neg(a)
        }""")
    feeds = noise(model)
    before = run(model, feeds)
    Cleanup()(model.graph)
    after = run(model, feeds)
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("narrow", "wide", "expected"),
    [
        (DataType.FLOAT16, DataType.FLOAT, True),
        (DataType.FLOAT16, DataType.BFLOAT16, False),
        (DataType.BFLOAT16, DataType.FLOAT16, False),
        (DataType.INT32, DataType.FLOAT, False),
        (DataType.INT32, DataType.DOUBLE, True),
        (DataType.UINT16, DataType.FLOAT16, False),
        (DataType.UINT8, DataType.INT8, False),
        (DataType.UINT8, DataType.INT16, True),
        (DataType.INT8, DataType.UINT64, False),
        (DataType.BOOL, DataType.INT8, True),
        (DataType.INT8, DataType.BOOL, False),
        (DataType.STRING, DataType.FLOAT, False),
    ],
)
def test_fits(narrow: DataType, wide: DataType, expected: bool) -> None:
    assert fits(narrow, wide) is expected


def test_merged_nodes_keep_names() -> None:
    model = text_model(_model(*MERGED[0][:2]).replace("(y)", "(float[2,6,1] y)"))
    Cleanup()(model.graph)
    names = [node.name for node in model.graph.graph]
    assert all(names) and len(set(names)) == len(names)
