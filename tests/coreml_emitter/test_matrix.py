"""MatMul, Gemm, integer products and Det: weights, vectors, free sizes, halves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.coreml_emitter.running import agree, emitted, kinds, numbers, parsed, with_weights

Array = np.ndarray[Any, Any]


def spelled(dtype: str, array: Array) -> str:
    """A type in ONNX's text form, where no brackets mean no axes."""
    return f"{dtype}{list(np.shape(array))}" if np.ndim(array) else dtype


def whole(*shape: int, low: int, high: int, dtype: type = np.int32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


SHAPES = [
    ([3], [3]), ([3], [3, 4]), ([2, 3], [3]), ([3], [2, 3, 4]), ([5, 2, 3], [3]),
    ([2, 3], [3, 4]), ([2, 5, 2, 3], [3, 4]), ([2, 3], [5, 3, 4]), ([5, 1, 2, 3], [4, 3, 2]),
    ([2, 1, 5, 2, 3], [2, 4, 1, 3, 2]),
]  # fmt: skip


@pytest.mark.parametrize("constant", [False, True])
def test_matmul(constant: bool) -> None:
    inputs, outputs, calls = [], [], []
    left, right = {}, {}
    for place, (a, b) in enumerate(SHAPES):
        left[f"a{place}"], right[f"b{place}"] = numbers(*a), numbers(*b, seed=1)
        inputs.append(f"float{a} a{place}, float{b} b{place}")
        outputs.append(f"{spelled('float', np.matmul(np.ones(a), np.ones(b)))} y{place}")
        calls.append(f"y{place} = MatMul(a{place}, b{place})")
    model = parsed(f"g ({', '.join(inputs)}) => ({', '.join(outputs)}) {{ {' '.join(calls)} }}")
    if constant:
        agree(with_weights(model, **right), left)
    else:
        agree(model, {**left, **right})


def test_a_constant_matrix_is_a_weight_with_its_bias(tmp_path: Path) -> None:
    model = parsed("""g (float[b, n, 3] x, float[3, 4] w, float[4] c) => (float[b, n, 4] y)
        { m = MatMul(x, w)  y = Add(m, c) }""")
    made = with_weights(model, w=numbers(3, 4), c=numbers(4, seed=1))
    agree(made, [{"x": numbers(2, n, 3)} for n in (1, 5)], tmp_path)
    assert kinds(tmp_path / "model.mlpackage").count("linear") == 1
    assert "add" not in kinds(tmp_path / "model.mlpackage")


def test_matmul_of_free_sizes_that_broadcast() -> None:
    model = parsed("""g (float[b, 1, m, k] x, float[h, k, n] y) => (float[b, h, m, n] z)
        { z = MatMul(x, y) }""")
    feeds = [{"x": numbers(b, 1, m, 4), "y": numbers(3, 4, 2)} for b, m in ((1, 2), (2, 5))]
    agree(model, feeds)


@pytest.mark.parametrize("target", [16, 17, 18, 26])
def test_halves(target: int, tmp_path: Path) -> None:
    model = parsed("""g (float16[n, 8] x, float16[8, 4] w, float16[4] c) => (float16[n, 4] y)
        { y = Gemm <alpha = 0.5> (x, w, c) }""")
    weights = {"w": numbers(8, 4).astype(np.float16), "c": numbers(4).astype(np.float16)}
    made = with_weights(model, **weights)
    feeds = {"x": numbers(3, 8).astype(np.float16)}
    agree(made, feeds, tmp_path, target=target, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
def test_products_of_integers(dtype: str) -> None:
    model = parsed(
        f"g ({dtype}[n, 3] x, {dtype}[3, 2] w) => ({dtype}[n, 2] y) {{ y = MatMul(x, w) }}"
    )
    kind = np.dtype(dtype).type
    feeds = {
        "x": whole(4, 3, low=0, high=9, dtype=kind),
        "w": whole(3, 2, low=0, high=9, dtype=kind),
    }
    agree(model, feeds)


GEMMS = [
    ("", None), ("transA = 1", []), ("transB = 1", [1]), ("", [4]), ("transB = 1", [1, 4]),
    ("transA = 1, transB = 1", [2, 1]), ("transB = 1", [2, 4]),
]  # fmt: skip


@pytest.mark.parametrize("constant", [False, True])
def test_gemm(constant: bool) -> None:
    inputs, calls, feeds, weights = [], [], {}, {}
    for place, (flags, bias) in enumerate(GEMMS):
        x = feeds[f"x{place}"] = numbers(*((3, 2) if "transA" in flags else (2, 3)))
        own = {f"w{place}": numbers(*((4, 3) if "transB" in flags else (3, 4)), seed=1)}
        if bias is not None:
            own[f"c{place}"] = np.asarray(numbers(*bias, seed=2))
        weights |= own
        inputs += [f"{spelled('float', a)} {name}" for name, a in {f"x{place}": x, **own}.items()]
        settings = ", ".join(["alpha = 0.5, beta = 2.0", *([flags] if flags else [])])
        calls.append(f"y{place} = Gemm <{settings}> (x{place}, {', '.join(own)})")
    outputs = ", ".join(f"float[2, 4] y{place}" for place in range(len(GEMMS)))
    model = parsed(f"g ({', '.join(inputs)}) => ({outputs}) {{ {' '.join(calls)} }}")
    if constant:
        agree(with_weights(model, **weights), feeds)
    else:
        agree(model, {**feeds, **weights})


@pytest.mark.parametrize(("a", "b"), [([], []), ([1], [1]), ([], [2])])
def test_matmul_integer(a: list[int], b: list[int]) -> None:
    p = np.asarray(whole(*a, low=0, high=256, dtype=np.uint8))
    q = np.asarray(whole(*b, low=-128, high=128, dtype=np.int8))
    model = parsed(f"""
        g (uint8[4, 300] x, int8[300, 2] w, {spelled("uint8", p)} p, {spelled("int8", q)} q)
        => (int32[4, 2] y) {{ y = MatMulInteger(x, w, p, q) }}""")
    x = whole(4, 300, low=0, high=256, dtype=np.uint8)
    agree(model, {"x": x, "w": whole(300, 2, low=-128, high=128, dtype=np.int8), "p": p, "q": q})


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_determinants_of_a_free_batch(size: int) -> None:
    model = parsed(f"g (float[b, c, {size}, {size}] x) => (float[b, c] y) {{ y = Det(x) }}")
    agree(model, {"x": numbers(2, 3, size, size)})


@pytest.mark.parametrize("kind", ["spread", "positive", "zeros"])
def test_dynamic_quantize(kind: str) -> None:
    model = parsed("""g (float[n, m] x) => (uint8[n, m] y, float s, uint8 z)
        { y, s, z = DynamicQuantizeLinear(x) }""")
    x = {"spread": numbers(3, 40), "positive": abs(numbers(3, 40)) + 1, "zeros": np.zeros((2, 3))}
    agree(model, {"x": x[kind].astype(np.float32)})


def test_a_weight_of_both_products_is_stored_once(tmp_path: Path) -> None:
    model = parsed("""g (float[2, 64] x, float[64, 64] w) => (float[2, 64] y)
        { a = MatMul(x, w)  y = MatMul(a, w) }""")
    path = emitted(with_weights(model, w=numbers(64, 64)), tmp_path)
    weights = path / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    assert weights.stat().st_size < 1.5 * 64 * 64 * 4


@pytest.mark.parametrize("product", ["MatMul(b, a)", "MatMul(a, b)"])
def test_products_of_a_tensor_and_its_transpose(product: str, tmp_path: Path) -> None:
    """Which coremltools' own passes take one for the other; no transpose is left of them."""
    for size in (3, 2):
        model = parsed(f"""
            g (float[2, 3, {size}] x) => (float[2, p, q] y, float[2, {size}, 3] r) {{
                a = Transpose<perm = [0, 2, 1]>(x)
                b = Transpose<perm = [0, 2, 1]>(a)
                y = {product}
                r = Relu(a)
            }}""")
        agree(model, {"x": numbers(2, 3, size)}, tmp_path)
        assert kinds(tmp_path / "model.mlpackage").count("transpose") == 1


@pytest.mark.parametrize("after", ["Sub(c, a)", "Add(a, c)", "Sub(a, c)", "Add(a, d)"])
def test_a_number_behind_a_product_of_one_column(after: str) -> None:
    """A head that gives one number; a constant of more axes gives them to the result."""
    shape = "2, 6, 1" if "d" not in after[3:] else "1, 2, 6, 1"
    model = parsed(f"""
        g (float[2, 6, 4] x) => (float[{shape}] y)
        <float[4, 1] w = {{1, 2, 3, 4}}, float c = {{2}}, float[1, 1, 1, 1] d = {{2}}> {{
            a = MatMul(x, w)
            y = {after}
        }}""")
    agree(model, {"x": numbers(2, 6, 4)})
