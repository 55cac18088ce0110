"""What stays in float32 and what becomes of the graph, on small models."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.ir.model import Model
from converter.passes.cleanup.naming import name_nodes
from converter.passes.fuse.clamp_masks import ClampMasks
from converter.precision.fp16 import border as half_border
from converter.precision.fp16.half import to_half
from converter.precision.fp16.ops import summed
from converter.precision.fp16.strict import strict
from converter.precision.quantized import Quantized
from converter.runtime.ort import OrtSession
from tests.passes.models import Array, ops, run, text_model
from tests.quantize.minmax_limits import measured_on

RNG = np.random.default_rng(0)


@pytest.fixture
def free_casts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Casts cost nothing, so that only what has to be is in float32."""
    for cost in ("CAST_BYTES", "CAST_ALONE"):
        monkeypatch.setattr(half_border, cost, 0)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def model(text: str, weights: Mapping[str, Array] | None = None) -> Model:
    """A model from onnx's text format, its nodes named, with initializers."""
    found = text_model(text, **(weights or {}))
    name_nodes(found.graph)
    return found


def lowered(given: Model, feeds: Mapping[str, Array] | None, **options: Any) -> Quantized:
    """Checked by onnx, with what was measured on ``feeds``."""
    made = to_half(given, measured_on(given, feeds) if feeds else None, **options)
    onnx.checker.check_model(made.model.to_proto(), full_check=True)
    return made


def assert_close(given: Model, made: Quantized, feeds: Mapping[str, Array]) -> None:
    """With all roundings, and as ONNX Runtime runs it."""
    expected, tol = run(given, feeds), 5e-3
    for model in (strict(made.model), made.model):
        for name, found in run(model, feeds).items():
            want = expected[name]
            assert found.dtype == want.dtype
            assert np.isfinite(found).all()
            np.testing.assert_allclose(found, want, rtol=tol, atol=tol * abs(want).max())


def reasons(made: Quantized) -> dict[str, str]:
    return {kept.op: kept.reason for kept in made.kept}


CONV = """
g (float[1, 3, 8, 8] x, float[4, 3, 3, 3] w, float[4] b) => (float[1, 4, 6, 6] y) {
  c = Conv(x, w, b) y = Relu(c) }
"""
PRODUCT = "g (float[n, 8] x, float[8, 8] w) => (float[n, 8] y) { y = MatMul(x, w) }"


def conv() -> Model:
    return model(CONV, {"w": floats(4, 3, 3, 3), "b": floats(4)})


def test_one_cast_in_and_one_out() -> None:
    given, feeds = conv(), {"x": floats(1, 3, 8, 8)}
    made = lowered(given, feeds)
    assert made.model.to_proto() == lowered(given, feeds).model.to_proto(), "the same every time"
    assert ops(made.model) == {"Cast": 2, "Conv": 1, "Relu": 1}
    assert [spec.dtype for spec in (*made.model.inputs, *made.model.outputs)] == ["float32"] * 2
    assert made.precision == "fp16"
    assert made.macs == made.macs_lowered == 4 * 36 * 27
    assert not made.kept
    assert {v.dtype for v in made.model.initializers()} == {onnx_ir.DataType.FLOAT16}
    assert {v.name for v in made.model.initializers()} == {"w", "b"}
    assert_close(given, made, feeds)
    assert ops(given) == {"Conv": 1, "Relu": 1}, "the model itself was changed"
    assert {v.dtype for v in given.initializers()} == {onnx_ir.DataType.FLOAT}


def test_activations_that_overflow() -> None:
    text = """g (float[1, 64] x) => (float[1, 64] y) {
      large = MatMul(x, up) kept = Relu(large) small = MatMul(kept, down) y = MatMul(small, last) }
    """
    up, down, last = floats(3, 64, 64)
    weights = {"up": up * np.float32(1e4), "down": down / np.float32(1e4), "last": last}
    given, feeds = model(text, weights), {"x": floats(1, 64)}
    made = lowered(given, feeds)
    assert [kept.op for kept in made.kept] == ["MatMul", "Relu", "MatMul"]
    assert "reaches" in made.kept[0].reason or "reach" in made.kept[0].reason
    assert "float16 ends at 65504" in made.kept[1].reason
    assert made.lowered == [next(n.name for n in given.nodes() if n.outputs[0].name == "y")]
    assert 0 < made.share < 1
    assert_close(given, made, feeds)


