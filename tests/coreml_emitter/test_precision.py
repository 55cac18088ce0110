"""Weights that stay compressed in the package, and are there once; what older systems lack."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.errors import UsageError
from converter.ir.model import Legalized, Model
from converter.passes.base import STANDARD_DOMAINS, used_domains
from converter.precision.weights.storage import WeightStorage
from converter.runtime.ort import OrtSession
from converter.verify import build_probes, verify_rewrites
from emitters.coreml import compressed, session
from emitters.coreml.emitter import CoremlEmitter
from emitters.coreml.lowering import Legalize
from tests.coreml_emitter.running import agree, emitted, kinds, main_block, request, run_package
from tests.operators.cases import numbers, parsed, with_weights
from tests.passes.models import ListedSamples

STORED = {
    "int8-weights": (16, "constexpr_affine_dequantize"),
    "int4-weights": (18, "constexpr_blockwise_shift_scale"),
    "palettized": (17, "constexpr_lut_to_dense"),
}
NET = """
g (float[batch,64,6,6] x, int64[batch,3] ids, float[48,64,3,3] w1, float[48] b1,
   float[48,96,2,2] w2, float[96,40] w3, float[40] b3, float[56,40] w4, float[100,40] table)
  => (float[batch,56] y, float[batch,3,40] e)
{
  a = Conv <pads=[1,1,1,1]> (x, w1, b1)
  t = ConvTranspose <strides=[2,2]> (a, w2)
  m = GlobalAveragePool (t)
  f = Flatten (m)
  p = MatMul (f, w3)
  s = Add (p, b3)
  y = Gemm <transB=1> (s, w4)
  e = Gather (table, ids)
}"""
SHAPES = {
    "w1": (48, 64, 3, 3), "b1": (48,), "w2": (48, 96, 2, 2), "w3": (96, 40), "b3": (40,),
    "w4": (56, 40), "table": (100, 40),
}  # fmt: skip
FEEDS = {"x": numbers(2, 64, 6, 6), "ids": np.array([[1, 2, 3], [99, 0, 5]])}
ELEMENTS = sum(int(np.prod(shape)) for name, shape in SHAPES.items() if name[0] != "b")


def network(dtype: str = "float32") -> Model:
    """Five weights, each used in another way."""
    made = {name: numbers(*shape, seed=len(name)) / 8 for name, shape in SHAPES.items()}
    text = NET if dtype == "float32" else NET.replace("float[", "float16[")
    return with_weights(parsed(text), **{name: a.astype(dtype) for name, a in made.items()})


def stored(model: Model, precision: str, **options: Any) -> Model:
    """Its weights compressed."""
    return WeightStorage(model, precision, **options).lower().model  # type: ignore[arg-type]


def bytes_of_weights(package: Path) -> int:
    return (package / "Data" / "com.apple.CoreML" / "weights" / "weight.bin").stat().st_size


def same(model: Model, package: Path, feeds: Any, rtol: float = 1e-4, atol: float = 1e-4) -> None:
    """Asserts that a package gives what the model with compressed weights does."""
    expected = OrtSession(model.graph, plain=True).run(dict(feeds))
    for name, array in run_package(package, feeds).items():
        np.testing.assert_allclose(array, expected[name], rtol=rtol, atol=atol)


def compared(model: Model, step: Legalize) -> Legalized:
    """What the model is for Core ML, compared with it."""
    halves = model.inputs[0].dtype == "float16"
    feeds = FEEDS | {"x": FEEDS["x"].astype(np.float16 if halves else np.float32)}
    probes = build_probes(model, ListedSamples([feeds]), {})
    found = verify_rewrites(model, step, lambda model: probes).legalized
    assert found is not None and found.record is not None and found.record.status == "changed"
    assert (
        "not compared" not in found.record.detail and used_domains(found.graph) <= STANDARD_DOMAINS
    )
    after, before = OrtSession(found.graph).run(feeds), OrtSession(model.graph).run(feeds)
    for name, array in after.items():
        np.testing.assert_allclose(array, before[name], rtol=2e-3, atol=2e-3)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("precision", ["int4-weights", "palettized"])
def test_what_is_kept_packed_is_compared_and_runs(precision: str, dtype: str) -> None:
    step, model = Legalize(18, {}, {}), stored(network(dtype), precision)
    record = compared(model, step).record
    assert not step.undone and record is not None and (record.cosine or 0) > 0.9999
    kind = "DequantizeLinear" if precision == "int4-weights" else "GatherElements"
    assert f"kept packed: 5 {kind}" in record.detail


def test_what_is_packed_wrongly_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model, right = stored(network(), "int4-weights"), compressed._become

    def become(last: Any, kind: str, arrays: list[Any]) -> None:
        spoiled = arrays[0].shape == SHAPES["w1"]
        right(last, kind, [arrays[0], -arrays[1] if spoiled else arrays[1]])

    monkeypatch.setattr(compressed, "_become", become)
    step = Legalize(18, {}, {})
    found = compared(model, step)
    assert list(step.undone) == ["w1_DequantizeLinear"]
    assert sum(node.op_type == "Blocks" for node in found.graph.graph) == 4


@pytest.mark.parametrize(("precision", "options", "target", "kind", "bits"), [
    ("int8-weights", {}, 16, "affine_dequantize", 8.7),
    ("int8-weights", {}, 18, "blockwise_shift_scale", 8.6),
    ("int4-weights", {}, 18, "blockwise_shift_scale", 4.8),
    ("palettized", {"bits": 6}, 17, "lut_to_dense", 6.5),
    ("palettized", {"bits": 4}, 18, "lut_to_dense", 4.4),
    ("palettized", {"bits": 1}, 16, "lut_to_dense", 1.5),
    ("palettized", {"bits": 8}, 18, "lut_to_dense", 9.2),
    ("palettized", {"bits": 4, "grouped": True}, 18, "lut_to_dense", 4.8),
])  # fmt: skip
def test_weights_stay_as_small(tmp_path: Path, precision: str, options: Any, target: int, kind: str,
                               bits: float) -> None:  # fmt: skip
    made = stored(network(), precision, **options)
    path = emitted(made, tmp_path, target=target, precision=precision)
    assert kinds(path).count(f"constexpr_{kind}") == 5 and "transpose" not in kinds(path)
    assert bytes_of_weights(path) * 8 <= ELEMENTS * bits
    same(made, path, FEEDS)


@pytest.mark.parametrize(
    ("precision", "options", "target"),
    [("int4-weights", {}, 15), ("int4-weights", {}, 17), ("palettized", {"grouped": True}, 17)],
)
def test_what_a_system_cannot_unpack_is_computed(tmp_path: Path, precision: str, options: Any,
                                                 target: int) -> None:  # fmt: skip
    """Before iOS16 the numbers themselves are stored, and blocks' before iOS18."""
    made = stored(network(), precision, **options)
    path = emitted(made, tmp_path, target=target)
    assert target > 15 or not any(kind.startswith("constexpr") for kind in kinds(path))
    same(made, path, FEEDS)


