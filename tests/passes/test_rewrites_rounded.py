"""Rewrites of models that round to integers: compared without rounding, then region by region."""

from collections.abc import Callable

import numpy as np
import onnx_ir
import pytest

from converter.errors import ModelError
from converter.ir.edit import add_constant, constant, is_constant, is_op
from converter.ir.model import Model
from converter.precision.calibrate.ranges import collect
from converter.precision.int8.insert import quantize
from converter.verify import regions
from converter.verify.exact import exact_form
from emitters.coreml.lowering import Legalize as ForCoreml
from emitters.lowering import channels_last
from emitters.tflite import lowering
from emitters.tflite.lowering import Legalize as ForTflite
from tests.passes.models import ListedSamples, noise, run, text_model
from tests.passes.test_rewrites import Spoil, detail, images, legalized, named, ops, spoil, status
from tests.schemes import SCHEMES

__all__ = ["spoil"]

MIXED = """m (float[batch,4,6] x) => (float[batch,4,6] y) {
    a = MatMul (x, w) e = Einsum <equation = "bij,jk->bik"> (a, w) r = Relu (e)
    y = MatMul (r, w) }"""
Change = Callable[[onnx_ir.Node], bool]


def rounded(model: Model, scheme: str = "tflite-int8") -> Model:
    feeds = [noise(model, seed, batch=1) for seed in range(8)]
    ranges = collect(model, ListedSamples(feeds), few=True)
    return quantize(model, ranges, SCHEMES[scheme], method="minmax").model


def mixed() -> Model:
    weight = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)
    return named(text_model(MIXED, w=weight))


class Also(ForTflite):
    """TFLite's chain, and a rewrite of each node besides."""

    def __init__(self, rewrite: Change) -> None:
        super().__init__({})
        self._rewrite = rewrite

    def chain(self, model: onnx_ir.Model) -> None:
        self.each(model, self._rewrite, "otherwise")
        super().chain(model)


def restores(node: onnx_ir.Node, integers: str = "") -> bool:
    """Whether a node is the DequantizeLinear of a tensor, or of any that isn't constant."""
    source = node.inputs[0] if is_op(node, "DequantizeLinear") else None
    return (
        source is not None and source.name == (integers or source.name) and not is_constant(source)
    )


def scaled(node: onnx_ir.Node, times: float = 1.0, more: int = 0) -> list[onnx_ir.Value]:
    """The scale and zero point of a Q or DQ, others than it has."""
    graph, made = node.graph, []
    assert isinstance(graph, onnx_ir.Graph)
    for value, name in zip(node.inputs[1:], ("scale", "zero"), strict=True):
        array = constant(value)
        assert array is not None
        other = array * np.float32(times) if name == "scale" else array + more
        made.append(add_constant(graph, f"{node.name}_{name}", other.astype(array.dtype)))
    return made


def again(node: onnx_ir.Node, times: float = 1.0, more: int = 0) -> None:
    """Rounds what a DequantizeLinear gives once more, by another scale and zero point."""
    real, whole, graph = node.outputs[0], node.inputs[0], node.graph
    assert whole is not None and graph is not None
    parameters = scaled(node, times, more)
    other = onnx_ir.node("QuantizeLinear", [real, *parameters], name=f"{real.name}_more")
    back = onnx_ir.node("DequantizeLinear", [*other.outputs, *parameters])
    real.replace_all_uses_with(back.outputs[0], replace_graph_outputs=True)
    other.replace_input_with(0, real)
    for made, like in ((other, whole), (back, real)):
        made.outputs[0].name = f"{real.name}_{made.op_type}"
        made.outputs[0].shape, made.outputs[0].type = real.shape, like.type
    real.name, back.outputs[0].name = back.outputs[0].name, real.name
    graph.insert_after(node, [other, back])


# -- without rounding -----------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["tflite-int8", "tflite-int16x8", "coreml-w8a8"])
def test_without_rounding_it_is_the_float_model(scheme: str) -> None:
    """But for its weights, which stay rounded."""
    model = images()
    exact = exact_form(rounded(model, scheme))
    assert not {"QuantizeLinear"} & {node.op_type for node in exact.nodes()}
    feeds = noise(model, 3, batch=2)
    far = np.abs(run(exact, feeds)["y"] - run(model, feeds)["y"]).max()
    assert far < 0.03 * np.abs(run(model, feeds)["y"]).max()


