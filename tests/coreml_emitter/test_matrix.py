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
    return f"{dtype}{list(array.shape)}" if array.ndim else dtype


def whole(*shape: int, low: int, high: int, dtype: type = np.int32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


@pytest.mark.parametrize(
    ("a", "b", "constant"),
    [
        ([3], [3], False), ([3], [3, 4], False), ([3], [3, 4], True), ([2, 3], [3], False),
        ([3], [2, 3, 4], False), ([5, 2, 3], [3], True), ([2, 3], [3, 4], True),
        ([2, 5, 2, 3], [3, 4], True), ([2, 3], [5, 3, 4], False), ([5, 1, 2, 3], [4, 3, 2], False),
        ([2, 1, 5, 2, 3], [2, 4, 1, 3, 2], False),
    ],
)  # fmt: skip
def test_matmul(a: list[int], b: list[int], constant: bool) -> None:
    rank = np.matmul(np.zeros(a), np.zeros(b)).ndim
    result = ", ".join(f"d{i}" for i in range(rank))
    model = parsed(f"g (float{a} a, float{b} b) => (float[{result}] y) {{ y = MatMul(a, b) }}")
    x, y = numbers(*a), numbers(*b, seed=1)
    if constant:
        model = with_weights(model, b=y)
    agree(model, {"a": x} if constant else {"a": x, "b": y})


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


@pytest.mark.parametrize(
    ("flags", "bias"),
    [
        ("", None), ("transA = 1", []), ("transB = 1", [1]), ("", [4]), ("transB = 1", [1, 4]),
        ("transA = 1, transB = 1", [2, 1]), ("transB = 1", [2, 4]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("constant", [False, True])
def test_gemm(flags: str, bias: list[int] | None, constant: bool) -> None:
    x = numbers(*((3, 2) if "transA" in flags else (2, 3)))
    w = numbers(*((4, 3) if "transB" in flags else (3, 4)), seed=1)
    c = None if bias is None else np.asarray(numbers(*bias, seed=2))
    inputs = f"{spelled('float', x)} x, {spelled('float', w)} w"
    inputs += "" if c is None else f", {spelled('float', c)} c"
    attributes = ", ".join(["alpha = 0.5, beta = 2.0", *([flags] if flags else [])])
    names = "x, w" if c is None else "x, w, c"
    model = parsed(f"g ({inputs}) => (float[2, 4] y) {{ y = Gemm <{attributes}> ({names}) }}")
    weights = {"w": w} if c is None else {"w": w, "c": c}
    if constant:
        agree(with_weights(model, **weights), {"x": x})
    else:
        agree(model, {"x": x, **weights})


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