def test_what_float16_holds_with_room_is_lowered() -> None:
    given = model("g (float[4] x, float[4] w) => (float[4] y) { y = Mul(x, w) }", {"w": floats(4)})
    near = np.full(4, 12000, np.float32)
    assert lowered(given, {"x": near / 4}).lowered
    assert not lowered(given, {"x": near * 2}).lowered
    for scale, word in ((1e-8, "too small"), (1e6, "reaches")):
        made = lowered(model(PRODUCT, {"w": floats(8, 8) * np.float32(scale)}), None)
        assert word in reasons(made)["MatMul"]
    assert lowered(model(PRODUCT, {"w": floats(8, 8) * np.float32(1e-3)}), None).lowered


MASKED = """
g (float[2, 2, 4, 8] q, float[2, 2, 8, 4] k, int64[2, 1, 1, 4] mask) => (float[2, 2, 4, 4] y) {
  scores = MatMul(q, k)  shown = Cast<to = 9>(mask)  bias = Where(shown, zero, least)
  masked = Add(scores, bias)  y = Softmax<axis = -1>(masked) }
"""
LEAST = np.float32(np.finfo(np.float32).min)
LIMITS: dict[str, Any] = {"zero": np.float32(0), "least": LEAST}


def scores(size: float = 1) -> dict[str, Array]:
    """The second row is hidden altogether."""
    mask = np.array([[1, 1, 0, 1], [0, 0, 0, 0]], np.int64).reshape(2, 1, 1, 4)
    return {"q": floats(2, 2, 4, 8) * size, "k": floats(2, 2, 8, 4), "mask": mask}


def clamped(given: Model) -> Model:
    """As the step before makes it."""
    made = given.copy()
    ClampMasks()(made.graph)
    return made


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("measured", [True, False])
def test_masks_with_a_row_that_is_hidden_altogether(dtype: str, measured: bool) -> None:
    given, feeds = model(MASKED, LIMITS), scores()
    made = lowered(clamped(given), feeds if measured else None, dtype=dtype)
    assert {"MatMul", "Where", "Less", "Softmax"} <= {
        node.op_type for node in made.model.nodes() if node.name in made.lowered
    } or dtype == "bfloat16"
    found, expected = run(strict(made.model), feeds)["y"], run(given, feeds)["y"]
    np.testing.assert_allclose(found, expected, atol=5e-3 if dtype == "float16" else 0.04)
    assert (found[1] == 0.25).all()
    if dtype == "float16":
        assert_close(given, made, feeds)


@pytest.mark.parametrize("form", ["where", "product", "integers", "causal", "gathered"])
def test_every_form_of_a_mask(form: str) -> None:
    bias = {
        "where": "shown = Cast<to = 9>(mask)  masked = Where(shown, scores, least)",
        "product": """shown = Cast<to = 9>(mask)  ones = Cast<to = 1>(shown)
                      hidden = Sub(one, ones)  bias = Mul(hidden, least)
                      masked = Add(scores, bias)""",
        "integers": """numbers = Cast<to = 1>(mask)  hidden = Sub(one, numbers)
                       bias = Mul(hidden, least)  masked = Add(scores, bias)""",
        "causal": "bias = Slice(table, from, to)  masked = Add(bias, scores)",
        "gathered": """part = Slice(table, from, to)  bias = Gather(part, rows)
                       masked = Add(bias, scores)""",
    }[form]
    start, _, end = MASKED.partition("shown")
    text = f"{start} {bias} {end[end.index('y = ') :]}"
    table = np.where(np.tri(6, dtype=bool), np.float32(0), LEAST)
    table[3] = LEAST
    constants = {"least": LEAST, "one": np.float32(1), "table": table}
    ends = {"from": np.array([0, 0]), "to": np.array([4, 4]), "rows": np.array([3, 0, 2, 1])}
    given, feeds = model(text, {**constants, **ends}), scores(4)
    made = lowered(clamped(given), feeds)
    assert not [kept.op for kept in made.kept if kept.op in ("MatMul", "Where", "Softmax")]
    assert_close(given, made, feeds)


