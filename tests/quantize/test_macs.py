"""Multiply-adds of nodes, those in the bodies of Ifs and Loops too."""

import pytest

from converter.graph.macs import macs_by_node, node_macs
from converter.ir import Model
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


@pytest.mark.parametrize(("equation", "macs"), [("bij,bjk->bik", 2 * 3 * 4 * 5), ("bij->bji", 0)])
def test_an_einsum_sums_over_what_its_result_lacks(equation: str, macs: int) -> None:
    second = ", float[2,4,5] z" if "," in equation else ""
    result = "float[2,3,5]" if second else "float[2,4,3]"
    model = text_model(f"""
    g (float[2,3,4] x{second}) => ({result} y) {{
      y = Einsum <equation = "{equation}"> (x{", z" if second else ""})
    }}""")
    assert list(node_macs(model, {}).values()) == [macs]
