"""Products of matrices, and attention: values by numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, Case, agrees, check, compute, drawing, network, op

F = np.float32
REAL = drawing(4, -2, 2)
WEIGHT, BIAS, WIDE = REAL(4, 5), REAL(4), REAL(2, 3, 4, 5)


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5)])
def test_linear(shape: tuple[int, ...]) -> None:
    x = drawing(1)(*shape)
    with_bias = op.linear(weight=WEIGHT, bias=BIAS), x @ WEIGHT.T + BIAS
    check([with_bias, (op.linear(weight=WEIGHT), x @ WEIGHT.T)], {"x": x})


def test_linear_of_float16_with_weights_of_float32() -> None:
    x = WIDE.astype(np.float16)
    expected = (x.astype(F) @ WEIGHT.T + BIAS).astype(np.float16)
    check([(op.linear(weight=WEIGHT, bias=BIAS), expected)], {"x": x}, 5e-3)


def test_products_in_a_network(tmp_path: Path) -> None:
    turned = np.ascontiguousarray(WEIGHT.T)
    cases: list[Case] = [
        (op.linear("z", weight=WEIGHT, bias=BIAS), WIDE[0] @ WEIGHT.T + BIAS, "innerProduct"),
        (op.matmul("x", "x", transpose_y=True), WIDE @ WIDE.swapaxes(2, 3), "batchedMatmul"),
        (op.matmul("x", y=turned), WIDE @ turned, "batchedMatmul"),
    ]
    network(tmp_path, cases, {"x": WIDE, "z": WIDE[0]}, 1e-4)


TRANSPOSED = {"transpose_x": True, "transpose_y": True}


@pytest.mark.parametrize(
    ("left", "right", "how"),
    [
        ((3, 4), (4, 5), {}),
        ((10, 4, 3), (5, 10, 3, 2), {}),
        ((4,), (10, 4, 3), {}),
        ((2, 3, 4), (4, 1), {}),
        ((2, 4, 3), (2, 5, 4), TRANSPOSED),
    ],
)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...], how: Any) -> None:
    x, y = drawing(2)(*left), drawing(3)(*right)
    expected = x.swapaxes(1, 2) @ y.swapaxes(1, 2) if how else x @ y
    check([(op.matmul(**how), expected)], {"x": x, "y": y})


def test_matmul_of_integers() -> None:
    x = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
    check([(op.matmul("x", "x", transpose_y=True), x @ x.T)], {"x": x})


@pytest.mark.parametrize("one", [np.int32, np.float16, np.float32])
@pytest.mark.parametrize("other", [np.int32, np.float16, np.float32])
def test_matmul_by_a_constant_of_another_type(one: Any, other: Any) -> None:
    """The product is of the type of what is computed."""
    left, right = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)
    x, y = left.astype(one), right.astype(other)
    cases: list[Case] = [
        (op.matmul("x", y=y), (left @ right).astype(one)),
        (lambda mb, x, y, left=x: mb.matmul(x=left, y=y), (left @ right).astype(other)),
    ]
    check(cases, {"x": x, "y": y})


@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("nchw,nwhu->nchu", (2, 3, 4, 5), (2, 5, 4, 6)),
        ("abcd,adce->abce", (2, 3, 1, 5), (1, 5, 4, 6)),
        ("chw,whr->chr", (3, 4, 5), (5, 4, 6)),
    ],
)
def test_einsum(equation: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = drawing(2)(*left), drawing(3)(*right)
    (found,) = compute(
        lambda mb, x, y: mb.einsum(values=(x, y), equation=equation), {"x": x, "y": y}
    )
    agrees(found, (x.swapaxes(-2, -3) @ y.swapaxes(-2, -3)).swapaxes(-2, -3))


def attention(q: Any, k: Any, v: Any, mask: Array | None) -> Array:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y: Array = weights / weights.sum(-1, keepdims=True) @ v
    return y


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("shape", [(2, 4, 8), (2, 3, 4, 8)])
def test_attention(shape: tuple[int, ...], dtype: Any) -> None:
    """Without a mask, with a mask of truths, and with numbers that are added."""
    draw = drawing(9)
    q = draw(*shape).astype(dtype)
    k, v = (draw(*shape[:-2], 5, shape[-1]).astype(dtype) for _ in range(2))
    m = draw(4, 5).astype(dtype)
    m[:, 0] = 1

    def body(mb: Any, q: Any, k: Any, v: Any, m: Any) -> Any:
        masks: list[Any] = [{}] + [{"attn_mask": n} for n in (mb.greater(x=m, y=dtype(0)), m)]
        given = {"query": q, "key": k, "value": v}
        return [mb.scaled_dot_product_attention(**given, **mask) for mask in masks]

    wide = [array.astype(np.float64) for array in (q, k, v)]
    expected = [attention(*wide, mask) for mask in (None, np.where(m > 0, 0, -np.inf), m)]
    free = {"q": [0], "k": [0], "v": [0]}
    check([(body, expected)], {"q": q, "k": k, "v": v, "m": m}, target=18, free=free)