EXACT = {
    "a pad by zero points": (
        "(float[2,3] x) => (float[4,5] y)",
        "q = QuantizeLinear(x, s, z) p = Pad(q, n, z) y = DequantizeLinear(p, s, z)",
        "y = Pad(x, n)"),
    "a concat with integers": (
        "(float[2,3] x) => (float[3,3] y)",
        "q = QuantizeLinear(x, s, z) p = Concat<axis = 0>(q, c) y = DequantizeLinear(p, s, z)",
        "d = DequantizeLinear(c, s, z) y = Concat<axis = 0>(x, d)"),
    "a scale for each index": (
        "(float[2,3] x) => (float[2,3] y)",
        "q = QuantizeLinear<axis = -1>(x, t, u) y = DequantizeLinear<axis = 1>(q, t, u)",
        "y = Identity(x)"),
    "another scale": (
        "(float[2,3] x) => (float[2,3] y)",
        "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, h, z)",
        "a = Div(x, s) y = Mul(a, h)"),
    "integers inside": (
        "(float[2,3] x) => (float[2,2] y)",
        "q = QuantizeLinear(x, s, z) p = QLinearMatMul(q, s, z, v, s, z, h, z)"
        " y = DequantizeLinear(p, h, z)",
        "d = DequantizeLinear(v, s, z) y = MatMul(x, d)"),
    "found scales": (
        "(float[2,3] x) => (float[2,2] y)",
        "q, a, b = DynamicQuantizeLinear(x) i = MatMulInteger(q, v, b, z)"
        " f = Cast<to = 1>(i) g = Mul(f, a) y = Mul(g, s)",
        "d = DequantizeLinear(v, s, z) y = MatMul(x, d)"),
    "a body": (
        "(float[2,3] x, bool b) => (float[2,3] y)",
        "q = QuantizeLinear(x, s, z) y = If(b) <then_branch = t () => (float[2,3] k)"
        " { k = DequantizeLinear(q, s, z) }, else_branch = e () => (float[2,3] l)"
        " { o = QuantizeLinear(x, h, z) l = DequantizeLinear(o, h, z) }>",
        "y = Identity(x)"),
}  # fmt: skip


@pytest.mark.parametrize("case", EXACT)
def test_it_is_what_it_stands_for(case: str) -> None:
    ends, whole, real = EXACT[case]
    weights = {
        "s": np.float32(0.3), "h": np.float32(0.7), "z": np.int8(-11), "n": np.array([1] * 4),
        "t": np.array([0.2, 0.3, 0.4], np.float32), "u": np.array([1, -2, 3], np.int8),
        "c": np.array([[1, 2, 3]], np.int8), "v": np.array([[9, -1], [3, 3], [7, 0]], np.int8),
    }  # fmt: skip
    exact = exact_form(text_model(f"m {ends} {{ {whole} }}", **weights))
    other = text_model(f"m {ends} {{ {real} }}", **weights)
    feeds = noise(exact)
    feeds |= {name: array.astype(bool) for name, array in feeds.items() if name == "b"}
    np.testing.assert_allclose(run(exact, feeds)["y"], run(other, feeds)["y"], atol=1e-5)


NO_FORM = {
    "indices": """m (float[3] x) => (float[3] y) <float s = {1}> { q = QuantizeLinear(x, s)
        i = Cast<to = 7>(q) g = Gather(x, i) y = Einsum<equation = "i->i">(g) }""",
    "scales that come": """m (float[1,3,4,4] x, float t) => (float[1,3,4,4] y)
        <float s = {1}, uint8 z = {0}> { q = QuantizeLinear(x, s, z)
        c = QLinearConv(q, t, z, w, s, z, s, z, b) d = DequantizeLinear(c, s, z)
        y = Einsum<equation = "abij->abij">(d) }""",
}


@pytest.mark.parametrize("case", NO_FORM)
def test_what_has_no_form_without_rounding_is_not_compared(case: str) -> None:
    weights = {"w": np.ones((3, 3, 1, 1), np.uint8), "b": np.ones(3, np.int32)}
    model = named(text_model(NO_FORM[case], **(weights if "QLinear" in NO_FORM[case] else {})))
    with pytest.raises(ModelError, match="takes integers that were rounded as they are"):
        exact_form(model)
    step = ForTflite({})
    found = legalized(model, step)
    assert status(found) == "changed" and not step.undone
    assert "not compared: of_" in detail(found) and "1 Einsum" in detail(found)


# -- right rewrites -------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["tflite-int8", "tflite-int16x8"])
def test_the_layout_of_integers_is_compared(scheme: str) -> None:
    model, step = rounded(images(), scheme), ForTflite({})
    found = legalized(model, step)
    assert status(found) == "changed" and not step.undone
    assert "with channels last: 2 Conv, 1 MaxPool; passes: 1 transposes; " in detail(found)
    assert "compared without rounding; integers of 6 of 6 tensors" in detail(found)
    assert "steps apart" not in detail(found)
    assert found.record is not None and (found.record.cosine or 0) > 0.999999


@pytest.mark.parametrize("scheme", ["tflite-int8", "coreml-w8a8"])
def test_operators_between_integers_are_compared(scheme: str) -> None:
    step = ForCoreml(17, {}, {}) if scheme == "coreml-w8a8" else ForTflite({})
    found = legalized(rounded(mixed(), scheme), step)
    assert "written as simpler operators: 1 Einsum; " in detail(found) and not step.undone
    assert "compared without rounding; integers of " in detail(found)
    assert "at most" not in detail(found) or "at most 1 step apart" in detail(found)


