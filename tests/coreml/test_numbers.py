"""Numbers at their limits: integers, fractions that are rounded, epsilons, other types; values by
numpy. What operations give of usual numbers, coremltools' own tests say (library_expectations)."""

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, Case, agrees, as_numpy, cast, check, compute, drawing, op

RNG = np.random.default_rng(0)
F = np.float32
REAL = RNG.uniform(-3, 3, (2, 3, 4, 5)).astype(F)
POSITIVE = RNG.uniform(0.1, 4, (2, 3, 4, 5)).astype(F)
DIVISOR = RNG.uniform(0.5, 2, (4, 1)).astype(F) * np.array([[1], [-1], [1], [-1]], F)
WHOLE = np.array([[-7, -6, -1, 0, 5, 7], [7, 2, -8, 3, 6, -2]], np.int32)
X = drawing(5, -2, 2)(2, 3, 4, 5)


def test_two_operands() -> None:
    """Signs that differ, and powers that are fractions."""
    x, y, p = REAL, DIVISOR, POSITIVE
    cases = as_numpy("real_div:divide floor_div:floor_divide mod maximum minimum", x=x, y=y)
    check(cases + as_numpy("pow:power", p=p, y=y), {"x": x, "y": y, "p": p})


def test_integers() -> None:
    """Divided at the ends of int32, too."""
    x, y = WHOLE, np.array([[2, -3, 4, 5, -2, 7]], np.int32)
    cases = as_numpy("abs sign square", x=x)
    pairs = "add sub:subtract mul:multiply maximum minimum floor_div:floor_divide mod"
    cases += as_numpy(pairs, x=x, y=y)
    cases.append((op.threshold("x", alpha=np.int32(2)), np.maximum(x, 2)))
    check(cases, {"x": x, "y": y})
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    x = np.array([low, low, high, high, low + 1], np.int32)
    y = np.array([3, -3, 2, -2, high], np.int32)
    check(as_numpy("floor_div:floor_divide", x=x, y=y), {"x": x, "y": y})


def test_comparisons_and_logic() -> None:
    x, y = np.array([[1, 2, 3], [3, 2, 1]], F), np.array([2, 2, 2], F)
    cases = as_numpy("greater greater_equal less_equal not_equal", x=x, y=y)

    def logic(name: str) -> Any:
        return lambda mb, x, y: getattr(mb, name)(x=mb.less(x=x, y=y), y=mb.equal(x=x, y=y))

    less, equal = x < y, x == y
    cases += [
        (logic("logical_and"), less & equal),
        (logic("logical_or"), less | equal),
        (logic("logical_xor"), less ^ equal),
        (lambda mb, x, y: mb.logical_not(x=mb.less(x=x, y=y)), ~less),
    ]
    check([(cast(make), expected) for make, expected in cases], {"x": x, "y": y})


def test_epsilons() -> None:
    """Added before; those that are left out are MIL's own."""
    x = np.array([0.0, 0.25, 1, 4], F)
    cases = [
        (op.log(epsilon=F(0.5)), np.log(x + 0.5)),
        (lambda mb, x: mb.log(x=mb.add(x=x, y=F(1))), np.log(x + 1)),
        (op.rsqrt(epsilon=F(0.25)), 1 / np.sqrt(x + 0.25)),
        (op.rsqrt(), 1 / np.sqrt(x + F(1e-12))),
        (op.inverse(epsilon=F(0.5)), 1 / (x + 0.5)),
        (op.inverse(), 1 / (x + F(1e-4))),
    ]
    check(cases, {"x": x})
    half = np.array([0.25, 1, 4], np.float16)
    expected = (1 / np.sqrt(half.astype(F) + 0.5)).astype(np.float16)
    check([(op.rsqrt(epsilon=F(0.5)), expected)], {"x": half})  # an epsilon of another type


def test_limits_and_rounding() -> None:
    low, high = F(-0.5), F(0.75)
    clipped = op.clip(alpha=low, beta=high), np.clip(REAL, -0.5, 0.75)
    check([clipped, (op.threshold(alpha=low), np.maximum(REAL, low))], {"x": REAL})
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4999, 0.25, 0.75], F)
    at_the_threshold = np.where(halves >= 0.5, halves, F(0))
    (found, kept) = compute(
        lambda mb, x: [mb.round(x=x), mb.thresholded_relu(x=x, alpha=F(0.5))], {"x": halves}
    )
    np.testing.assert_array_equal(found, [-2, -2, 0, 0, 2, 2, 2, 0, 1])
    agrees(kept, at_the_threshold)


def test_casts() -> None:
    x = np.array([-2.7, -0.5, 0, 0.5, 2.7], F)
    cases = [
        (op.cast(dtype="int32"), x.astype(np.int32)),
        (cast(op.cast(dtype="bool")), x.astype(bool)),
        (op.cast(dtype="fp16"), x.astype(np.float16)),
        (cast(op.cast(dtype="int8"), "fp32"), x.astype(np.int8).astype(F)),
    ]
    check(cases, {"x": x})


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


def test_products_and_sums_of_integers_and_where_the_largest_is() -> None:
    x = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
    check([(op.matmul("x", "x", transpose_y=True), x @ x.T)], {"x": x})
    x = np.array([[1, -2, 3], [4, 5, -6]], np.int32)
    most = op.reduce_max(axes=[0], keep_dims=True), x.max(0, keepdims=True)
    check([(op.reduce_sum(axes=[1]), x.sum(1)), most], {"x": x})
    cases = [
        (op.reduce_argmax(), X.argmax(-1)),
        (op.reduce_argmin(axis=1, keep_dims=True), X.argmin(1, keepdims=True)),
        (cast(op.reduce_argmax(axis=0, output_dtype="uint16")), X.argmax(0)),
    ]
    check(cases, {"x": X})


def normal(x: Array, axes: tuple[int, ...], epsilon: float = 1e-5) -> Array:
    """Without its mean, by its deviation over axes."""
    wide = x.astype(np.float64)
    mean, variance = wide.mean(axis=axes, keepdims=True), wide.var(axis=axes, keepdims=True)
    return np.asarray((wide - mean) / np.sqrt(variance + epsilon))


def test_layer_norm_of_a_free_size_and_of_float16() -> None:
    check([(op.layer_norm(axes=[3]), normal(X, (3,)))], {"x": X}, free={"x": [3]})
    x = (X * 200).astype(np.float16)  # whose squares float16 can't hold
    check([(op.layer_norm(axes=[1]), normal(x, (1,)))], {"x": x}, 4e-3)
