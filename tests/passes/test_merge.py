"""Pairs of nodes that become one, and pairs that only look as if they could."""

import pytest
from onnx_ir import DataType

from converter.passes.cleanup.cleanup import Cleanup
from converter.passes.cleanup.merge import MergeChains, fits
from tests.passes.fusing import fused
from tests.passes.models import ops, text_model

MERGED = [
    ("b = Transpose<perm: ints = [2,0,1]>(a) c = Transpose<perm: ints = [0,2,1]>(b)", "",
     {"Transpose": 1}),
    ("b = Transpose<perm: ints = [2,0,1]>(a) c = Transpose<perm: ints = [1,2,0]>(b)", "", {}),
    ("b = Reshape(a, s) c = Reshape(b, t)", "int64[1] s = {-1}, int64[2] t = {3,-1}",
     {"Reshape": 1}),
    ("b = Flatten(a) c = Reshape(b, t)", "int64[2] t = {3,-1}", {"Reshape": 1}),
    ("b = Unsqueeze(a, s) c = Squeeze(b, s)", "int64[2] s = {0,2}", {}),
    ("b = Cast<to: int = 11>(a) c = Cast<to: int = 1>(b)", "", {}),
    ("b = Cast<to: int = 11>(a) c = Cast<to: int = 10>(b)", "", {"Cast": 1}),
]  # fmt: skip

APART = [
    ("b = Cast<to: int = 10>(a) c = Cast<to: int = 1>(b)", ""),
    ("b = Cast<to: int = 6>(a) c = Cast<to: int = 1>(b)", ""),
    ("b = Cast<to: int = 11>(a) c = Cast<to: int = 3>(b)", ""),
    ("b = Reshape(a, s) c = Reshape(b, t)", "int64[2] s = {4,-1}, int64[2] t = {0,-1}"),
    ("b = Unsqueeze(a, s) c = Squeeze(b, t)", "int64[1] s = {0}, int64[1] t = {1}"),
]


def _model(nodes: str, constants: str, kind: str = "float") -> str:
    return (
        f"m (float[2,1,6] x) => ({kind} y) <{constants}> {{ a = Neg(x) {nodes} y = Identity(c) }}"
    )


@pytest.mark.parametrize(("nodes", "constants", "left"), MERGED)
def test_merges(nodes: str, constants: str, left: dict[str, int]) -> None:
    kind = "float16" if nodes.endswith("= 10>(b)") else "float"
    model = text_model(_model(nodes, constants, kind))
    c = next(node for node in model.nodes() if node.op_type == "Identity").inputs[0]
    model.graph.graph.outputs[0].shape = c and c.shape
    assert ops(fused(model, Cleanup(), rounding=0)) == {"Neg": 1, **left}


@pytest.mark.parametrize(("nodes", "constants"), APART)
def test_leaves_apart(nodes: str, constants: str) -> None:
    assert not MergeChains()(text_model(_model(nodes, constants)).graph).modified


def test_a_middle_value_in_use_stays() -> None:
    model = text_model("""
        m (float[2,3] x) => (float[2,3] y, float[3,2] z) {
            a = Transpose<perm = [1,0]>(x) y = Transpose<perm = [1,0]>(a) z = Neg(a) }""")
    fused(model, Cleanup(), rounding=0)


def test_fits() -> None:
    wider = "FLOAT16 FLOAT, INT32 DOUBLE, UINT8 INT16, BOOL INT8"
    others = (
        "FLOAT16 BFLOAT16, BFLOAT16 FLOAT16, INT32 FLOAT, UINT16 FLOAT16, UINT8 INT8, INT8 UINT64, "
        "INT8 BOOL, STRING FLOAT"
    )
    for pairs, expected in ((wider, True), (others, False)):
        for pair in pairs.split(", "):
            assert fits(*(DataType[name] for name in pair.split())) is expected, pair