def test_what_rounds_once_more_to_the_same_integers_is_right() -> None:
    def rewrite(node: onnx_ir.Node) -> bool:
        if restores(node):
            again(node)
        return restores(node)

    step, model = Also(rewrite), rounded(images())
    found = legalized(model, step)
    assert not step.undone and "6 of 6 tensors, from the same ones before them" in detail(found)
    assert ops(found).count("QuantizeLinear") == 12


MOVED = """m (float[batch,64] x) => (float[batch,64] y) <float s = {0.1}, float t = {0.3}> {
    a = QuantizeLinear(x, s) b = DequantizeLinear(a, s) c = QuantizeLinear(b, t)
    d = DequantizeLinear(c, t) e = Exp(d) f = QuantizeLinear(e, s) y = DequantizeLinear(f, s) }"""


def test_a_rounding_that_is_taken_away_is_right() -> None:
    """What is behind it may be as far off as the model's own is from exact arithmetic."""

    def rewrite(node: onnx_ir.Node) -> bool:
        first = node.inputs[0]
        if not is_op(node, "Exp") or first is None:
            return False
        second = first.producer().inputs[0].producer()  # type: ignore[union-attr]
        node.replace_input_with(0, second.inputs[0])  # type: ignore[union-attr]
        return True

    step = Also(rewrite)
    found = legalized(named(text_model(MOVED)), step)
    assert not step.undone and status(found) == "changed"
    assert "behind roundings that were moved" in detail(found)


def test_what_needs_too_much_memory_is_no_border(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "MOST_BYTES", 4_000)
    step = ForTflite({})
    found = legalized(rounded(images()), step)
    assert not step.undone and "integers of 4 of 6 tensors" in detail(found)


# -- wrong ones -----------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["c", "d"])
def test_a_wrong_order_of_axes_is_found(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    right = channels_last._transpose

    def wrong(source: onnx_ir.Value, perm: list[int], name: str) -> onnx_ir.Node:
        return right(source, [0, 3, 2, 1] if name == f"of_{which}_channels_first" else perm, name)

    monkeypatch.setattr(channels_last, "_transpose", wrong)
    step = ForTflite({})
    found = legalized(rounded(images()), step)
    assert list(step.undone) == [f"of_{which}"] and f"undone: of_{which}, on s" in detail(found)


def test_what_is_wrong_without_rounding_is_undone(
    monkeypatch: pytest.MonkeyPatch, spoil: Spoil
) -> None:
    monkeypatch.setattr(lowering, "LINEAR", lowering.LINEAR.replace("Add", "Sub"))
    step = ForTflite({})
    found = legalized(rounded(images()), step)
    assert list(step.undone) == ["of_y"] and status(found) == "changed"
    spoil("Einsum", lambda name: True)
    for other in (ForTflite({}), ForCoreml(17, {}, {})):
        found = legalized(rounded(mixed()), other)
        assert list(other.undone) == ["of_e"] and "undone: of_e, on sample" in detail(found)


WRONG: dict[str, Callable[[onnx_ir.Node], object]] = {
    "rounded twice, coarsely": lambda node: again(node, 5.0),
    "rounded twice, cut off": lambda node: again(node, 0.7),
    "a zero point off": lambda node: again(node, 1.0, 40),
}


@pytest.mark.parametrize("how", WRONG)
def test_what_is_wrong_in_integers_alone_is_undone(how: str) -> None:
    """In exact arithmetic it is right."""

    def rewrite(node: onnx_ir.Node) -> bool:
        if restores(node, "r_quantized"):
            WRONG[how](node)
        return restores(node, "r_quantized")

    step = Also(rewrite)
    found = legalized(rounded(images()), step)
    assert list(step.undone) == ["r_DequantizeLinear"], detail(found)
    assert "from the integers before it: " in detail(found) and "steps apart" in detail(found)
    assert "with channels last: 2 Conv, 1 MaxPool" in detail(found)


def test_scales_that_are_off_together_are_undone() -> None:
    """A tensor that stands for other numbers than it did is no border."""

    def rewrite(node: onnx_ir.Node) -> bool:
        if not is_op(node, "QuantizeLinear") or node.outputs[0].name != "r_quantized":
            return False
        for each in (node, node.outputs[0].uses()[0].node):
            for place, value in enumerate(scaled(each, 6.0), 1):
                each.replace_input_with(place, value)
        return True

    step = Also(rewrite)
    found = legalized(rounded(images()), step)
    assert list(step.undone) == ["r_QuantizeLinear"], detail(found)


def test_an_output_of_another_type_is_undone() -> None:
    text = """m (float[batch,3] x) => (int8[batch,3] y) <float s = {0.1}, int8 z = {0}> {
        y = QuantizeLinear(x, s, z) }"""

    def rewrite(node: onnx_ir.Node) -> bool:
        graph = node.graph
        assert isinstance(graph, onnx_ir.Graph)
        node.replace_input_with(2, add_constant(graph, "other", np.uint8(0)))  # type: ignore[arg-type]
        node.outputs[0].type = onnx_ir.TensorType(onnx_ir.DataType.UINT8)
        return True

    step = Also(rewrite)
    found = legalized(named(text_model(text)), step)
    assert list(step.undone) == ["of_y"] and "its type is uint8, was int8" in detail(found)