@pytest.mark.parametrize("precision", STORED)
def test_beside_float16(precision: str, tmp_path: Path) -> None:
    """What the weights become is float16, as what they are multiplied with."""
    target, kind = STORED[precision]
    made = stored(network("float16"), precision)
    path = emitted(made, tmp_path, target=target, precision=f"fp16+{precision}")
    made_of = [op.outputs[0].type for op in main_block(path).operations if op.type == kind]
    assert [one.tensorType.dataType for one in made_of] == [10] * 5  # FLOAT16 of MIL.proto
    same(made, path, FEEDS | {"x": FEEDS["x"].astype(np.float16)}, 2e-2, 5e-3)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_many_are_unpacked_by_us_as_onnx_runtime_unpacks(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stored(network(dtype), "int8-weights")
    path = emitted(made, tmp_path, target=17, precision="int8-weights")
    feeds = FEEDS | {"x": FEEDS["x"].astype(dtype)}
    before = run_package(path, feeds)
    opened: list[int] = []
    widen = session._widen
    monkeypatch.setattr(session, "_STORED", 0)
    monkeypatch.setattr(session, "_MAPPED", 0)
    monkeypatch.setattr(
        session, "_widen", lambda model: (widen(model), opened.append(model.weight_bytes()))
    )
    for name, array in run_package(path, feeds).items():
        np.testing.assert_allclose(array, before[name], rtol=1e-3, atol=2e-6)
    assert opened[0] >= ELEMENTS * np.dtype(dtype).itemsize


def recurrent(op: str, attributes: str = "") -> Model:
    """Two directions of 32 hidden elements, weights of so many gates."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    model = parsed(f"""
        g (float[s, b, 64] x, float[2, {gates * 32}, 64] w, float[2, {gates * 32}, 32] r,
           float[2, {gates * 64}] c) => (float[s, 2, b, 32] y, float[2, b, 32] h) {{
            y, h = {op} <hidden_size = 32, direction = "bidirectional"{attributes}> (x, w, r, c)
        }}""")
    w, r = (numbers(2, gates * 32, size, seed=size) / 4 for size in (64, 32))
    return with_weights(model, w=w, r=r, c=numbers(2, gates * 64, seed=3))


@pytest.mark.parametrize("precision", STORED)
@pytest.mark.parametrize(
    ("op", "attributes", "own"),
    [("LSTM", "", "lstm"), ("RNN", "", "rnn"), ("LSTM", ", clip = 0.5", "while_loop"),
     ("GRU", "", "while_loop"), ("GRU", ", linear_before_reset = 1", "while_loop")],
)  # fmt: skip
def test_of_recurrent_operators(op: str, attributes: str, own: str, precision: str,
                                tmp_path: Path) -> None:  # fmt: skip
    """Each direction's weights, of the state and of the input; GRU's last gate may be apart. Gates
    that MIL has in another order take their scales and tables with them."""
    target, kind = STORED[precision]
    net = recurrent(op, attributes)
    made = stored(net, precision)
    path = emitted(made, tmp_path, target=target, precision=precision)
    found = kinds(path)
    assert own in found
    assert found.count(kind) == (6 if op == "GRU" and not attributes else 4)
    whole = sum(value.const_value.size for value in net.graph.graph.initializers.values())
    assert bytes_of_weights(path) < whole * 4 * 0.45
    for steps in (1, 6):
        same(made, path, {"x": numbers(steps, 2, 64)})


def test_older_systems_get_the_numbers_of_recurrent_weights(tmp_path: Path) -> None:
    made = stored(recurrent("LSTM"), "int8-weights")
    agree(made, {"x": numbers(3, 2, 64)}, tmp_path, target=15, rtol=1e-4, atol=1e-4)
    assert "constexpr" not in " ".join(kinds(tmp_path / "model.mlpackage"))


def test_a_zero_point_stays_with_its_weight(tmp_path: Path) -> None:
    text = """
    g (float[batch,32] x, uint8[32,40] w, float[40] s, uint8[40] z) => (float[batch,40] y)
    { k = DequantizeLinear <axis=1> (w, s, z) y = MatMul (x, k) }"""
    draw = np.random.default_rng(0)
    weight, zero = (draw.integers(0, 256, shape).astype(np.uint8) for shape in ((32, 40), 40))
    scale = np.linspace(0.01, 0.02, 40, dtype=np.float32)
    x = numbers(3, 32)
    expected = x @ ((weight.astype(np.float32) - zero) * scale)
    model = with_weights(parsed(text), w=weight, s=scale, z=zero)
    for target in (16, 18):
        path = emitted(model, tmp_path / str(target), target=target)
        assert kinds(path)[-1] == "linear"
        np.testing.assert_allclose(run_package(path, {"x": x})["y"], expected, rtol=1e-4, atol=1e-4)


def test_a_scale_for_each_of_two_rows(tmp_path: Path) -> None:
    text = """
    g (float[batch,64] x, int8[2,4,16] w, float[2] s) => (float[batch,2] y)
    <int64[2] flat = {2, 64}>
    { k = DequantizeLinear <axis=0> (w, s) r = Reshape (k, flat)
      t = Transpose <perm=[1,0]> (r) y = MatMul (x, t) }"""
    weight = np.random.default_rng(0).integers(-127, 128, (2, 4, 16)).astype(np.int8)
    scale, x = np.array([0.01, 0.3], np.float32), numbers(3, 64)
    path = emitted(with_weights(parsed(text), w=weight, s=scale), tmp_path, target=16)
    assert any(kind.startswith("constexpr") for kind in kinds(path))
    found = run_package(path, {"x": x})["y"]
    np.testing.assert_allclose(found, x @ (weight.reshape(2, 64).T * scale), rtol=1e-4, atol=1e-4)


def test_a_compressed_weight_before_a_transpose_and_a_bias() -> None:
    model = parsed("""
        g (float[2, 32, 3, 3] x, float[48, 32, 1, 1] w, float[48] c) => (float[2, 3, 3, 48] y) {
            a = Conv(x, w)
            t = Transpose<perm = [0, 2, 3, 1]>(a)
            y = Add(t, c)
        }""")
    model = with_weights(model, w=numbers(48, 32, 1, 1) / 8, c=numbers(48))
    agree(stored(model, "int8-weights"), {"x": numbers(2, 32, 3, 3)})


def test_a_weight_is_stored_once_whichever_branch_has_it(tmp_path: Path) -> None:
    model = parsed("""g (float[2, 64] x, float[64, 64] w, bool c) => (float[2, 64] y) {
        y = If (c) <then_branch = t () => (float[2, 64] p) { a = MatMul(x, w) p = MatMul(a, w) },
                    else_branch = e () => (float[2, 64] q) { q = MatMul(x, w) }>
    }""")
    path = emitted(with_weights(model, w=numbers(64, 64)), tmp_path)
    assert bytes_of_weights(path) < 1.5 * 64 * 64 * 4


@pytest.mark.parametrize("zero", ["", ", z"])
def test_chains_of_constants_that_are_no_weights(zero: str, tmp_path: Path) -> None:
    """A zero point that isn't 0, numbers that aren't real, a chain that is an output."""
    text = f"""
    g (float[batch,12] x, int8[4,6] w, float[4] s, int8[4] z, int64[2,3] t, int64[2,6] i)
      => (float[batch,2] y, int64[12] k, float[24] v)
      <int64[2] a = {{12, 2}}, int64[1] b = {{12}}, int64[1] c = {{24}}>
    {{
      d = DequantizeLinear <axis=0> (w, s{zero})
      m = Reshape (d, a)
      y = MatMul (x, m)
      e = DequantizeLinear <axis=0> (w, s)
      v = Reshape (e, c)
      g = GatherElements <axis=1> (t, i)
      k = Reshape (g, b)
    }}"""
    draw = np.random.default_rng(0)
    given = {"w": draw.integers(-128, 128, (4, 6)).astype(np.int8), "z": np.int8([1, 2, 3, 4])}
    given |= {"s": np.arange(1, 5, dtype="f4") / 100, "t": draw.integers(-9, 9, (2, 3))}
    model = with_weights(parsed(text), **given, i=draw.integers(0, 3, (2, 6)))
    for target in (17, 18):
        agree(model, {"x": numbers(3, 12)}, tmp_path, target=target, rtol=1e-4, atol=1e-4)


# -- what is asked for ---------------------------------------------------------------------


@pytest.mark.parametrize(("target", "options", "said"), [
    (16, {"precision": ["fp32", "int8"]}, "iOS17"),
    (15, {"precision": ["int8-weights"]}, "iOS16"),
    (15, {"precision": ["palettized"]}, "iOS16"),
    (17, {"precision": ["int4-weights"]}, "iOS18"),
    (15, {"precision": ["fp16"], "io_dtype": "float16"}, "iOS16"),
    (15, {"compute_units": "cpu-and-ne"}, "iOS16"),
    (17, {"precision": ["int8-dynamic"]}, "no int8-dynamic"),
    (17, {"precision": ["bf16"]}, "no bf16"),
])  # fmt: skip
def test_what_a_target_lacks_is_refused(target: int, options: Any, said: str) -> None:
    with pytest.raises(UsageError) as error:
        CoremlEmitter().unsupported(network(), request(target, **options), simplified=False)
    assert said in f"{error.value} {error.value.hint}"
    assert said.startswith("no") or "has this only since" in str(error.value)
