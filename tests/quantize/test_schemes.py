"""Every scheme on every kind of operator: ONNX Runtime against the formulas, to within a step.

With its optimizations off the Q/DQ graph runs as it is written; with them on, ONNX Runtime puts
integer kernels where it has them, which round their own way.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest

from converter.errors import ModelError
from converter.precision.int8.insert import quantize
from converter.precision.int8.placement import place
from converter.runtime.ort import OrtSession
from tests.passes.models import Array
from tests.quantize.cases import Net
from tests.quantize.emulate import Emulation
from tests.quantize.minmax_limits import Measured, measured_on
from tests.schemes import SCHEMES

ORT, REDUCED, TRT = "onnxruntime-u8s8", "onnxruntime-u8s7", "tensorrt-s8"
TFLITE, SIXTEEN, COREML = "tflite-int8", "tflite-int16x8", "coreml-w8a8"


@dataclass(frozen=True)
class Case:
    """A net, and what each scheme has to quantize in it.

    Attributes:
        net: The float model.
        quantized: Names by scheme, ``*`` for those not named; None where the scheme refuses.
        same: Tensors with one scale, by scheme.
        fixed: Scales and zero points that a scheme demands.
        known: Ranges known without measuring.
    """

    net: Net
    quantized: Mapping[str, str | None]
    same: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fixed: Mapping[str, Mapping[str, tuple[float, int]]] = field(default_factory=dict)
    known: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def at(table: Mapping[str, Any], scheme: str, default: Any = None) -> Any:
    """A scheme's entry; both of ONNX Runtime's have the same, and TFLite's of 16 bits that of 8
    where it has none of its own."""
    name = ORT if scheme == REDUCED else scheme
    if name == SIXTEEN and name not in table:
        name = TFLITE
    return table.get(name, table.get("*", default))


WRITES = {"*": "x", ORT: "x y", TFLITE: "x y"}
"""A convolution: who has a kernel that writes integers only quantizes the output."""
READS = {"*": "x", TFLITE: "x y"}
"""A matrix product, which writes float where nothing in int8 follows."""


def conv(text: str, x: tuple[int, ...], w: tuple[int, ...], bias: int = 0, *more: str) -> Case:
    constants: dict[str, Any] = {"w": w}
    bounds = {"six": 6, "zero": 0, "one": 1, "minus": -1}
    constants |= {name: np.array(number, np.float32) for name, number in bounds.items()}
    if bias:
        constants["b"] = (bias,)
    return Case(Net((text, *more), {"x": x}, constants), WRITES)


def clipped(clip: str) -> Case:
    return conv("t = Conv(x, w, b)", (1, 3, 6, 5), (4, 3, 3, 3), 4, f"y = {clip}")


CONVS = {
    "conv": conv("y = Conv(x, w, b)", (2, 3, 6, 5), (4, 3, 3, 3), 4),
    "no bias": conv("y = Conv(x, w)", (1, 3, 6, 5), (4, 3, 3, 3)),
    "strides, pads": conv("y = Conv(x, w, b) strides=[2,1]; pads=[1,0,2,1]",
                          (1, 3, 7, 6), (4, 3, 3, 3), 4),
    "dilated": conv("y = Conv(x, w, b) dilations=[2,2]", (1, 2, 7, 7), (3, 2, 3, 3), 3),
    "groups": conv("y = Conv(x, w, b) group=2", (1, 4, 6, 6), (6, 2, 3, 3), 6),
    "depthwise": conv("y = Conv(x, w, b) group=5; pads=[1,1,1,1]", (1, 5, 6, 6), (5, 1, 3, 3), 5),
    "1-D": conv("y = Conv(x, w, b) strides=[2]", (2, 3, 20), (4, 3, 5), 4),
    "3-D": conv("y = Conv(x, w, b)", (1, 2, 4, 5, 4), (3, 2, 2, 3, 2), 3),
    "relu": clipped("Relu(t)"),
    "clip": clipped("Clip(t, zero, six)"),
    "clip both": clipped("Clip(t, minus, one)"),
    "clip below": clipped("Clip(t, zero)"),
    "same upper": conv("y = Conv(x, w) auto_pad=SAME_UPPER", (1, 2, 5, 5), (2, 2, 3, 3)),
}  # fmt: skip


def product(text: str, x: tuple[int, ...], constants: dict[str, Any], *more: str) -> Case:
    return Case(Net((text, *more), {"x": x}, constants), READS)


W85, BIAS = {"w": (8, 5)}, {"w": (8, 5), "b": (5,)}
PRODUCTS = {
    "gemm": product("y = Gemm(x, w, b)", (3, 8), BIAS),
    "gemm transposed": product("y = Gemm(x, w, b) transB=1", (3, 8), {"w": (5, 8), "b": (5,)}),
    "gemm no bias": product("y = Gemm(x, w)", (3, 8), W85),
    "gemm bias row": product("y = Gemm(x, w, b)", (3, 8), {"w": (8, 5), "b": (1, 5)}),
    "matmul": product("y = MatMul(x, w)", (3, 8), W85),
    "matmul 3-D": product("y = MatMul(x, w)", (2, 3, 8), W85),
    "matmul batched": product("y = MatMul(x, w)", (2, 3, 8), {"w": (2, 8, 5)}),
    "matmul, bias": product("t = MatMul(x, w)", (2, 3, 8), BIAS, "y = Add(b, t)"),
    "matmul, bias, relu": product("t = MatMul(x, w)", (2, 3, 8), BIAS, "u = Add(t, b)",
                                  "y = Relu(u)"),
    "weights on the left": Case(Net(("y = MatMul(k, x)",), {"x": (8, 5)}, {"k": (3, 8)}), READS),
}  # fmt: skip


def chain(op: str, width: int = 4, **constants: Any) -> Net:
    """An operator between convolutions that change nothing: what it does stands alone. The one
    behind it, of ``width`` channels, wants integers."""
    ones, last = (np.ones((channels, 1, 1, 1), np.float32) for channels in (4, width))
    second = ["b = Conv(x, half) group=4"] if re.search(r"\bb\b", op) else []
    nodes = ("a = Conv(x, one) group=4", *second, op, f"y = Conv(s, last) group={width}")
    given = {"one": ones, "half": ones / 2, "last": last, **constants}
    return Net(nodes, {"x": (1, 4, 6, 6)}, given, ("s", "y"))


def column(*numbers: float) -> Array:
    """One number for each channel of an image."""
    return np.array(numbers, np.float32).reshape(-1, 1, 1)


def squashing(op: str, eight: tuple[float, int], **more: Any) -> Case:
    """What has values between 0 and 1 or -1 and 1: TFLite demands their scales."""
    fixed = {TFLITE: {"s": eight}, SIXTEEN: {"s": (1 / 32768, 0)}}
    return Case(chain(f"s = {op}"), ELSEWHERE_FLOAT, fixed=fixed, **more)


EVERYWHERE = {ORT: "x a b s y", TFLITE: "x a b s y", "*": "x a b s"}
ELSEWHERE_FLOAT = {ORT: "x a b s y", TFLITE: "x a b s y", "*": "x s"}
"""Where the operator is not int8, only what feeds a convolution is quantized."""
UP = {"*": "x", ORT: None, TFLITE: "x y", SIXTEEN: None}
TWICE = np.array([1, 1, 2, 2], np.float32)
PADS = np.array([0, 0, 1, 0, 0, 0, 2, 0])

OTHERS = {
    "add": Case(chain("s = Add(a, b)"), {**EVERYWHERE, TRT: "x b s"}),
    "add constant": Case(chain("s = Add(a, k)", k=column(0.3, -2, 1, 0.01)),
                         {**EVERYWHERE, TRT: "x s"}),  # TensorRT: part of the convolution
    "add itself": Case(chain("s = Add(a, a)"), EVERYWHERE),
    "mul": Case(chain("s = Mul(a, b)"), ELSEWHERE_FLOAT),
    "mul constant": Case(chain("s = Mul(a, k)", k=np.array(0.7, np.float32)), ELSEWHERE_FLOAT),
    "sub": Case(chain("s = Sub(a, b)"), ELSEWHERE_FLOAT),
    "concat": Case(chain("s = Concat(a, b) axis=1", 8), EVERYWHERE, {TFLITE: ("a", "b", "s")}),
    "concat constant": Case(chain("s = Concat(a, k) axis=1", 5, k=np.full((1, 1, 6, 6), 9, "f")),
                            {**EVERYWHERE, TRT: "x s"}, {TFLITE: ("a", "k", "s")},
                            known={"k": (9.0, 9.0)}),
    "average pool": Case(chain("s = AveragePool(a) kernel_shape=[2,2]; strides=[2,2]"), EVERYWHERE),
    "global average pool": Case(chain("s = GlobalAveragePool(a)"), EVERYWHERE),
    "reduce mean": Case(chain("s = ReduceMean(a, axes) keepdims=1", axes=np.array([2, 3])),
                        ELSEWHERE_FLOAT),
    "sigmoid": squashing("Sigmoid(a)", (1 / 256, -128)),
    "tanh": squashing("Tanh(a)", (1 / 128, 0)),
    "softmax": squashing("Softmax(a) axis=1", (1 / 256, -128), known={"s": (0.0, 1.0)}),
    "leaky relu": Case(chain("s = LeakyRelu(a) alpha=0.2"), ELSEWHERE_FLOAT),
    "hard swish": Case(chain("s = HardSwish(a)"), ELSEWHERE_FLOAT),
    "prelu": Case(chain("s = PRelu(a, k)", k=column(0.3, 0.2, 0.1, 0.9)), ELSEWHERE_FLOAT),
    "exp": Case(chain("s = Softsign(a)"), ELSEWHERE_FLOAT),
    "space to depth": Case(chain("s = SpaceToDepth(a) blocksize=2", 16), EVERYWHERE,
                           {TRT: ("a", "s"), TFLITE: ("a", "s"), COREML: ("a", "s")}),
    "resize": Case(chain("s = Resize(a, , k)", k=TWICE), ELSEWHERE_FLOAT,
                   {ORT: ("a", "s"), TFLITE: ("a", "s")}),
    "resize, linear": Case(chain("s = Resize(a, , k) mode=linear", k=TWICE), ELSEWHERE_FLOAT,
                           {TFLITE: ("a", "s")}),
    "pad": Case(chain("s = Pad(a, k)", k=PADS), ELSEWHERE_FLOAT, {TFLITE: ("a", "s")}),
    "pad with a number": Case(chain("s = Pad(a, k, v)", k=PADS, v=np.array(-2.5, np.float32)),
                              ELSEWHERE_FLOAT),
    "reduce max": Case(chain("s = ReduceMax(a, k) keepdims=1", k=np.array([2])), ELSEWHERE_FLOAT,
                       {ORT: ("a", "s"), TFLITE: ("a", "s")}),
    "conv transpose between": Case(chain("s = ConvTranspose(a, w, c)", w=(4, 4, 2, 2), c=(4,)),
                                   EVERYWHERE),
    "split": Case(
        Net(("a = Conv(x, one) group=4", "s, r = Split(a) axis=1; num_outputs=2",
             "y = Conv(s, two)"),
            {"x": (1, 4, 5, 5)}, {"one": np.ones((4, 1, 1, 1), "f"), "two": (3, 2, 1, 1)},
            ("r", "y")),
        {"*": "x a s r", ORT: "x a s r y", TFLITE: "x a s r y"}, {"*": ("a", "s", "r")}),
    "flatten, gemm": Case(
        Net(("a = Conv(x, one) group=2", "f = Flatten(a)", "y = Gemm(f, w, c)"),
            {"x": (3, 2, 3, 3)}, {"one": np.ones((2, 1, 1, 1), "f"), "w": (18, 4), "c": (4,)}),
        {"*": "x a f", TFLITE: "x a f y"}, {"*": ("a", "f")}),
    "two products": Case(Net(("y = MatMul(x, z)",), {"x": (2, 3, 8), "z": (2, 8, 5)}, {}),
                         {"*": "x z", TFLITE: "x z y"}),
    "scores": Case(
        Net(("t = MatMul(x, z)", "m = Add(t, k)", "s = Softmax(m) axis=-1", "y = MatMul(s, v)"),
            {"x": (2, 3, 8), "z": (2, 8, 5), "v": (2, 5, 4)},
            {"k": np.array([[[0, 0, 0, -1e4, 0]]], np.float32)}),
        {"*": "x z v s", TFLITE: "x z t v s y"}, known={"s": (0.0, 1.0)}),
    "gemm, relu": Case(
        Net(("t = Gemm(x, w, b)", "u = Relu(t)", "y = Softsign(u)"), {"x": (3, 8)}, BIAS),
        {"*": "x", ORT: "x u", TFLITE: "x u"}),
    "conv transpose": Case(
        Net(("y = ConvTranspose(x, w, b) strides=[2,2]",), {"x": (1, 3, 4, 4)},
            {"w": (3, 4, 3, 3), "b": (4,)}), UP),
    "conv transpose, groups": Case(
        Net(("y = ConvTranspose(x, w, b) group=2",), {"x": (1, 4, 4, 4)},
            {"w": (4, 3, 3, 3), "b": (6,)}), UP),
}  # fmt: skip

CARRIERS = {
    "max pool": chain("s = MaxPool(a) kernel_shape=[2,2]; strides=[2,2]"),
    "max pool padded": chain("s = MaxPool(a) kernel_shape=[3,3]; pads=[1,1,1,1]"),
    "reshape": chain("s = Reshape(a, k)", k=np.array([1, 4, 9, 4])),
    "transpose": chain("s = Transpose(a) perm=[0,1,3,2]"),
    "slice": chain("s = Slice(a, i, j, k)", i=np.array([1]), j=np.array([5]), k=np.array([3])),
    "gather": chain("s = Gather(a, k) axis=2", k=np.array([3, 1])),
    "tile": chain("s = Tile(a, k)", k=np.array([1, 1, 2, 1])),
    "expand": chain("s = Expand(a, k)", k=np.array([2, 4, 6, 6])),
}
CARRIED = {name: Case(net, EVERYWHERE, {"*": ("a", "s")}) for name, net in CARRIERS.items()}
CASES = {**CONVS, **PRODUCTS, **OTHERS, **CARRIED}

PLAIN_ALONE = {("conv transpose between", SIXTEEN)}
"""Where ONNX Runtime's optimizer rounds float weights between Q and DQ by itself
(converter/precision/int8/guards.py): no artifact of that scheme runs there."""


def emulation(case: Case, scheme: str, measured: Measured) -> Emulation:
    names = set(at(case.quantized, scheme).split())
    same = at(case.same, scheme)
    return Emulation(
        case.net.proto(),
        SCHEMES[scheme],
        {**measured.ranges, **case.known},
        names,
        [same] if same else [],
        at(case.fixed, scheme, {}),
    )


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_formulas(name: str, scheme: str) -> None:
    case = CASES[name]
    model, feeds = case.net.model(), case.net.feeds()
    measured = measured_on(case.net.model(), feeds)
    if at(case.quantized, scheme) is None:
        with pytest.raises(ModelError, match="no operator of the model can be int8"):
            quantize(model, measured, SCHEMES[scheme])
        return
    lowered = quantize(model, measured, SCHEMES[scheme])
    assert (lowered.model.inputs, lowered.model.outputs) == (model.inputs, model.outputs)
    onnx.checker.check_model(lowered.model.to_proto(), full_check=True)
    expected = emulation(case, scheme, measured)
    known, placement = expected.run(feeds), place(model, SCHEMES[scheme])
    assert {value.name for value in placement.quantized} == known.keys() & expected.quantized
    if expected.same and scheme != SIXTEEN:  # which has one scale of its own wherever it may
        (same,) = expected.same
        assert tuple(name for name in same if name not in case.known) in placement.groups.values()
    for plain in (True,) if (name, scheme) in PLAIN_ALONE else (True, False):
        found = OrtSession(lowered.model.graph, plain=plain).run(feeds)
        for name, array in found.items():
            difference = float(np.abs(array - known[name]).max())
            assert difference <= _allowed(name, expected, known), f"{name}, plain={plain}"


def _allowed(name: str, expected: Emulation, known: Mapping[str, Array]) -> float:
    """One step of an output; behind an operator that is looked at, what its step makes of it."""
    steps = {n for n in (name, "s" if name == "y" else name) if n in expected.quantized}
    slack = 1e-5 * max(1.0, float(np.abs(known[name]).max()))
    return sum(expected.step(n).scale for n in steps) + slack
