"""Multiply-adds: in the bodies of Ifs and Loops, and where shape inference gives up."""

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.analysis.macs import macs_by_node, node_macs
from converter.analysis.observed_shapes import HEAVY, observed_shapes
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


def test_bodies_count_as_if_each_ran_once() -> None:
    model = text_model(BRANCHES)
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


EMBEDDING = """
    m (float[batch, n, 8] x, float[8, 4] w, float[1, 512, 8] p) => (float[batch, n, 4] y)
    <int64[1] zero = {0}, int64[1] one = {1}>
    {
        length = Shape <start: int = 1, end: int = 2> (x)
        positions = Slice(p, zero, length, one, one)
        sum = Add(x, positions)
        [product] y0 = MatMul(sum, w)
        y = Relu(y0)
    }"""


def test_a_slice_of_computed_length_is_counted() -> None:
    model = text_model(EMBEDDING)
    proto = model.to_proto()
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_value, dims[1].dim_value = 1, 5
    del proto.graph.value_info[:]
    inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    (known,) = [v for v in inferred.graph.value_info if v.name == "sum"]
    assert not known.type.tensor_type.shape.dim[0].HasField("dim_value")  # why a run is needed
    assert macs_by_node(model, {"n": 5}) == {"product": 5 * 8 * 4}
    assert macs_by_node(model, {"n": 1, "batch": 3}) == {"product": 3 * 8 * 4}


def test_a_model_that_zeros_do_not_suit_has_no_observed_shapes() -> None:
    model = text_model("""
        m (float[batch, 6] x, int64[1] to) => (float[a] y) { z = Neg(x) y = Reshape(z, to) }""")
    assert observed_shapes(model, {}, {"y"}) == {}
    assert observed_shapes(model, {}, {"z", "x"}) == {}


def test_large_weights_are_not_needed_for_a_count() -> None:
    """Zeros stand for them, here for the positions, of which a slice is taken."""
    model = text_model(EMBEDDING.replace("float[1, 512, 8] p", "float[1, 9000, 8] p"))
    positions = next(value for value in model.graph.graph.inputs if value.name == "p")
    positions.const_value = onnx_ir.tensor(np.ones((1, 9000, 8), np.float32), name="p")
    model.graph.graph.inputs.remove(positions)
    model.graph.graph.register_initializer(positions)
    assert positions.const_value.nbytes > HEAVY
    assert macs_by_node(model, {"n": 5}) == {"product": 5 * 8 * 4}
    assert observed_shapes(model, {"n": 7}, {"sum"}) == {"sum": (1, 7, 8)}
