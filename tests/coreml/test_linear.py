"""Products of matrices: values by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from converter.errors import UnsupportedError
from tests.coreml.running import agrees, compute

RNG = np.random.default_rng(4)


def _real(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5)])
def test_linear(shape: tuple[int, ...]) -> None:
    x, weight, bias = _real(*shape), _real(4, 5), _real(4)

    def body(mb: Any, x: Any) -> list[Any]:
        return [mb.linear(x=x, weight=weight, bias=bias), mb.linear(x=x, weight=weight)]

    found = compute(body, {"x": x})
    agrees(found[0], x @ weight.T + bias)
    agrees(found[1], x @ weight.T)


def test_linear_of_float16_with_weights_of_float32() -> None:
    x, weight, bias = _real(2, 5).astype(np.float16), _real(4, 5), _real(4)
    (found,) = compute(lambda mb, x: mb.linear(x=x, weight=weight, bias=bias), {"x": x})
    agrees(found, (x.astype(np.float32) @ weight.T + bias).astype(np.float16), 5e-3)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4, 5)), ((10, 4, 3), (5, 10, 3, 2)), ((4,), (10, 4, 3)), ((2, 3, 4), (4, 1))],
)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = _real(*left), _real(*right)
    (found,) = compute(lambda mb, x, y: mb.matmul(x=x, y=y), {"x": x, "y": y})
    agrees(found, x @ y)


def test_matmul_of_transposed_operands() -> None:
    x, y = _real(2, 4, 3), _real(2, 5, 4)

    def body(mb: Any, x: Any, y: Any) -> Any:
        return mb.matmul(x=x, y=y, transpose_x=True, transpose_y=True)

    (found,) = compute(body, {"x": x, "y": y})
    agrees(found, x.swapaxes(1, 2) @ y.swapaxes(1, 2))


def test_matmul_of_integers() -> None:
    x = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
    (found,) = compute(lambda mb, x: mb.matmul(x=x, y=x, transpose_y=True), {"x": x})
    agrees(found, x @ x.T)


@pytest.mark.parametrize("one", [np.int32, np.float16, np.float32])
@pytest.mark.parametrize("other", [np.int32, np.float16, np.float32])
def test_matmul_by_a_constant_of_another_type(one: Any, other: Any) -> None:
    """The product is of the type of what is computed."""
    left, right = np.arange(6).reshape(2, 3).astype(one), np.arange(12).reshape(3, 4).astype(other)
    product = np.arange(6).reshape(2, 3) @ np.arange(12).reshape(3, 4)
    (found,) = compute(lambda mb, x: mb.matmul(x=x, y=right), {"x": left})
    agrees(found, product.astype(one))
    (found,) = compute(lambda mb, y: mb.matmul(x=left, y=y), {"y": right})
    agrees(found, product.astype(other))


def test_matmul_of_integers_by_fractions_is_refused() -> None:
    half = np.full((3, 2), 0.5, np.float32)
    with pytest.raises(UnsupportedError, match="fractions"):
        compute(lambda mb, x: mb.matmul(x=x, y=half), {"x": np.ones((2, 3), np.int32)})


@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("nchw,nwhu->nchu", (2, 3, 4, 5), (2, 5, 4, 6)),
        ("abcd,adce->abce", (2, 3, 1, 5), (1, 5, 4, 6)),
        ("chw,whr->chr", (3, 4, 5), (5, 4, 6)),
    ],
)
def test_einsum(equation: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = _real(*left), _real(*right)

    def body(mb: Any, x: Any, y: Any) -> Any:
        return mb.einsum(values=(x, y), equation=equation)

    (found,) = compute(body, {"x": x, "y": y})
    swapped = x.swapaxes(-2, -3) @ y.swapaxes(-2, -3)
    agrees(found, swapped.swapaxes(-2, -3))
