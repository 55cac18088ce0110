"""Symbols that are one size, whatever they are called."""

import onnx
import onnx_ir
import pytest

from converter.ir.equal_sizes import name_equal_sizes, name_unknown

HEADER = '<ir_version: 9, opset_import: ["" : 20]> '


def named(inputs: str, body: str, **shapes: list[int | str]) -> dict[str, list[int | str]]:
    """The shapes of those values once equal sizes have one name."""
    text = HEADER + f"g ({inputs}) => (float[q] end) {{ {body} end = Identity(x) }}"
    model = onnx_ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text)))
    values = {value.name: value for node in model.graph for value in node.outputs}
    for name, shape in shapes.items():
        values[name].shape = onnx_ir.Shape(shape)
    name_equal_sizes(model)
    found = {name: values[name].shape for name in shapes}
    return {
        name: [dim if isinstance(dim, int) else str(dim.value) for dim in shape or ()]
        for name, shape in found.items()
    }


def test_a_reshape_keeps_the_number_of_elements_and_a_shape_what_it_is_computed_from() -> None:
    body = "a = Reshape(x, s) b = Reshape(x, t) c = Reshape(x, u)"
    shapes = {"a": ["k", 2, 4], "b": ["m", "steps", 4], "c": ["j", 8]}
    found = named("float[n, steps, 8] x, int64[3] s, int64[3] t, int64[2] u", body, **shapes)
    assert found == {"a": ["k", 2, 4], "b": ["m", "steps", 4], "c": ["k", 8]}
    whole = named("float[n, 8] x, int64[3] s", "a = Reshape(x, s)", a=["k", 2, 4])
    assert whole == {"a": ["n", 2, 4]}
    body = """
        s = Shape(x) i = Constant<value = int64[1] {0}>() j = Constant<value = int64[1] {1}>()
        n = Gather(s, i) t = Gather(s, j) nt = Mul(n, t)
        shape = Concat<axis = 0>(nt, n) made = ConstantOfShape(shape) flat = Reshape(x, r)
    """
    shapes = {"s": [3], "made": ["k", "m"], "flat": ["l", 8]}
    found = named("float[n, t, 8] x, int64[2] r", body, **shapes)
    assert found["made"] == ["k", "n"]
    assert found["flat"] == ["k", 8]


@pytest.mark.parametrize(("inputs", "body", "shape", "expected"), [
    ("float[n, 4] x, float[9, 4] w", "a = Relu(x) z = Concat<axis=1>(a, w)", ["k", 4], [9, 4]),
    ("float[n, 4] x, float[5,4] w", "a = Relu(x) z = Concat<axis=0>(a, w)", ["k", 4], ["k", 4]),
    ("float[n, 4] x, float[m, 4] w", "a = Relu(x) z = Add(a, w)", ["k", 4], ["k", 4]),
    ("float[n, 4] x, float[5, m] w", "a = Relu(x) z = MatMul(w, a)", ["k", 4], ["m", 4]),
    ("float[n, 4] x, float[1, 4] w", "r = Relu(x) a = Add(r, w)", ["k", 4], ["n", 4]),
    ("float[n, 4] x, float[n, 1] w", "c = Greater(x, w) a = Where(c, x, w)", ["k", 4], ["n", 4]),
    ("float[n, 2, 5] x, float[n, 5, 4] w", "a = MatMul(x, w)", ["k", 2, 4], ["n", 2, 4]),
    ("float[n, m, 2, 5] x, float[5] w", "a = MatMul(x, w)", ["n", "k", 2], ["n", "k", 2]),
    ("float[n, 4] x, float[1, 1, 4] w",
     "s = Shape<end = 1>(x) one = Constant<value = int64[2] {1, 1}>() "
     "u = Concat<axis = 0>(s, one) a = Expand(w, u)", ["k", "l", 4], ["n", 1, 4]),
    ("float[n, 4] x, float[n, 4] w",
     "s = Shape<end = 1>(x) one = Constant<value = int64[2] {1, 1}>() "
     "u = Concat<axis = 0>(one, s) a = Expand(w, u)", [1, "k", 4], [1, "n", 4]),
    ("float[n, 4] x, float[m, 4] w", "s = Shape(x) a = Expand(w, s)", ["k", 4], ["k", 4]),
])  # fmt: skip
def test_what_operators_ask_for(
    inputs: str, body: str, shape: list[int | str], expected: list[int | str]
) -> None:
    assert named(inputs, body, a=shape)["a"] == expected


def test_an_input_s_size_is_never_taken_away() -> None:
    found = named("float[n, 4] x, float[m, 4] w", "a = Concat<axis=1>(x, w)", a=["k", 8])
    assert found["a"] in (["n", 8], ["m", 8])


def test_a_name_that_an_earlier_inference_made_up_is_another_s() -> None:
    """Two counts of what isn't zero: the second one is called as inference calls the first."""
    text = HEADER + "g (float[n] x, float[n] y) => (int64[a, b] end) "
    text += "{ c = NonZero(x) d = NonZero(y) end = Concat<axis = 1>(c, d) }"
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    values = {value.name: value for node in model.graph for value in node.outputs}
    values["c"].shape = onnx_ir.Shape([1, None])
    values["d"].shape = onnx_ir.Shape([1, "unk__0"])
    name_unknown(model)
    shapes = [values[name].shape for name in "cd"]
    first, second = (str(shape[1]) for shape in shapes if shape is not None)
    assert first not in ("None", second) and second == "unk__0"