def test_a_mask_stays_for_what_else_reads_it() -> None:
    text = MASKED.replace("(float[2, 2, 4, 4] y)", "(float[2, 2, 4, 4] y, float[2, 1, 1, 4] z)")
    given = model(text.replace("masked = Add", "z = Abs(bias)  masked = Add"), LIMITS)
    feeds = scores()
    for measured in (feeds, None):
        made = lowered(clamped(given), measured)
        assert {"Where", "Abs"} <= set(reasons(made)) and "Softmax" not in reasons(made)
        assert_close(given, made, feeds)


NORMED = """
g (float[2, 16] x) => (float[2, 16] y) { squares = Mul(x, x)  sum = ReduceMean(squares, axes)
  guarded = Add(sum, eps)  root = Sqrt(guarded)  y = Div(x, root) }
"""


@pytest.mark.usefixtures("free_casts")
@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize(
    ("eps", "wide"), [(1e-12, {"Add", "Sqrt", "Div"}), (1e-5, {"Add", "Sqrt"})]
)
def test_an_epsilon_keeps_its_worth_in_silence(eps: float, wide: set[str], measured: bool) -> None:
    given = model(NORMED, {"eps": np.float32(eps), "axes": np.array([1], np.int64)})
    loud = {"x": floats(2, 16)}
    made = lowered(given, loud if measured else None)
    assert reasons(made).keys() == wide
    assert "keeps values from zero" in reasons(made)["Add"]
    assert_close(given, made, loud)
    assert_close(given, made, {"x": np.zeros((2, 16), np.float32)})


def test_an_epsilon_keeps_its_worth_in_another_place() -> None:
    text = NORMED.replace("int64[1] axes)", "int64[1] axes, int64[1] lens)")
    turned = "rows = Sqrt(guarded)  root = ReverseSequence(rows, lens)"
    text = text.replace("root = Sqrt(guarded)", turned)
    constants = {"eps": np.float32(1e-12), "axes": np.array([1]), "lens": np.array([2])}
    given = model(text, constants)
    made = lowered(given, {"x": floats(2, 16)})
    assert "keeps values from zero" in reasons(made)["Add"]
    assert_close(given, made, {"x": np.zeros((2, 16), np.float32)})


def test_what_is_linear_before_a_logarithm_stays() -> None:
    text = """g (float[1, 64] x) => (float[1, 8] y) {
      spectrum = MatMul(x, basis)  power = Mul(spectrum, spectrum)
      guarded = Add(power, eps)  log = Log(guarded)  y = MatMul(log, w) }"""
    weights = {"basis": floats(64, 64), "w": floats(64, 8), "eps": np.float32(1e-10)}
    given, feeds = model(text, weights), {"x": floats(1, 64)}
    for measured in (feeds, None):
        made = lowered(given, measured)
        assert len(made.lowered) == 1
        assert reasons(made)["Log"].startswith(("Log of values down", "a logarithm is taken"))
        assert_close(given, made, {"x": np.zeros((1, 64), np.float32)})
        assert_close(given, made, {"x": feeds["x"] * np.float32(1e-4)})


def test_counts_beyond_what_is_exact_and_sizes_computed_in_floats_stay() -> None:
    text = "g (int64[4] x) => (float[4] y) { f = Cast<to = 1>(x)  y = Mul(f, w) }"
    given = model(text, {"w": floats(4)})
    assert lowered(given, {"x": np.arange(4)}).lowered
    for feeds in ({"x": np.arange(4) + 5000}, None):
        assert "counts" in reasons(lowered(given, feeds))["Cast"]
    text = """g (float[n, 4] x) => (float[m, 4] y) {
      size = Shape<start = 0, end = 1>(x)  long = Cast<to = 1>(size)  less = Mul(long, part)
      down = Floor(less)  end = Cast<to = 7>(down)  y = Slice(x, zero, end) }"""
    given = model(text, {"part": np.float32(0.7), "zero": np.array([0], np.int64)})
    feeds = {"x": floats(1000, 4)}
    made = lowered(given, feeds)
    assert {"Cast", "Mul", "Floor"} <= set(reasons(made))
    assert_close(given, made, feeds)


