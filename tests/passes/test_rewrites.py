"""What a target's rewrites make of a model is compared with it, and what is wrong is undone."""

import pkgutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx_ir
import pytest

from converter.errors import UnsupportedError
from converter.ir.model import Legalized, Model
from converter.options.request import Request
from converter.passes import legalize
from converter.passes.base import STANDARD_DOMAINS, used_domains
from converter.passes.legalize import FAMILIES, REWRITES
from converter.passes.legalize.builder import Builder, Rewrite
from converter.passes.transposes.transposes import Transposes
from converter.runtime.ort import OrtSession
from converter.verify import Verifier, build_probes, verify_rewrites
from converter.verify.probes import Probe
from emitters.coreml.emitter import CoremlEmitter
from emitters.coreml.lowering import Legalize as ForCoreml
from emitters.lowering import axes, channels_last
from emitters.lowering.axes.packed import Packed, Work
from emitters.tflite import lowering
from emitters.tflite.emitter import TfliteEmitter
from emitters.tflite.lowering import Legalize as ForTflite
from tests.passes.models import ListedSamples, noise, text_model

FIVE = " ".join(
    f'e{i} = Einsum <equation = "ij,jk->ik"> ({"x" if not i else f"e{i - 1}"}, w)' for i in range(5)
)
CHAIN = f"m (float[batch,4] x) => (float[batch,4] y) {{ {FIVE} y = Tanh(e4) }}"
SOFTPLUS = """m (float[batch,4] x) => (float[batch,4] y) <float one = {1}>
{ e = Exp(x) s = Add(e, one) l = Log(s) y = Tanh(l) }"""
IMAGES = """m (float[batch,3,8,8] x) => (float[batch,5] y) {
    c = Conv <pads = [1,1,1,1]> (x, w) r = Relu (c) p = MaxPool <kernel_shape = [2,2]> (r)
    d = Conv <strides = [2,2]> (p, v) f = Flatten (d) q = MatMul (f, k) y = Add (q, b) }"""
SHAPES = {"w": (4, 3, 3, 3), "v": (4, 4, 3, 3), "k": (36, 5), "b": (5,)}

Spoil = Callable[[str, Callable[[str], bool]], None]


def chain() -> Model:
    return text_model(CHAIN, w=np.eye(4, dtype=np.float32) * 0.9)


def probes(model: Model) -> list[Probe]:
    return build_probes(model, ListedSamples([noise(model, n, batch=1) for n in range(2)]), {})


def legalized(model: Model, step: Any = None) -> Legalized:
    found = verify_rewrites(model, step or ForTflite({}), probes).legalized
    assert found is not None and found.record is not None
    return found


def status(found: Legalized) -> str:
    assert found.record is not None
    return found.record.status


def detail(found: Legalized) -> str:
    assert found.record is not None
    return found.record.detail


def ops(found: Legalized) -> list[str]:
    return [node.op_type for node in found.graph.graph]


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Spoil:
    """Has an operator's rewrite add 1 to what it gives, at nodes of some names."""

    def wrong(op_type: str, where: Callable[[str], bool]) -> None:
        right = REWRITES[op_type]

        def rewrite(builder: Builder, node: onnx_ir.Node) -> Any:
            made = right(builder, node)
            if made is None or not where(node.outputs[0].name or ""):
                return made
            assert isinstance(made, onnx_ir.Value)
            return builder.op("Add", made, np.float32(1))

        monkeypatch.setitem(cast(dict[str, Rewrite], REWRITES), op_type, rewrite)

    return wrong


def images() -> Model:
    """Convolutions and a layer, each node called after what it gives."""
    draw = np.random.default_rng(0).standard_normal
    weights = {name: (draw(shape) / 8).astype(np.float32) for name, shape in SHAPES.items()}
    return named(text_model(IMAGES, **weights))


def assert_runs_alike(found: Legalized, model: Model) -> None:
    feeds = noise(model, 7, batch=3)
    after, before = OrtSession(found.graph).run(feeds), OrtSession(model.graph).run(feeds)
    np.testing.assert_allclose(after["y"], before["y"], rtol=1e-5, atol=1e-5)


def named(model: Model) -> Model:
    for node in model.graph.graph:
        node.name = f"of_{node.outputs[0].name}"
    return model


def test_right_rewrites_are_recorded_and_run() -> None:
    model = named(chain())
    found = legalized(model)
    assert status(found) == "changed" and detail(found) == "written as simpler operators: 5 Einsum"
    assert found.record is not None and (found.record.cosine or 0) > 0.99999
    assert "Einsum" not in ops(found)
    feeds = noise(model, 7, batch=3)
    after, before = OrtSession(found.graph).run(feeds), OrtSession(model.graph).run(feeds)
    np.testing.assert_allclose(after["y"], before["y"], atol=1e-6)


