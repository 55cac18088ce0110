"""Weights that stay compressed in the package, and what older systems lack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter.errors import UsageError
from converter.ir import Model
from converter.ort import OrtSession
from converter.quantize.weight_only_storage import WeightStorage
from tests.coreml_emitter.running import (
    agree,
    emitted,
    kinds,
    lowered,
    numbers,
    parsed,
    request,
    run_package,
    with_weights,
)

# -- weights -------------------------------------------------------------------------------

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


@pytest.fixture(scope="module")
def net() -> Model:
    made = {name: numbers(*shape, seed=len(name)) / 8 for name, shape in SHAPES.items()}
    return with_weights(parsed(NET), **made)


def _weights_of(package: Path) -> int:
    return (package / "Data" / "com.apple.CoreML" / "weights" / "weight.bin").stat().st_size


@pytest.mark.parametrize(
    ("precision", "options", "target", "kind", "bits"),
    [
        ("int8-weights", {}, 16, "constexpr_affine_dequantize", 8.7),
        ("int8-weights", {}, 18, "constexpr_blockwise_shift_scale", 8.6),
        ("int4-weights", {}, 18, "constexpr_blockwise_shift_scale", 4.8),
        ("palettized", {"bits": 6}, 17, "constexpr_lut_to_dense", 6.5),
        ("palettized", {"bits": 4}, 18, "constexpr_lut_to_dense", 4.4),
        ("palettized", {"bits": 1}, 16, "constexpr_lut_to_dense", 1.5),
        ("palettized", {"bits": 8}, 18, "constexpr_lut_to_dense", 9.2),
        ("palettized", {"bits": 4, "grouped": True}, 18, "constexpr_lut_to_dense", 4.8),
    ],
)
def test_weights_stay_as_small(
    net: Model,
    tmp_path: Path,
    precision: str,
    options: dict[str, int],
    target: int,
    kind: str,
    bits: float,
) -> None:
    made = WeightStorage(net, precision, **options).lower().model  # type: ignore[arg-type]
    path = emitted(made, tmp_path, target=target, precision=precision)
    assert kinds(path).count(kind) == 5 and "transpose" not in kinds(path)
    assert _weights_of(path) * 8 <= ELEMENTS * bits
    expected = OrtSession(made.graph, plain=True).run(FEEDS)
    for name, array in run_package(path, FEEDS).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-4)


def test_iOS15_gets_the_numbers_themselves(net: Model, tmp_path: Path) -> None:
    made = WeightStorage(net, "int4-weights").lower().model
    path = emitted(made, tmp_path, target=15)
    assert not any(kind.startswith("constexpr") for kind in kinds(path))


@pytest.mark.parametrize(
    ("precision", "options"), [("int4-weights", {}), ("palettized", {"grouped": True})]
)
def test_blocks_are_computed_before_iOS18(
    net: Model, tmp_path: Path, precision: str, options: dict[str, bool]
) -> None:
    made = WeightStorage(net, precision, **options).lower().model  # type: ignore[arg-type]
    path = emitted(made, tmp_path, target=17)
    expected = OrtSession(made.graph, plain=True).run(FEEDS)
    for name, array in run_package(path, FEEDS).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-4)


def test_a_zero_point_stays_with_its_weight(tmp_path: Path) -> None:
    text = """
    g (float[batch,32] x, uint8[32,40] w, float[40] s, uint8[40] z) => (float[batch,40] y)
    { k = DequantizeLinear <axis=1> (w, s, z) y = MatMul (x, k) }"""
    draw = np.random.default_rng(0)
    stored = draw.integers(0, 256, (32, 40)).astype(np.uint8)
    zero = draw.integers(0, 256, 40).astype(np.uint8)
    scale = np.linspace(0.01, 0.02, 40, dtype=np.float32)
    x = numbers(3, 32)
    expected = x @ ((stored.astype(np.float32) - zero) * scale)
    model = with_weights(parsed(text), w=stored, s=scale, z=zero)
    for target in (16, 18):
        path = emitted(model, tmp_path / str(target), target=target)
        assert kinds(path)[-1] == "linear"
        found = run_package(path, {"x": x})["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


# -- what is asked for ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("precision", "target", "oldest"),
    [
        ("int8", 16, "iOS17"),
        ("int8-weights", 15, "iOS16"),
        ("palettized", 15, "iOS16"),
        ("int4-weights", 17, "iOS18"),
    ],
)
def test_older_systems_lack_it(precision: str, target: int, oldest: str) -> None:
    from emitters.coreml.options import require_possible

    with pytest.raises(UsageError, match=oldest):
        require_possible(request(target, precision=[precision]))


def test_there_is_no_int8_dynamic_and_no_bf16() -> None:
    from emitters.coreml.options import require_possible

    for precision in ("int8-dynamic", "bf16"):
        with pytest.raises(UsageError, match=f"no {precision}"):
            require_possible(request(precision=[precision]))


def test_float16_borders(tmp_path: Path) -> None:
    text = "g (float16[batch,8] x, float16[8,8] w) => (float16[batch,8] y) { y = MatMul (x, w) }"
    model = with_weights(parsed(text), w=numbers(8, 8).astype(np.float16))
    assert not lowered(model).refusals
    found = agree(model, {"x": numbers(3, 8).astype(np.float16)}, tmp_path, rtol=2e-2, atol=2e-2)
    assert found["y"].dtype == np.float16


@pytest.mark.parametrize("zero", ["", ", z"])
def test_chains_of_constants_that_are_no_weights(zero: str, tmp_path: Path) -> None:
    """A zero point that isn't 0, numbers that aren't real, a chain that is an output."""
    text = f"""
    g (float[batch,12] x, int8[4,6] w, float[4] s, int8[4] z, int64[2,3] t, int64[2,6] i)
      => (float[batch,2] y, int64[12] k, float[24] v)
    {{
      a = Constant <value_ints=[12,2]> ()
      b = Constant <value_ints=[12]> ()
      c = Constant <value_ints=[24]> ()
      d = DequantizeLinear <axis=0> (w, s{zero})
      m = Reshape (d, a)
      y = MatMul (x, m)
      e = DequantizeLinear <axis=0> (w, s)
      v = Reshape (e, c)
      g = GatherElements <axis=1> (t, i)
      k = Reshape (g, b)
    }}"""
    draw = np.random.default_rng(0)
    model = with_weights(
        parsed(text),
        w=draw.integers(-128, 128, (4, 6)).astype(np.int8),
        s=np.array([0.01, 0.02, 0.03, 0.04], np.float32),
        z=np.array([1, 2, 3, 4], np.int8),
        t=draw.integers(-9, 9, (2, 3)),
        i=draw.integers(0, 3, (2, 6)),
    )
    for target in (17, 18):
        agree(model, {"x": numbers(3, 12)}, tmp_path, target=target, rtol=1e-4, atol=1e-4)
