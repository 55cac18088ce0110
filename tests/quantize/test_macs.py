"""Multiply-adds of nodes, those in the bodies of Ifs and Loops too."""

from __future__ import annotations

from converter.graph.macs import macs_by_node, node_macs
from converter.ir import Model
from converter.quantize.lowered import Lowered
from converter.quantize.told import told
from tests.passes.models import text_model

BRANCHES = """
agraph (float[batch, 8] x, bool c, float[8, 4] w, float[8, 4] v) => (float[batch, 4] y) {
    y = If (c) <
        then_branch = one () => (float[batch, 4] a) {
            [small] a = MatMul(x, w) },
        else_branch = two () => (float[batch, 4] b) {
            r = Relu(x) [large] b = MatMul(r, v) }
    >
}
"""


def _model() -> Model:
    return text_model(BRANCHES)


def test_bodies_count_as_if_each_ran_once() -> None:
    model = _model()
    assert node_macs(model, {}) == {}
    assert sorted(macs_by_node(model, {"batch": 3}).values()) == [3 * 8 * 4] * 2


def test_a_share_of_nothing_is_not_all_of_it() -> None:
    said = next(told(Lowered(_model(), "int8", lowered=["a", "b"])))
    assert said.startswith("the multiply-adds in int8 couldn't be counted: 2 nodes")
