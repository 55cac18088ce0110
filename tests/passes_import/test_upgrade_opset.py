"""Models of every opset from 7 on compute the same in the pipeline's."""

import re
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper, parser

from converter.errors import ModelError, UnsupportedError
from converter.ir.model import OPSET, Model
from converter.passes.opset.adapters import ADAPTERS, COMPATIBLE
from converter.passes.opset.upgrade import UpgradeOpset
from converter.runtime.ort import OrtSession
from tests.passes_import.single_ops import CHANGED, KEPT, NEWER, Case, floats

Array = np.ndarray[Any, Any]


def run(model: onnx_ir.Model, feeds: dict[str, Array]) -> dict[str, Array]:
    return OrtSession(model, plain=True).run(feeds)


def upgraded(proto: onnx.ModelProto) -> onnx_ir.Model:
    model = onnx_ir.from_proto(proto)
    UpgradeOpset()(model)
    assert model.opset_imports[""] == OPSET
    return model


def same(proto: onnx.ModelProto, feeds: dict[str, Array]) -> onnx_ir.Model:
    """The model of today's opset, after making sure that it computes what it did."""
    before, model = run(onnx_ir.from_proto(proto), feeds), upgraded(proto)
    after = run(model, feeds)
    assert list(before) == list(after)
    for name, expected in before.items():
        np.testing.assert_allclose(after[name], expected, rtol=1e-5, atol=1e-6, strict=True)
    return model


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("one", [*CHANGED, *KEPT, *NEWER], ids=str)
def test_an_operator_computes_the_same(one: Case, free: bool) -> None:
    names = [node.name for node in same(*one.model(free=free)).graph]
    assert len(set(names)) == len(names) and (all(names) or len(names) == 1)


@pytest.mark.parametrize("kind", [np.float16, np.float64])
@pytest.mark.parametrize("op", ["Clip", "Pad"])
def test_attributes_become_inputs_of_the_data_s_type(op: str, kind: type) -> None:
    given = {"min": -0.5, "max": 0.5} if op == "Clip" else {"pads": [1, 0, 0, 1], "value": 2.5}
    x = floats(2, 3).astype(kind)
    out = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    proto, feeds = Case("type", 7, op, [x], outputs=out, **given).model()
    expected = np.clip(x, -0.5, 0.5) if op == "Clip" else np.full((3, 4), 2.5, kind)
    if op == "Pad":
        expected[1:, :3] = x
    np.testing.assert_array_equal(run(upgraded(proto), feeds)["out0"], expected)


def _changes() -> list[tuple[str, int]]:
    """Every operator that changed between the oldest opset that is read and the pipeline's."""
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""]
    first = {s.name: min(t.since_version for t in schemas if t.name == s.name) for s in schemas}
    versions = {(s.name, s.since_version) for s in schemas if 7 < s.since_version <= OPSET}
    return sorted((name, since) for name, since in versions if since != first[name])


@pytest.mark.parametrize(("op", "version"), _changes())
def test_no_change_of_an_operator_is_forgotten(op: str, version: int) -> None:
    adapted = op in ADAPTERS and version <= ADAPTERS[op][0]
    neutral = op in COMPATIBLE.get(version, ())
    assert adapted or neutral, f"{op} changed in opset {version}"
    # and every adapter has a case
    assert set(ADAPTERS) - {one.op for one in CHANGED} == {"Scan"}


BODIES = {
    "If": """<ir_version: 5, opset_import: ["" : 10]>
        g (float[2,3] x, bool cond) => (float[N,M] y) {
            y = If (cond) <
                then_branch = yes () => (float[A,B] a) { a = Clip <min = 0.0> (x) },
                else_branch = no () => (float[C,D] b) { s = Softmax <axis = 0> (x) b = Dropout (s) }
            >
        }""",
    "Loop": """<ir_version: 5, opset_import: ["" : 11]>
        g (float[2,3] x, bool cond) => (float[2,3] y, float[T,2] z) <int64 trips = {3}> {
            y, z = Loop (trips, "", x) <body = step (int64 i, bool c, float[2,3] s)
                => (bool k, float[2,3] t, float[2] r) {
                k = Identity (c)
                h = Softmax <axis = 0> (s)
                t = Add (h, s)
                r = ReduceSum <axes = [1], keepdims = 0> (t)
            }>
        }""",
}


@pytest.mark.parametrize(("kind", "cond"), [("If", True), ("If", False), ("Loop", True)])
def test_bodies_are_converted(kind: str, cond: bool) -> None:
    same(parser.parse_model(BODIES[kind]), {"x": floats(2, 3), "cond": np.array(cond)})


