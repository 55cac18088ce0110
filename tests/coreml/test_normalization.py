"""Normalizations: values by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from converter.errors import UnsupportedError
from tests.coreml.running import Array, agrees, compute

RNG = np.random.default_rng(5)
X = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
GAMMA, BETA = (RNG.uniform(0.5, 1.5, 3).astype(np.float32) for _ in range(2))
MEAN, VARIANCE = (RNG.uniform(0.5, 1.5, 3).astype(np.float32) for _ in range(2))


def _each(array: Array) -> Array:
    return array.reshape(1, 3, 1, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_batch_norm(dtype: Any) -> None:
    numbers = {"mean": MEAN.astype(dtype), "variance": VARIANCE.astype(dtype)}

    def body(mb: Any, x: Any) -> list[Any]:
        scale = {"gamma": GAMMA.astype(dtype), "beta": BETA.astype(dtype)}
        return [
            mb.batch_norm(x=x, **numbers, **scale, epsilon=dtype(0.01)),
            mb.batch_norm(x=x, **numbers),
        ]

    x = X.astype(dtype)
    found = compute(body, {"x": x})
    wide = x.astype(np.float64)
    normal = (wide - _each(MEAN)) / np.sqrt(_each(VARIANCE) + 0.01) * _each(GAMMA) + _each(BETA)
    bound = 5e-3 if dtype is np.float16 else None
    agrees(found[0], normal.astype(dtype), bound)
    plain = (wide - _each(MEAN)) / np.sqrt(_each(VARIANCE) + 1e-5)
    agrees(found[1], plain.astype(dtype), bound)


def test_instance_norm() -> None:
    def body(mb: Any, x: Any) -> list[Any]:
        numbers = {"gamma": GAMMA, "beta": BETA}
        return [mb.instance_norm(x=x, **numbers, epsilon=np.float32(0.1)), mb.instance_norm(x=x)]

    found = compute(body, {"x": X})
    mean, variance = X.mean(axis=(2, 3), keepdims=True), X.var(axis=(2, 3), keepdims=True)
    wanted = (X - mean) / np.sqrt(variance + 0.1) * _each(GAMMA) + _each(BETA)
    agrees(found[0], wanted.astype(np.float32))
    agrees(found[1], ((X - mean) / np.sqrt(variance + 1e-5)).astype(np.float32))


@pytest.mark.parametrize("axes", [[-1], [2, 3], [1], [1, 3], [0, 1, 2, 3]])
def test_layer_norm(axes: list[int]) -> None:
    over = tuple(axes)
    sizes = [X.shape[axis] for axis in axes]
    gamma, beta = (RNG.uniform(0.5, 1.5, sizes).astype(np.float32) for _ in range(2))

    def body(mb: Any, x: Any) -> list[Any]:
        named = mb.layer_norm(x=x, axes=axes, gamma=gamma, beta=beta, epsilon=np.float32(0.1))
        return [named, mb.layer_norm(x=x, axes=axes)]

    found = compute(body, {"x": X})
    mean, variance = X.mean(axis=over, keepdims=True), X.var(axis=over, keepdims=True)
    spread = [X.shape[axis] if axis in [a % 4 for a in axes] else 1 for axis in range(4)]
    wanted = (X - mean) / np.sqrt(variance + 0.1) * gamma.reshape(spread) + beta.reshape(spread)
    agrees(found[0], wanted.astype(np.float32))
    agrees(found[1], ((X - mean) / np.sqrt(variance + 1e-5)).astype(np.float32))


def test_layer_norm_of_a_free_size() -> None:
    (found,) = compute(lambda mb, x: mb.layer_norm(x=x, axes=[3]), {"x": X}, free={"x": [3]})
    mean, variance = X.mean(axis=3, keepdims=True), X.var(axis=3, keepdims=True)
    agrees(found, ((X - mean) / np.sqrt(variance + 1e-5)).astype(np.float32))


def test_layer_norm_of_float16() -> None:
    x = (X * 200).astype(np.float16)  # whose squares float16 can't hold
    (found,) = compute(lambda mb, x: mb.layer_norm(x=x, axes=[1]), {"x": x})
    wide = x.astype(np.float64)
    mean, variance = wide.mean(axis=1, keepdims=True), wide.var(axis=1, keepdims=True)
    agrees(found, ((wide - mean) / np.sqrt(variance + 1e-5)).astype(np.float16), 4e-3)


def test_l2_norm() -> None:
    (found,) = compute(lambda mb, x: mb.l2_norm(x=x, epsilon=np.float32(0.5)), {"x": X})
    squares = np.square(X).sum(axis=(1, 2, 3), keepdims=True)
    agrees(found, (X / np.sqrt(squares + 0.5)).astype(np.float32))


@pytest.mark.parametrize("shape", [(2, 7, 4, 5), (2, 7, 4), (2, 7, 4, 3, 2)])
def test_local_response_norm(shape: tuple[int, ...]) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    numbers = {"alpha": np.float32(0.5), "beta": np.float32(0.6), "k": np.float32(1.5)}
    (found,) = compute(lambda mb, x: mb.local_response_norm(x=x, size=3, **numbers), {"x": x})
    padded = np.pad(np.square(x), [(0, 0), (1, 1)] + [(0, 0)] * (len(shape) - 2))
    around = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    agrees(found, (x / (1.5 + 0.5 / 3 * around) ** 0.6).astype(np.float32))


def test_local_response_norm_of_an_even_size_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="which side"):
        compute(lambda mb, x: mb.local_response_norm(x=x, size=2), {"x": X})
