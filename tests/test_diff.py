"""Where two models part: planted errors are found exactly, whatever was renamed or fused."""

import re
from typing import Any

import numpy as np
import onnx_ir
import pytest
from onnxruntime.transformers import float16

from converter import plugins
from converter.diff.difference import Difference, compare_models
from converter.diff.words import told, verdict
from converter.errors import ModelError, UsageError
from converter.ir.model import Model
from converter.report.diff_page import as_html
from tests.passes.models import ListedSamples, noise, text_model
from tests.passes.real import real_model, real_samples

BLOCKS = 12
IMAGE = "float[batch, 4, 6, 6]"


def random_weights(count: int, *shape: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)
    return {
        f"w{i}": (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for i in range(count)
    }


def residual() -> Model:
    """A chain of residual blocks."""
    weights = random_weights(BLOCKS, 4, 4, 3, 3)
    lines = []
    for i in range(BLOCKS):
        before = f"r{i - 1}" if i else "x"
        lines += [
            f"[conv{i}] c{i} = Conv <pads = [1, 1, 1, 1]> ({before}, w{i})",
            f"[leaky{i}] l{i} = LeakyRelu <alpha: float = 0.1> (c{i})",
            f"[add{i}] r{i} = Add ({before}, l{i})",
        ]
    lines.append(f"[last] y = Tanh (r{BLOCKS - 1})")
    return text_model(f"m ({IMAGE} x) => ({IMAGE} y) {{ {' '.join(lines)} }}", **weights)


def node_of(model: Model, tensor: str) -> onnx_ir.Node:
    return next(n for n in model.graph.graph if n.outputs[0].name == tensor)


def made_before(model: Model, tensor: str) -> set[str | None]:
    """What nodes make of what the one that makes a tensor reads."""
    return {v.name for v in node_of(model, tensor).inputs if v and v.producer()}


def spoil(model: Model, tensor: str) -> None:
    """Changes the node that makes a tensor: a weight, an attribute or the operator."""
    node = node_of(model, tensor)
    if node.op_type == "Conv":
        shift_weight(node)
    elif node.op_type == "LeakyRelu":
        node.attributes["alpha"] = onnx_ir.AttrFloat32("alpha", 0.2)
    else:
        node.op_type = {"Add": "Sub", "Tanh": "Sigmoid"}[node.op_type]


def shift_weight(node: onnx_ir.Node, by: float = 0.5) -> None:
    weight = node.inputs[1]
    assert weight is not None and weight.const_value is not None
    array = weight.const_value.numpy().copy()
    array.flat[: array.size // 2 : 3] += by
    weight.const_value = onnx_ir.tensor(array, name=weight.name)


def planted(*tensors: str) -> tuple[Model, Model]:
    """The chain, and one in which these are computed otherwise."""
    model = residual()
    other = model.copy()
    for tensor in tensors:
        spoil(other, tensor)
    return model, other


def compared(a: Model, b: Model, **options: Any) -> Difference:
    samples = ListedSamples([noise(a, seed, batch=1) for seed in range(3)])
    return compare_models(a, b, samples, **options)


def found(difference: Difference) -> str | None:
    return difference.first.tensor.name if difference.first else None


@pytest.mark.parametrize("small", [256, 3])
@pytest.mark.parametrize("tensor", ["c0", "l0", "r3", "c5", "l5", "r5", "c11", "y"])
def test_a_planted_error_is_found_exactly(tensor: str, small: int) -> None:
    model, other = planted(tensor)
    difference = compared(model, other, small=small)
    assert found(difference) == tensor
    first = difference.first
    assert first is not None
    assert [node.name for node in first.nodes_a] == [node_of(model, tensor).name]
    assert [node.name for node in first.nodes_b] == [node_of(other, tensor).name]
    assert first.tensor.error is not None and first.tensor.error > 1e-3
    assert {error.name for error in first.before} == made_before(model, tensor)
    assert all(error.error == 0 for error in first.before)
    assert first.tensor.sample in ("s0", "s1", "s2")
    assert float(first.tensor.value_a) != float(first.tensor.value_b)


def test_bisection_looks_at_few_tensors_and_finds_none_in_equal_models() -> None:
    model, other = planted("l7")
    assert len(compared(model, other, small=3).along) < BLOCKS * 3 * 2 / 3
    assert len(compared(model, other).along) == BLOCKS * 3 + 1
    for small in (256, 3):
        same = compared(model, model.copy(), small=small)
        assert same.first is None and same.outputs[0].error == 0 and same.inner == []


def test_a_tolerance_decides_what_is_a_difference() -> None:
    model, other = planted()
    shift_weight(node_of(other, "c3"), 1e-3)
    shift_weight(node_of(other, "c8"), 0.5)
    for small in (256, 3):
        assert found(compared(model, other, small=small)) == "c3", "the earliest"
    assert found(compared(model, other, tolerance=0.01)) == "c8"
    assert found(compared(model, other, tolerance=10)) is None


@pytest.mark.parametrize("small", [256, 3])
def test_nan_in_the_middle_is_found_and_counted(small: int) -> None:
    model, other = planted()
    shift_weight(node_of(other, "c6"), np.nan)
    difference = compared(model, other, small=small)
    assert found(difference) == "c6"
    assert difference.first is not None
    assert re.match(r"NaN in \d+ values of B, 0 of A", difference.first.tensor.odd)
    assert difference.first.tensor.value_b == "nan"


def test_an_inner_difference_without_effect_is_no_difference_but_told() -> None:
    text = """m (float[batch, 4] x) => (float[batch, 4] y)
        {{ a = {}(x) z = Mul(a, a) b = Abs(z) c = Sub(b, b) y = Add(c, x) }}"""
    difference = compared(*(text_model(text.format(op)) for op in ("Tanh", "Sigmoid")))
    assert difference.first is None
    assert [error.name for error in difference.inner] == ["a", "z", "b"]
    assert any("without effect on an output: a, z, b" in line for line in told(difference))


def normalized(folded: str = "") -> Model:
    """Conv, BatchNormalization and Relu in turns; with the BatchNormalizations folded where a name
    for what is their output then is given."""
    weights, rng = random_weights(4, 4, 4, 3, 3), np.random.default_rng(3)
    scale, bias, mean = (rng.uniform(0.5, 1.5, 4).astype(np.float32) for _ in range(3))
    var = np.full(4, 0.7, np.float32)
    gain = scale / np.sqrt(var + 1e-5)
    if folded:
        weights = {name: value * gain[:, None, None, None] for name, value in weights.items()}
        weights["b"] = bias - mean * gain
    else:
        weights |= {"scale": scale, "bias": bias, "mean": mean, "var": var}
    lines = []
    for i in range(4):
        before, after = f"r{i - 1}" if i else "x", f"r{i}" if i < 3 else "y"
        made = folded.format(i) if folded else f"c{i}"
        bias_of = ", b" if folded else ""
        lines.append(f"[conv{i}] {made} = Conv <pads = [1, 1, 1, 1]> ({before}, w{i}{bias_of})")
        if not folded:
            lines.append(f"[norm{i}] n{i} = BatchNormalization ({made}, scale, bias, mean, var)")
            made = f"n{i}"
        lines.append(f"[relu{i}] {after} = Relu ({made})")
    return text_model(f"m ({IMAGE} x) => ({IMAGE} y) {{ {' '.join(lines)} }}", **weights)


@pytest.mark.parametrize("names", ["n{}", "c{}", "other{}"])
@pytest.mark.parametrize("small", [256, 2])
@pytest.mark.parametrize("block", [None, 0, 2, 3])
def test_fused_nodes(names: str, small: int, block: int | None) -> None:
    """They are no difference, and an error among them is found."""
    other = normalized(names)
    if block is None:
        difference = compared(normalized(), other, small=small)
        assert difference.first is None
        assert difference.outputs[0].error is not None and difference.outputs[0].error < 1e-6
        return
    shift_weight(node_of(other, names.format(block)))
    first = compared(normalized(), other, small=small).first
    assert first is not None
    assert f"conv{block}" in [node.name for node in first.nodes_b]
    assert {node.name for node in first.nodes_b} <= {f"conv{block}", f"relu{block}"}
    names_a = [node.name for node in first.nodes_a]
    assert set(names_a) <= {f"conv{block}", f"norm{block}", f"relu{block}"}
    assert all(not e.odd and e.error is not None and e.error < 1e-5 for e in first.before)


@pytest.mark.parametrize("small", [256, 2])
def test_a_name_that_outlived_its_meaning_is_told_apart(small: int) -> None:
    """The folded Conv's output is called what the Conv's before the normalization was."""
    other = normalized("c{}")
    shift_weight(node_of(other, "c2"))
    difference = compared(normalized(), other, small=small)
    assert difference.first is not None
    assert difference.first.nodes_b[-1].name in ("conv2", "relu2")
    if small == 256:
        assert set(difference.misnamed) == {"c0", "c1"}


@pytest.mark.parametrize("tensor", [None, "c0", "l4", "r11"])
def test_tensors_without_a_name_in_common_are_known_by_their_contents(tensor: str | None) -> None:
    model, other = planted(*[tensor] if tensor else ())
    spoiled = node_of(other, tensor).name if tensor else None
    for node in other.graph.graph:
        if node.outputs[0].name != "y":
            node.outputs[0].name = f"t_{node.outputs[0].name}"
    difference = compared(model, other)
    if tensor is None:
        assert difference.first is None
        return
    first = difference.first
    assert first is not None
    assert first.nodes_a[0].name == first.nodes_b[0].name == spoiled
    assert {e.name for e in first.before} == made_before(model, tensor)


def test_outputs_and_inputs_with_other_names_go_by_position() -> None:
    model, other = planted()
    other.graph.graph.inputs[0].name = "image"
    other.graph.graph.outputs[0].name = "scores"
    assert compared(model, other).first is None
    spoil(other, "c2")
    assert found(compared(model, other)) == "c2"


def cast(model: Model) -> Model:
    """Everything in float16 but inputs and outputs."""
    proto = float16.convert_float_to_float16(model.to_proto(), keep_io_types=True)
    made = onnx_ir.from_proto(proto)
    made.graph.sort()
    return Model(made)


@pytest.mark.parametrize("small", [256, 3])
def test_float16_differs_by_no_more_than_its_rounding(small: int) -> None:
    model = residual()
    other = cast(model)
    difference = compared(model, other, small=small)
    assert difference.first is None
    assert difference.tolerance == 1e-2
    error = difference.outputs[0].error
    assert error is not None and 1e-5 < error < 1e-2
    assert found(compared(model, other, tolerance=1e-6)) == "c0"
    spoil(other, "c6")
    assert found(compared(model, other, small=small)) == "c6"


def test_overflow_in_float16_is_told_even_where_the_runtime_hides_it() -> None:
    """ONNX Runtime's CPU provider computes such a chain in float32, and the output is right."""
    text = """m (float[batch, 4] x) => (float[batch, 4] y)
        { a = Relu(x) b = Mul(a, k) c = Mul(b, k) d = Div(c, k) y = Div(d, k) }"""
    model = text_model(text, k=np.array([900], np.float32))
    difference = compared(model, cast(model))
    assert difference.first is None
    assert [error.name for error in difference.inner] == ["c"]
    assert "infinite" in difference.inner[0].odd
    assert "but inside c is infinite in" in verdict(difference)


def test_a_mask_clamped_for_float16_is_no_difference() -> None:
    text = "m (float[batch, 4] x) => (float[batch, 4] y) { a = Add(x, mask) y = Softmax(a) }"
    lows = (np.finfo(np.float32).min, -65504.0)
    a, b = (text_model(text, mask=np.array([0, 0, low, 0], np.float32)) for low in lows)
    difference = compared(a, b)
    assert difference.first is None and difference.inner == []


INTEGERS = """m (float[batch, 9] x) => (float[batch, 9] y)
    {{ k = {} <axis: int = 1> (x) f = CastLike(k, x) y = Add(x, f) }}"""
TURNED = """m (float[batch, 4] x) => (float[n, m] y)
    {{ a = Neg(x) y = Concat <axis: int = {}> (a, a) }}"""


@pytest.mark.parametrize(("text", "parts", "name", "odd"), [
    (INTEGERS, ("ArgMax", "ArgMin"), "k", "1 of 1 values differ"),
    (TURNED, (0, 1), "y", "its shape is 1x8 in B and 2x4 in A"),
])  # fmt: skip
def test_other_integers_and_shapes(text: str, parts: tuple[Any], name: str, odd: str) -> None:
    first = compared(*(text_model(text.format(part)) for part in parts)).first
    assert first is not None
    assert (first.tensor.name, first.tensor.odd) == (name, odd)


def test_what_subgraphs_hold_is_not_looked_into_and_that_is_said() -> None:
    text = """m (float[batch, 4] x, bool c) => (float[batch, 4] y) {{
        a = Neg(x)
        [choose] b = If (c) <then_branch = t () => (float[batch, 4] p) {{ p = {}(a) }},
                             else_branch = e () => (float[batch, 4] q) {{ q = Abs(a) }}>
        y = Tanh(b) }}"""
    a, b = text_model(text.format("Exp")), text_model(text.format("Neg"))
    feeds = {"x": np.ones((1, 4), np.float32), "c": np.array(True)}
    difference = compare_models(a, b, ListedSamples([feeds]))
    assert found(difference) == "b"
    assert difference.closed == ("choose",)
    assert any("subgraphs were not looked into: choose" in line for line in told(difference))
    assert difference.first is not None
    assert [error.name for error in difference.first.before] == ["a"]  # read by the branch


FOUR = "m (float[batch, 4] x) => (float[batch, 4] y) { y = Neg(x) }"
TWO = "m (float[4] x) => (float[4] y, float[4] z) { y = Neg(x) z = Abs(x) }"
CONSTANT = "m (float[4] x) => (float[4] y) <float[4] k = {1, 2, 3, 4}> { y = Neg(k) }"


@pytest.mark.parametrize(("a", "b", "words"), [
    (FOUR, "m (float[batch, 5] x) => (float[batch, 5] y) { y = Neg(x) }", "5"),
    (FOUR, "m (float[4] x) => (float[4] y) { y = Neg(x) }", "float32[4]"),
    (FOUR, "m (int64[batch, 4] x) => (int64[batch, 4] y) { y = Neg(x) }", "int64"),
    (FOUR, "m (float[n, 4] x, float[n, 4] z) => (float[n, 4] y) { y = Add(x, z) }", "same inputs"),
    (TWO, "m (float[4] x) => (float[4] p) { p = Neg(x) }", "the same outputs"),
    (CONSTANT, CONSTANT, "nothing to compare"),
])  # fmt: skip
def test_models_with_other_inputs_or_outputs_are_refused(a: str, b: str, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        compared(text_model(a), text_model(b))


def test_a_model_that_fails_is_named_with_its_sample() -> None:
    a = text_model("m (float[batch, n] x) => (float[batch, n] y) { y = Neg(x) }")
    text = "m (float[batch, n] x) => (float[batch, n] y) { y = Add(x, w) }"
    b = text_model(text, w=np.ones(3, np.float32))
    with pytest.raises(ModelError, match="B on the sample s0"):
        compare_models(a, b, ListedSamples([{"x": np.ones((1, 4), np.float32)}]))


def test_the_page_shows_the_finding_and_escapes_names() -> None:
    model, other = planted("c5")
    for each in (model, other):
        node_of(each, "c5").outputs[0].name = "<script>c5"
    page = as_html(compared(model, other), "a<b>.onnx", "b.onnx", "Compared on 3 samples.")
    assert "<script>" not in page
    assert "&lt;script&gt;c5" in page
    assert "a&lt;b&gt;.onnx" in page
    assert page.count("<circle") == BLOCKS * 3 + 1
    assert "tolerance 0.0001" in page


@pytest.fixture(scope="module")
def original() -> Model:
    """The classifier of text directions, with its weights in Constant nodes."""
    return Model(plugins.load("passes", "normalize")(real_model("ocr-cls").graph).model)


@pytest.fixture(scope="module")
def simplified(original: Model) -> Model:
    """What ONNX Runtime's optimizer leaves of it, BatchNormalizations folded."""
    return Model(plugins.load("passes", "ort-basic")(original.copy().graph).model)


@pytest.mark.slow
@pytest.mark.parametrize("small", [1000, 16])
def test_a_simplified_model_is_the_same(original: Model, simplified: Model, small: int) -> None:
    assert simplified.node_count() < original.node_count()
    difference = compare_models(original, simplified, real_samples("ocr-cls"), small=small)
    assert difference.first is None, difference.first


@pytest.mark.slow
@pytest.mark.parametrize(("share", "small"), [(0.1, 16), (0.6, 1000), (0.9, 16)])
def test_one_changed_layer(original: Model, simplified: Model, share: float, small: int) -> None:
    other = simplified.copy()
    convs = [n for n in other.graph.graph if n.op_type in ("Conv", "MatMul") and _has_weight(n)]
    spoiled = convs[int(share * len(convs))]
    shift_weight(spoiled)
    first = compare_models(original, other, real_samples("ocr-cls"), small=small).first
    assert first is not None
    assert spoiled.name in [node.name for node in first.nodes_b]
    assert first.inside_b <= 2


def _has_weight(node: onnx_ir.Node) -> bool:
    weight = node.inputs[1]
    return weight is not None and weight.const_value is not None