def test_kept_by_name_and_merged_between() -> None:
    text = """g (float[1, 64] x) => (float[1, 64] y) {
      p = MatMul(x, a)  q = Relu(p)  r = Neg(q)  y = MatMul(r, b) }"""
    given = model(text, {"a": floats(64, 64), "b": floats(64, 64)})
    names = [node.name or "" for node in given.nodes()]
    made = lowered(given, None, keep={names[1], names[3]})
    assert {kept.node: kept.reason.split(":")[0] for kept in made.kept} == {
        names[1]: "it was asked to",
        names[2]: "it is between nodes in float32, so casts would cost more than it saves",
        names[3]: "it was asked to",
    }
    assert ops(made.model)["Cast"] == 2
    assert_close(given, made, {"x": floats(1, 64)})


def test_resize_keeps_its_scales_in_float32() -> None:
    text = """g (float[1, 1, 4, 4] x) => (float[1, 1, 8, 8] y) {
      y = Resize<mode = "linear">(x, , scales) }"""
    given = model(text, {"scales": np.array([1, 1, 2, 2], np.float32)})
    made = lowered(given, None)
    assert made.lowered
    assert {v.dtype for v in made.model.initializers()} == {onnx_ir.DataType.FLOAT}
    assert_close(given, made, {"x": floats(1, 1, 4, 4)})


BRANCHES = """
g (bool c, float[4] x) => (float[4] y) { h = Mul(x, w)
  z = If (c) <then_branch = yes () => (float[4] t) { a = Sigmoid(h) t = Neg(a) },
              else_branch = no () => (float[4] e) { e = Add(h, x) }> y = Relu(z) }
"""
LOOP = """
g (int64 n, bool c, float[4] x) => (float[4] y, float[k, 4] all) { y, all = Loop (n, c, x) <
    body = step (int64 i, bool go, float[4] s) => (bool on, float[4] t, float[4] u) {
      on = Identity(go) t = Mul(s, w) u = Tanh(t) }> }
"""
SCAN = """
g (float[4] s, float[6, 4] x) => (float[4] y, float[6, 4] all) {
  y, all = Scan <num_scan_inputs = 1, body = step (float[4] a, float[4] b)
      => (float[4] t, float[4] u) { p = Mul(b, w) t = Add(a, p) u = Sigmoid(t) }> (s, x)
}
"""


@pytest.mark.usefixtures("free_casts")
@pytest.mark.parametrize("keep", ["", "Mul", "Add", "Relu", "Neg", "Tanh", "Sigmoid"])
@pytest.mark.parametrize("text", [BRANCHES, LOOP, SCAN], ids=["if", "loop", "scan"])
def test_subgraphs(text: str, keep: str) -> None:
    given = model(text, {"w": floats(4)})
    named = {node.name or "" for node in given.nodes() if node.op_type == keep}
    made = lowered(given, None, keep=named)
    every = {"n": np.array(3), "c": np.array(True), "x": floats(4), "s": floats(4)}
    if text is SCAN:
        every["x"] = floats(6, 4)
    feeds = {spec.name: every[spec.name] for spec in given.inputs}
    assert_close(given, made, feeds)
    assert named == {kept.node for kept in made.kept}
    assert made.lowered


def test_functions_are_inlined() -> None:
    text = """
    <ir_version: 9, opset_import: ["" : 20, "own" : 1]>
    g (float[4] x) => (float[4] y) { y = own.twice(x) }
    <domain: "own", opset_import: ["" : 20]>
    twice (a) => (b) { c = Add(a, a) b = Tanh(c) }
    """
    given = Model(onnx_ir.from_proto(onnx.parser.parse_model(text)))
    name_nodes(given.graph)
    made = lowered(given, None)
    assert len(made.lowered) == 2
    assert_close(given, made, {"x": floats(4)})