def test_nothing_is_asked_where_nothing_changes() -> None:
    model = named(text_model("m (float[batch,4] x) => (float[batch,4] y) { y = Tanh(x) }"))

    def none(model: Model) -> list[Probe]:
        raise AssertionError("it was compared")

    for step in (ForTflite({}), ForCoreml(17, {}, {})):
        found = verify_rewrites(model, step, none).legalized
        assert found is not None and status(found) == "unchanged" and ops(found) == ["Tanh"]


@pytest.mark.parametrize("which", [0, 2, 4])
def test_a_wrong_rewrite_is_found_among_right_ones_and_refused(spoil: Spoil, which: int) -> None:
    spoil("Einsum", lambda name: name == f"e{which}")
    model, step = named(chain()), ForTflite({})
    done = verify_rewrites(model, step, probes)
    assert list(step.undone) == [f"of_e{which}"]
    assert done.legalized is not None and ops(done.legalized).count("Einsum") == 1
    with pytest.raises(UnsupportedError) as refused:
        TfliteEmitter().emit(done, None, "fp32", Request(source="m.onnx"))  # type: ignore[arg-type]
    (item,) = refused.value.items
    assert (item.node, item.op) == (f"of_e{which}", "Einsum") and refused.value.exit_code == 3
    assert (
        "Modelyard's rewrite of it for the target (Einsum) computes something else: on "
        in item.reason
    )


def test_what_the_target_has_itself_stays_where_its_rewrite_is_wrong(spoil: Spoil) -> None:
    model = named(text_model(SOFTPLUS))
    assert "Softplus" in ops(legalized(model))
    spoil("Log", lambda name: True)
    found = legalized(model)
    assert status(found) == "changed" and "Log" in ops(found)
    assert "undone: of_l, on " in detail(found)


def test_a_wrong_definition_is_found_by_its_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    model, step = text_model("m (float[4] x) => (float[4] y) { y = Celu(x) }"), ForTflite({})

    def wrong(model: onnx_ir.Model) -> None:
        if step.write_out(model, lambda node: node.op_type == "Celu"):
            last = model.graph.outputs[0].producer()
            assert last is not None
            builder = Builder(last, model.opset_imports[""])
            again = builder.op(last.op_type, *last.inputs)
            builder.put((builder.op("Add", again, np.float32(1)),))

    monkeypatch.setattr(step, "chain", wrong)
    found = verify_rewrites(model, step, probes).legalized
    assert found is not None and ops(found) == ["Celu"] and list(step.undone) == ["::Celu"]


def test_windows_that_do_not_fit_say_nothing() -> None:
    """Half of 4 is less than a window, where ONNX Runtime gives one all the same."""
    text = (
        """m (float[batch,2,h,w] x) => (y) { y = LpPool<kernel_shape=[3,2], strides=[2,2]>(x) }"""
    )
    model = named(text_model(text))
    feeds = [{"x": noise(model, n, batch=2, h=4, w=5)["x"]} for n in range(2)]
    made = verify_rewrites(
        model, ForTflite({}), lambda it: build_probes(it, ListedSamples(feeds), {})
    )
    assert made.legalized is not None and status(made.legalized) == "changed"
    assert "LpPool" not in ops(made.legalized)


@pytest.mark.parametrize("kind", ["float", "float16"])
def test_blocks_are_put_together_in_what_can_be_compared(kind: str) -> None:
    text = f"""m ({kind}[batch,4,9] x) => (y) <int64[2] i = {{4,4}}, int64[2] b = {{2,2}}>
    {{ y = Col2Im(x, i, b) }}"""
    found = legalized(named(text_model(text)))
    assert status(found) == "changed" and "ScatterND" in ops(found)
    assert "compared" not in detail(found)


def test_an_edge_beyond_what_floats_hold_refuses_nothing() -> None:
    overflowing = text_model(SOFTPLUS.replace("l = Log(s) y = Tanh(l)", "y = Log(s)"))
    right = text_model("m (float[batch,4] x) => (float[batch,4] y) { y = Softplus(x) }")
    found = Verifier(overflowing, probes(overflowing)).compare(right)
    assert not found.ok and "infinite" in found.reason
    found = Verifier(overflowing, probes(overflowing), overflow_counts=False).compare(right)
    assert found.ok and any("beyond what a float can hold" in text for text in found.skipped)


def test_the_layout_is_compared_and_runs() -> None:
    model = images()
    found = legalized(model)
    assert status(found) == "changed" and detail(found) == (
        "with channels last: 2 Conv, 1 MaxPool; passes: 1 transposes; "
        "with the product before it: 1 Add"
    )
    assert found.record is not None and (found.record.cosine or 0) > 0.99999
    wanted = ["Transpose", "Conv", "Relu", "MaxPool", "Conv", "Flatten", "Linear"]
    assert ops(found) == wanted and used_domains(found.graph) <= STANDARD_DOMAINS
    assert_runs_alike(found, model)


