"""Activations: values by numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, agrees, compute

X = np.random.default_rng(1).uniform(-4, 4, (2, 3, 4, 5)).astype(np.float32)
ALPHA = np.array([0.1, 0.5, 1.5], np.float32)
BETA = np.array([0.7, -0.3, 2.0], np.float32)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _program(mb: Any, x: Any, number: Any, channels: Any) -> list[Any]:
    return [
        mb.relu(x=x),
        mb.relu6(x=x),
        mb.sigmoid(x=x),
        mb.silu(x=x),
        mb.softplus(x=x),
        mb.softsign(x=x),
        mb.elu(x=x, alpha=number(0.5)),
        mb.leaky_relu(x=x, alpha=number(0.25)),
        mb.sigmoid_hard(x=x, alpha=number(0.25), beta=number(0.5)),
        mb.clamped_relu(x=x, alpha=number(0.25), beta=number(1.5)),
        mb.linear_activation(x=x, alpha=number(0.25), beta=number(0.5)),
        mb.scaled_tanh(x=x, alpha=number(0.25), beta=number(0.5)),
        mb.thresholded_relu(x=x, alpha=number(0.5)),
        mb.prelu(x=x, alpha=channels(ALPHA)),
        mb.softplus_parametric(x=x, alpha=channels(ALPHA), beta=channels(BETA)),
        mb.softmax(x=x),
        mb.softmax(x=x, axis=1),
        mb.gelu(x=x),
        mb.gelu(x=x, mode="TANH_APPROXIMATION"),
        mb.gelu(x=x, mode="SIGMOID_APPROXIMATION"),
    ]


def _expected(x: Array) -> list[Array]:
    alpha, beta = (ALPHA.reshape(1, 3, 1, 1), BETA.reshape(1, 3, 1, 1))
    power = np.exp(x - x.max())
    tanh = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return [
        np.maximum(x, 0),
        np.clip(x, 0, 6),
        _sigmoid(x),
        x * _sigmoid(x),
        np.log1p(np.exp(x)),
        x / (1 + np.abs(x)),
        np.where(x > 0, x, 0.5 * (np.exp(x) - 1)),
        np.where(x > 0, x, 0.25 * x),
        np.clip(0.25 * x + 0.5, 0, 1),
        np.minimum(np.where(x >= 0, x, 0.25 * x), 1.5),
        0.25 * x + 0.5,
        0.25 * np.tanh(0.5 * x),
        np.where(x >= 0.5, x, 0),
        np.where(x > 0, x, alpha * x),
        alpha * np.log1p(np.exp(beta * x)),
        power / power.sum(axis=-1, keepdims=True),
        power / power.sum(axis=1, keepdims=True),
        0.5 * x * (1 + _erf(x / np.sqrt(2))),
        0.5 * x * (1 + tanh),
        x * _sigmoid(1.702 * x),
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_all(dtype: Any) -> None:
    def body(mb: Any, x: Any) -> list[Any]:
        return _program(mb, x, dtype, lambda array: array.astype(dtype))

    x = X.astype(dtype)
    expected = _expected(x.astype(np.float64))
    for found, wanted in zip(compute(body, {"x": x}), expected, strict=True):
        agrees(found, wanted.astype(dtype), 4e-3 if dtype is np.float16 else 1e-5)


def test_numbers_of_another_type_from_ios17_on() -> None:
    def body(mb: Any, x: Any) -> list[Any]:
        return _program(mb, x, np.float32, lambda array: array)

    x = X.astype(np.float16)
    expected = _expected(x.astype(np.float64))
    for found, wanted in zip(compute(body, {"x": x}, target=17), expected, strict=True):
        agrees(found, wanted.astype(np.float16), 4e-3)


def test_at_the_threshold_itself() -> None:
    x = np.array([0.25, 0.5, 0.75], np.float32)
    (found,) = compute(lambda mb, x: mb.thresholded_relu(x=x, alpha=np.float32(0.5)), {"x": x})
    agrees(found, np.array([0, 0.5, 0.75], np.float32))


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 2, 2, 2)])
def test_prelu_of_other_ranks(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    slope = np.full(3, 0.2, np.float32)
    (found,) = compute(lambda mb, x: mb.prelu(x=x, alpha=slope), {"x": x})
    agrees(found, np.where(x > 0, x, np.float32(0.2) * x))