FUNCTIONS = """
<ir_version: 8, opset_import: ["" : {model}, "own" : 1]>
g (float[2,3,4] x) => (float[2,3,4] y, float[2,3,4] z) {{
    y = own.outer <axis = 1> (x)
    z = own.outer <axis = 2> (y)
}}
<domain: "own", opset_import: ["" : {function}, "own" : 1]>
outer <axis> (a) => (b) {{ h = own.inner <axis: int = @axis> (a) b = Mul (h, a) }}
<domain: "own", opset_import: ["" : {function}]>
inner <axis> (a) => (b) {{ b = Softmax <axis: int = @axis> (a) }}
"""


@pytest.mark.parametrize(("model", "function"), [(11, 11), (15, 11), (11, 15), (17, 17), (21, 21)])
def test_functions_are_written_out_each_in_its_own_opset(model: int, function: int) -> None:
    proto = parser.parse_model(FUNCTIONS.format(model=model, function=function))
    x = floats(2, 3, 4)
    result = upgraded(proto)
    assert not result.functions
    assert set(result.opset_imports) == {""}
    outputs, expected = run(result, {"x": x}), x
    for name, axis in (("y", 1), ("z", 2)):
        expected = _softmax(expected, axis, flat=function < 13) * expected
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-5, atol=1e-6)


def _softmax(x: Array, axis: int, *, flat: bool) -> Array:
    axes = tuple(range(axis, x.ndim)) if flat else axis
    e = np.exp(x - x.max(axis=axes, keepdims=True))
    return e / e.sum(axis=axes, keepdims=True)


def test_functions_in_a_circle_are_refused() -> None:
    text = FUNCTIONS.replace("b = Softmax <axis: int = @axis> (a)", "b = own.outer (a)")
    proto = parser.parse_model(text.format(model=15, function=15))
    with pytest.raises(ModelError, match="expanding the model's functions"):
        upgraded(proto)


def test_all_that_cannot_be_converted_is_listed() -> None:
    proto = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[4,8] x, float[4,2] s, uint8[4,2] z) => (uint8[4,8] y, int4[4,8] w) {
            [first] y = QuantizeLinear <axis = 1, block_size = 4> (x, s, z)
            [second] w = Cast <to = 22> (x)
        }"""
    )
    with pytest.raises(UnsupportedError) as caught:
        upgraded(proto)
    first, second = caught.value.items
    assert (first.node, first.op, second.node) == ("first", "QuantizeLinear", "second")
    assert "block_size" in first.reason and "int4" in second.reason
    assert caught.value.exit_code == 3


MOD = '<ir_version: 13, opset_import: ["": 28]> g (float[2] x, float[2] y) => (float[2] z) {'
NORM = """<ir_version: 4, opset_import: ["" : 9]>
    g (float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[] y, float[] z) {
        y, n, k = BatchNormalization (x, s, b, m, v)
        z = Identity (n)
    }"""
RESIZE = """<ir_version: 6, opset_import: ["" : 11]>
    g (float[1,1,4,4] x) => (float[1,1,8,8] y) <float[0] r = {}, float[4] s = {1, 1, 2, 2}> {
        y = Resize <coordinate_transformation_mode = "tf_half_pixel_for_nn", mode = "linear">
            (x, r, s)
    }"""


@pytest.mark.parametrize(("text", "says"), [
    (RESIZE, "tf_half_pixel_for_nn(.|\n)*opset 13 or later"),  # it left ONNX: a remedy
    (NORM, "training"),  # outputs of training that are used
    (f"{MOD} z = Mod(x, y) }}", "fmod is 0 on"),  # of Mod-28: before, floats had fmod=1
])  # fmt: skip
def test_what_opset_20_cannot_say_is_refused(text: str, says: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        upgraded(parser.parse_model(text))
    assert re.search(says, str(caught.value))
    upgraded(parser.parse_model(MOD + " z = Mod<fmod=1>(x, y) }"))


def test_mapped_weights_stay_mapped(tmp_path: Any) -> None:
    proto = Case("big", 12, "Add", [floats(2, 600)], [floats(600)]).model()[0]
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    model = Model.load(path)
    tensors = [value.const_value for value in model.initializers()]
    UpgradeOpset()(model.graph)
    assert [value.const_value for value in model.initializers()] == tensors
    assert isinstance(tensors[0], onnx_ir.ExternalTensor)


def test_a_model_of_our_opset_is_left_alone_but_for_unused_domains() -> None:
    proto = Case("plain", OPSET, "Gelu", [floats(2, 3)]).model()[0]
    proto.ir_version = 9
    assert not UpgradeOpset()(onnx_ir.from_proto(proto)).modified
    assert UpgradeOpset().key()["pass"] == "upgrade-opset"
    proto.opset_import.add(domain="com.microsoft", version=1)
    assert set(upgraded(proto).opset_imports) == {""}