WINDOWS = """m (float[batch,8,6,4] x) => (float[batch,12,16] y)
    <int64[6] s = {0,2,4,3,2,4}, int64[3] t = {0,12,16}> {
    v = Reshape (x, s) r = Relu (v) p = Transpose <perm = [0,1,3,2,4,5]> (r) e = Exp (p)
    f = Softmax <axis = 3> (e) y = Reshape (f, t) }"""


@pytest.mark.parametrize("which", ["", "Transpose", "Softmax"])
def test_a_wrong_way_of_many_axes_is_refused_by_its_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, which: str
) -> None:
    handlers = cast(dict[str, Any], axes.HANDLERS)
    right = handlers.get(which)

    def wrong(work: Work) -> list[Packed]:
        assert right is not None
        (made,) = right(work)
        return [Packed(work.b.op("Neg", made.value), made.dims)]

    if which:
        monkeypatch.setitem(handlers, which, wrong)
    step, model = ForCoreml(17, {}, {}), text_model(WINDOWS)
    for node in model.nodes():
        node.name = f"of_{node.outputs[0].name}"
    done = verify_rewrites(model, step, probes)
    found = done.legalized
    assert found is not None and found.record is not None
    if not which:
        assert not step.undone and "with five axes at most: 1 Exp" in detail(found)
        assert all(len(v.shape or ()) < 6 for node in found.graph.graph for v in node.outputs)
        return
    assert list(step.undone) == [f"of_{'p' if which == 'Transpose' else 'f'}"]
    with pytest.raises(UnsupportedError) as refused:
        CoremlEmitter().emit(done, tmp_path, "fp32", Request(source="m.onnx"))
    (item,) = refused.value.items
    assert f"({which}) computes something else: on sample s0" in item.reason


@pytest.mark.parametrize("which", ["c", "p", "d"])
def test_a_wrong_order_of_axes_is_refused_by_its_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, which: str
) -> None:
    right = channels_last._transpose

    def wrong(source: onnx_ir.Value, perm: list[int], name: str) -> onnx_ir.Node:
        return right(source, [0, 3, 2, 1] if name == f"of_{which}_channels_first" else perm, name)

    monkeypatch.setattr(channels_last, "_transpose", wrong)
    step = ForTflite({})
    done = verify_rewrites(images(), step, probes)
    assert list(step.undone) == [f"of_{which}"]
    with pytest.raises(UnsupportedError) as refused:
        TfliteEmitter().emit(done, tmp_path, "fp32", Request(source="m.onnx"))
    (item,) = refused.value.items
    assert item.node == f"of_{which}" and "computes something else: on sample s0" in item.reason
    assert not list(tmp_path.iterdir())


def test_wrongly_moved_transposes_stay_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Transposes.call

    def wrong(self: Transposes, model: onnx_ir.Model) -> Any:
        done = right(self, model)
        turned = next(node for node in model.graph if node.op_type == "Transpose")
        turned.attributes["perm"] = onnx_ir.AttrInt64s("perm", [0, 3, 2, 1])
        return done

    monkeypatch.setattr(Transposes, "call", wrong)
    model, step = images(), ForTflite({})
    found = legalized(model, step)
    assert list(step.undone) == ["::transposes"] and status(found) == "changed"
    assert ops(found).count("Transpose") == 6 and "undone: transposes, on sample" in detail(found)
    assert_runs_alike(found, model)


def test_a_wrongly_joined_bias_stays_an_addition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "LINEAR", lowering.LINEAR.replace("Add", "Sub"))
    model, step = images(), ForTflite({})
    found = legalized(model, step)
    assert list(step.undone) == ["of_y"] and ops(found)[-2:] == ["MatMul", "Add"]
    assert status(found) == "changed"
    assert_runs_alike(found, model)


def test_poolings_that_round_up_are_right_with_channels_last() -> None:
    """A last window that begins in the padding is none, though ONNX's inference counts it."""
    pool = "MaxPool <kernel_shape = [2,2], strides = [2,2], pads = [1,1,1,1], ceil_mode = 1> (r)"
    text = f"""m (float[1,2,3,3] x) => (float[1,2,n,m] y, float[1,2,n,m] z) {{
        r = Tanh (x) y = {pool} z = {pool} }}"""
    step = ForTflite({})
    assert status(legalized(named(text_model(text)), step)) == "changed" and not step.undone


def test_each_family_has_the_rewrites_that_are_listed() -> None:
    names = [module.name for module in pkgutil.iter_modules(legalize.__path__)]
    modules = {name: import_module(f"{legalize.__name__}.{name}") for name in names}
    found = {name: set(m.REWRITES) for name, m in modules.items() if "REWRITES" in m.__dict__}
    assert {name: set(keys) for name, keys in FAMILIES.items()} == {
        name: keys for name, keys in found.items() if name in FAMILIES
    }
    assert set(found) - set(FAMILIES) <= {"chain"}, "which takes those from here"
    assert len(REWRITES) == sum(len(keys) for keys in FAMILIES.values()), "each of one family"
