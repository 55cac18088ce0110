"""Ranges that a graph itself gives its outputs."""

import onnx_ir
import pytest

from converter.ir.never_negative import never_negative
from converter.ir.value_ranges import output_ranges
from emitters.lowering.folding import fill_in
from emitters.tflite.bounds import SIZE, bounds, fits_int32

HEAD = '<ir_version: 9, opset_import: ["" : 20]> '
IMAGE = "a = Sigmoid(x) z = Constant<value_ints = [0]>() i = Unsqueeze(a, z)"


@pytest.mark.parametrize(("body", "expected"), [
    ("y = Sigmoid(x)", (0.0, 1.0)),
    ("a = Softmax(x) y = Transpose(a)", (0.0, 1.0)),
    ("a = Tanh(x) b = Sigmoid(x) y = Concat<axis = 0>(a, b)", (-1.0, 1.0)),
    ("a = Sigmoid(x) y = Concat<axis = 0>(a, x)", None),
    ("a = Sigmoid(x) y = Add(a, a)", None),
    ("a = Tanh(x) i = Constant<value_ints = [1]>() y = GatherND(a, i)", (-1.0, 1.0)),
    (f"{IMAGE} y = AveragePool<kernel_shape = [2], pads = [1, 0]>(i)", (0.0, 1.0)),
    (f"{IMAGE} y = GlobalMaxPool(i)", (0.0, 1.0)),
    (f"{IMAGE} m, y = MaxPool<kernel_shape = [2]>(i)", None),
    ("y = Relu(x)", None),
    ("y = Identity(x)", None),
])  # fmt: skip
def test_output_ranges(body: str, expected: tuple[float, float] | None) -> None:
    text = f"{HEAD} g (float[2, 2] x) => (float[n, m] y) {{ {body} }}"
    found = output_ranges(onnx_ir.from_onnx_text(text))
    assert found.get("y") == expected


@pytest.mark.parametrize(("body", "expected"), [
    ("y = Shape(x)", SIZE),
    ("y = Size(x)", SIZE),
    ("y = NonMaxSuppression(b, c)", SIZE),
    ("a = ArgMax(x) p = SpaceToDepth<blocksize = 2>(a) y = ReduceMax(p)", SIZE),
    ("a = ArgMax(x) l = Constant<value_ints = [1]>() y = ReverseSequence(a, l)", SIZE),
    ("s = Cast<to = 3>(x) m, y = MaxPool<kernel_shape = [1, 1]>(s)", None),
    ("s = Cast<to = 7>(x) y = ReduceMin(s)", None),
])  # fmt: skip
def test_integers(body: str, expected: tuple[int, int] | None) -> None:
    """What LiteRT's lowerings know of them; Core ML's know of the same that none is negative."""
    interface = "(float[1, 1, 2, 2] x, float[1, 9, 4] b, float[1, 1, 9] c) => (int64[n] y)"
    model = onnx_ir.from_onnx_text(f"{HEAD} g {interface} {{ {body} }}")
    fill_in(model)
    (value,) = model.graph.outputs
    assert bounds(value) == expected
    assert never_negative(value) == (expected is not None)


@pytest.mark.parametrize(("integer", "fits"), [
    (-(2**31) - 1, False), (-(2**31), True), (2**31 - 1, True), (2**31, False),
])  # fmt: skip
def test_what_int32_holds(integer: int, fits: bool) -> None:
    made = onnx_ir.node("Constant", [], {"value": onnx_ir.tensor([0, integer])})
    assert fits_int32(made.outputs[0]) is fits