def test_an_unknown_operator_stays_and_is_named() -> None:
    proto = onnx.parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]>
    g (float[2, 4] x) => (float[2, 4] y) { a = Tanh(x) y = com.microsoft.QuickGelu(a) }
    """)
    given = Model(onnx_ir.from_proto(onnx.shape_inference.infer_shapes(proto)))
    next(
        v for n in given.nodes() for v in n.outputs if v.name == "a"
    ).dtype = onnx_ir.DataType.FLOAT
    name_nodes(given.graph)
    made = to_half(given, None)
    assert "isn't a standard operator" in reasons(made)["QuickGelu"]
    OrtSession(made.model.graph).run({"x": floats(2, 4)})


def test_bfloat16_where_the_opset_has_it() -> None:
    assert "no bfloat16 form" in reasons(lowered(conv(), None, dtype="bfloat16"))["Conv"]
    given, feeds = model(PRODUCT, {"w": floats(8, 8) * 1e6}), {"x": floats(2, 8)}
    made = lowered(given, feeds, dtype="bfloat16")
    assert made.precision == "bf16"
    assert not made.kept, "bfloat16 has float32's range"
    found, expected = run(strict(made.model), feeds)["y"], run(given, feeds)["y"]
    np.testing.assert_allclose(found, expected, atol=0.02 * abs(expected).max())


def test_weights_in_a_file_of_their_own_are_converted_when_written(tmp_path: Path) -> None:
    weight = floats(64, 64)
    model(PRODUCT.replace("8", "64"), {"w": weight}).save(tmp_path / "a.onnx", external=True)
    given = Model.load(tmp_path / "a.onnx")
    made = lowered(given, None)
    (value,) = made.model.initializers()
    assert isinstance(value.const_value, onnx_ir.LazyTensor)
    made.model.save(tmp_path / "b.onnx", external=True)
    again = Model.load(tmp_path / "b.onnx")
    (value,) = again.initializers()
    assert value.const_value is not None
    np.testing.assert_array_equal(value.const_value.numpy(), weight.astype(np.float16))
    OrtSession(tmp_path / "b.onnx").run({"x": floats(1, 64)})


@pytest.mark.parametrize("io_dtype", ["float32", "float16"])
def test_constants_at_the_border(io_dtype: str) -> None:
    text = "g (float[4] x, float[4] w) => (float[4] y, float[4] w) { y = Mul(x, w) }"
    given = model(text, {"w": floats(4)})
    made = lowered(given, None, io_dtype=io_dtype)
    found = OrtSession(made.model.graph).run({"x": np.ones(4, io_dtype)})
    assert list(found) == ["y", "w"]
    assert {array.dtype for array in found.values()} == {np.dtype(io_dtype)}
    np.testing.assert_allclose(found["y"], found["w"], rtol=1e-3)


@pytest.mark.parametrize("io_dtype", ["float32", "float16"])
def test_a_default_that_a_caller_may_replace_keeps_its_type(io_dtype: str) -> None:
    text = """
    <ir_version: 9, opset_import: ["" : 20]>
    g (float[4] x, float[4] w = {1, 2, 3, 4}) => (float[4] y) { y = Mul(x, w) }
    """
    given = Model(onnx_ir.from_proto(onnx.parser.parse_model(text)))
    name_nodes(given.graph)
    session = OrtSession(lowered(given, None, io_dtype=io_dtype).model.graph)
    x = np.ones(4, io_dtype)
    assert session.run({"x": x})["y"].tolist() == [1, 2, 3, 4]
    assert session.run({"x": x, "w": np.full(4, 5, np.float32)})["y"].tolist() == [5] * 4


def test_sizes_that_are_not_known_are_guessed() -> None:
    value = onnx_ir.Value(name="v")
    assert half_border.elements(value) == half_border.FREE_SIZE
    assert summed(onnx_ir.node("ReduceSum", [value])) == 1024
