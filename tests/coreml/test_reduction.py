"""Reductions, and normalizations by what they give: values by numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, Case, agrees, cast, check, compute, drawing, network, op

F = np.float32
REAL, POSITIVE = drawing(5, -2, 2), drawing(3, 0.2, 2)
X = REAL(2, 3, 4, 5)
SMALL = POSITIVE(2, 3, 4)
GAMMA, BETA, MEAN, VARIANCE = (POSITIVE(3) for _ in range(4))

OVER: dict[str, Callable[..., Any]] = {
    "l1_norm": lambda x, **how: np.abs(x).sum(**how),
    "l2_norm": lambda x, **how: np.sqrt(np.square(x).sum(**how)),
    "log_sum": lambda x, **how: np.log(np.abs(x.sum(**how))),
    "log_sum_exp": lambda x, **how: np.log(np.exp(x).sum(**how)),
    "max": np.max,
    "mean": np.mean,
    "min": np.min,
    "prod": np.prod,
    "sum": np.sum,
    "sum_square": lambda x, **how: np.square(x).sum(**how),
}
LAYERS = {"log_sum": ()} | {
    name: (f"reduce{''.join(word.capitalize() for word in name.split('_')).replace('Norm', '')}",)
    for name in OVER
    if name != "log_sum"
}
"""The kinds of layers, of those that are one."""


def reductions(x: Array, axes: list[int] | None, keep: bool) -> list[Case]:
    how = {"keep_dims": keep} | ({} if axes is None else {"axes": axes})
    over = {"axis": None if axes is None else tuple(axes), "keepdims": keep}
    wide = x.astype(np.float64)
    return [
        (getattr(op, f"reduce_{name}")(**how), expected(wide, **over), *LAYERS[name])
        for name, expected in OVER.items()
    ]


@pytest.mark.parametrize(
    ("axes", "keep", "dtype"),
    [
        *[(axes, keep, np.float32) for axes in ([1], [0, -1]) for keep in (True, False)],
        (None, True, np.float32),
        ([1, 2], False, np.float16),
    ],
)
def test_reductions(axes: list[int] | None, keep: bool, dtype: Any) -> None:
    x = SMALL.astype(dtype)
    check(reductions(x, axes, keep), {"x": x})


@pytest.mark.parametrize(("axes", "keep"), [([1, 3], False), ([2], True)])
def test_reductions_in_a_network(tmp_path: Path, axes: list[int], keep: bool) -> None:
    which = cast(op.reduce_argmax(axis=1), "fp32"), X.argmax(1), "argMax"
    network(tmp_path, [*reductions(X, axes, keep), which], {"x": X}, 1e-4)


def test_integers_and_where_the_largest_is() -> None:
    x = np.array([[1, -2, 3], [4, 5, -6]], np.int32)
    most = op.reduce_max(axes=[0], keep_dims=True), x.max(0, keepdims=True)
    check([(op.reduce_sum(axes=[1]), x.sum(1)), most], {"x": x})
    cases = [
        (op.reduce_argmax(), X.argmax(-1)),
        (op.reduce_argmin(axis=1, keep_dims=True), X.argmin(1, keepdims=True)),
        (cast(op.reduce_argmax(axis=0, output_dtype="uint16")), X.argmax(0)),
    ]
    check(cases, {"x": X})


# -- normalizations ----------------------------------------------------------------------


def normal(x: Array, axes: tuple[int, ...], epsilon: float = 1e-5) -> Array:
    """Without its mean, by its deviation over axes."""
    wide = x.astype(np.float64)
    mean, variance = wide.mean(axis=axes, keepdims=True), wide.var(axis=axes, keepdims=True)
    return np.asarray((wide - mean) / np.sqrt(variance + epsilon))


def each(array: Array) -> Array:
    return array.astype(np.float64).reshape(1, 3, 1, 1)


def by_numbers(x: Array) -> list[Case]:
    """Batch and instance normalization."""
    dtype = x.dtype.type
    numbers = {"mean": MEAN.astype(dtype), "variance": VARIANCE.astype(dtype)}
    scale = {"gamma": GAMMA.astype(dtype), "beta": BETA.astype(dtype)}
    told = scale | {"epsilon": dtype(0.01)}
    less, spread = x.astype(np.float64) - each(MEAN), each(VARIANCE)
    scaled = less / np.sqrt(spread + 0.01) * each(GAMMA) + each(BETA)
    alone = normal(x, (2, 3), 0.01) * each(GAMMA) + each(BETA)
    return [
        (op.batch_norm(**numbers, **told), scaled, "batchnorm"),
        (op.batch_norm(**numbers), less / np.sqrt(spread + 1e-5), "batchnorm"),
        (op.instance_norm(**told), alone),
        (op.instance_norm(), normal(x, (2, 3)), "batchnorm"),
    ]


def by_squares(x: Array) -> list[Case]:
    """L2 and local response normalization."""
    squares = np.square(x.astype(np.float64))
    padded = np.pad(squares, [(0, 0), (1, 1), (0, 0), (0, 0)])
    around = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    total = squares.sum(axis=(1, 2, 3), keepdims=True)
    return [
        (op.l2_norm(epsilon=F(0.5)), x / np.sqrt(total + 0.5), "l2normalize"),
        (op.l2_norm(), x / np.sqrt(total + 1e-6), "l2normalize"),
        (op.local_response_norm(size=3), x / (1 + 1e-4 / 3 * around) ** 0.75, "lrn"),
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_batch_and_instance_norm(dtype: Any) -> None:
    x = X.astype(dtype)
    check(by_numbers(x), {"x": x}, 5e-3 if dtype is np.float16 else None)


def test_l2_norm() -> None:
    check(by_squares(X), {"x": X})


def test_normalizations_in_a_network(tmp_path: Path) -> None:
    network(tmp_path, by_numbers(X) + by_squares(X), {"x": X})


@pytest.mark.parametrize("axes", [[-1], [2, 3], [1], [1, 3], [0, 1, 2, 3]])
def test_layer_norm(axes: list[int]) -> None:
    sizes = [X.shape[axis] for axis in axes]
    spread = [X.shape[at] if at in [a % 4 for a in axes] else 1 for at in range(4)]
    chance = drawing(7, 0.5, 1.5)
    gamma, beta = chance(*sizes), chance(*sizes)
    scaled = normal(X, tuple(axes), 0.1) * gamma.reshape(spread) + beta.reshape(spread)
    cases = [
        (op.layer_norm(axes=axes, gamma=gamma, beta=beta, epsilon=F(0.1)), scaled),
        (op.layer_norm(axes=axes), normal(X, tuple(axes))),
    ]
    check(cases, {"x": X})


def test_layer_norm_of_a_free_size_and_of_float16() -> None:
    check([(op.layer_norm(axes=[3]), normal(X, (3,)))], {"x": X}, free={"x": [3]})
    x = (X * 200).astype(np.float16)  # whose squares float16 can't hold
    check([(op.layer_norm(axes=[1]), normal(x, (1,)))], {"x": x}, 4e-3)


@pytest.mark.parametrize("shape", [(2, 7, 4, 5), (2, 7, 4), (2, 7, 4, 3, 2)])
def test_local_response_norm(shape: tuple[int, ...]) -> None:
    x = drawing(6, -2, 2)(*shape)
    (found,) = compute(
        op.local_response_norm(size=3, alpha=F(0.5), beta=F(0.6), k=F(1.5)), {"x": x}
    )
    padded = np.pad(np.square(x), [(0, 0), (1, 1)] + [(0, 0)] * (len(shape) - 2))
    around = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    agrees(found, (x / (1.5 + 0.5 / 3 * around) ** 0.6).astype(F))
