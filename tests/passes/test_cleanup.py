"""Our own cleaning up: constants, duplicates, functions, names; and what it leaves alone."""

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.ir.model import IR_VERSION, OPSET, Model
from converter.passes.cleanup.cleanup import Cleanup
from tests.passes.models import ops, run, text_model


def cleaned(text: str) -> Model:
    model = text_model(f"m {text}")
    assert Cleanup()(model.graph).modified
    return model


KEPT = {
    "constants become initializers once": ("""(float[2] x) => (float[2] y) {
        a = Constant<value = float[2] {1, 2}>()  b = Constant<value = float[2] {1, 2}>()
        c = Add(x, a)  y = Mul(c, b) }""", {"Add": 1, "Mul": 1}),
    "equal nodes become one, and random ones stay": ("""(float[2] x) => (float[2] y) {
        a = Exp(x)  b = Exp(x)  c = Add(a, b)  d = RandomNormalLike(x)  e = RandomNormalLike(x)
        f = Add(d, e)  y = Add(c, f) }""", {"Exp": 1, "RandomNormalLike": 2, "Add": 3}),
    "others that are random": ("(float[4] x) => (float[4] y)"
        "{ a = Bernoulli(x) b = Bernoulli(x) y = Sub(a, b) }", {"Bernoulli": 2, "Sub": 1}),
    "unused parts go, and unused inputs stay": (
        """(float[batch,n] x, float[2] unused) => (float[batch,n] y)
        <float[2] w = {1, 2}> { a = Exp(x) y = Abs(x) }""", {"Abs": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_is_left(name: str) -> None:
    text, expected = KEPT[name]
    plain, model = text_model(f"m {text}"), cleaned(text)
    assert ops(model) == expected
    assert (model.inputs, model.outputs) == (plain.inputs, plain.outputs)
    assert len(model.graph.graph.initializers) == ("Mul" in expected)
    assert not Cleanup()(model.graph).modified


def test_an_output_that_is_there_twice_keeps_its_declared_shape() -> None:
    model = text_model("""
        m (float[batch,4] x, float[k,4] o) => (float[batch,4] y, float[batch,4] z) {
            a = Max(x, o)  y = Max(x, o)  z = Neg(a)
        }""")
    inner = next(node for node in model.nodes() if node.outputs[0].name == "a").outputs[0]
    inner.shape = onnx_ir.Shape([None, 4])  # as inference gives it: two sizes that broadcast
    step, outputs = Cleanup(), model.outputs
    step.requires(model.graph)
    step(model.graph)
    step.ensures(model.graph)
    assert model.outputs == outputs
    assert ops(model) == {"Max": 1, "Neg": 1}


def test_constants_of_branches_move_to_the_main_graph() -> None:
    model = cleaned("""(float[2] x, bool c) => (float[2] y) { y = If(c) <
        then_branch = t () => (float[2] p) {
            k = Constant<value = float[2] {1, 2}>()  p = Add(x, k) },
        else_branch = e () => (float[2] q) {
            k = Constant<value = float[2] {3, 4}>()  q = Add(x, k) }> }""")
    assert ops(model) == {"If": 1, "Add": 2}
    x = np.zeros(2, np.float32)
    assert run(model, {"x": x, "c": np.array(True)})["y"].tolist() == [1, 2]
    assert run(model, {"x": x, "c": np.array(False)})["y"].tolist() == [3, 4]
    model = cleaned("""(float[2] x, bool c) => (float[2] y) { y = If(c) <
        then_branch = t () => (float[2] p) { p = Constant<value = float[2] {1, 2}>() },
        else_branch = e () => (float[2] q) { q = Identity(x) }> }""")
    assert run(model, {"x": x, "c": np.array(True)})["y"].tolist() == [1, 2], "it stays"


def test_functions_are_inlined_and_dropped() -> None:
    text = f"""
        <ir_version: {IR_VERSION}, opset_import: ["" : {OPSET}, "own" : 1]>
        m (float[2] x) => (float[2] y) {{ a = own.twice(x)  y = own.twice(a) }}
        <opset_import: ["" : {OPSET}], domain: "own">
        twice (v) => (w) {{ w = Add(v, v) }}"""
    model = Model(onnx_ir.from_proto(onnx.parser.parse_model(text)))
    Cleanup()(model.graph)
    assert ops(model) == {"Add": 2}
    assert not model.graph.functions
    assert "own" not in model.graph.opset_imports


def test_every_node_gets_a_name_of_its_own() -> None:
    model = text_model("m (float[2] x) => (float[2] y) { a = Exp(x) b = Neg(a) y = Exp(b) }")
    assert not any(node.name for node in model.nodes())
    Cleanup()(model.graph)
    assert [node.name for node in model.nodes()] == ["Exp", "Neg", "Exp_1"]


def test_an_initializer_that_a_caller_may_feed_is_no_constant() -> None:
    model = text_model("m (float[2] x, float k) => (float[2] y) { y = Mul(x, k) }")
    value = model.graph.graph.inputs[1]
    value.const_value = onnx_ir.tensor(np.float32(1), name="k")
    model.graph.graph.register_initializer(value)
    Cleanup()(model.graph)
    assert ops(model) == {"Mul": 1}
