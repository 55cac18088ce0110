"""Operations element by element, activations among them: values by numpy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, Case, agrees, as_numpy, cast, check, compute, network, op

RNG = np.random.default_rng(0)
F = np.float32
REAL = RNG.uniform(-3, 3, (2, 3, 4, 5)).astype(F)
POSITIVE = RNG.uniform(0.1, 4, (2, 3, 4, 5)).astype(F)
UNIT = RNG.uniform(-0.9, 0.9, (2, 3, 4, 5)).astype(F)
DIVISOR = RNG.uniform(0.5, 2, (4, 1)).astype(F) * np.array([[1], [-1], [1], [-1]], F)
WHOLE = np.array([[-7, -6, -1, 0, 5, 7], [7, 2, -8, 3, 6, -2]], np.int32)
ALPHA, BETA = np.array([0.1, 0.5, 1.5], F), np.array([0.7, -0.3, 2.0], F)

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_functions(dtype: Any) -> None:
    x, p, u = (array.astype(dtype) for array in (REAL, POSITIVE, UNIT))
    cases = as_numpy(
        "abs atan:arctan ceil cos cosh exp exp2 floor identity:copy sign sin sinh square tanh", x=x
    )
    cases += as_numpy("sqrt", p=p)
    cases += as_numpy("acos:arccos asin:arcsin atanh:arctanh tan", u=u)
    cases += [(op.erf("x"), _erf(x))]
    feeds = {"x": x, "p": p, "u": u}
    check(cases, feeds, 2e-6 if dtype is np.float32 else None)


def _activations(x: Array, number: Any = F, slopes: Any = F) -> list[Case]:
    """Numbers are of a type, and slopes; x alone in float64."""
    alpha, beta = (array.reshape(3, 1, 1) for array in (ALPHA, BETA))
    two = {"alpha": number(0.25), "beta": number(0.5)}
    channels = {"alpha": ALPHA.astype(slopes), "beta": BETA.astype(slopes)}
    power, half = np.exp(x - x.max()), number(0.5)
    tanh = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    clamped = {"alpha": number(0.25), "beta": number(1.5)}
    one = "activation"
    return [
        (op.relu(), np.maximum(x, 0), one),
        (op.relu6(), np.clip(x, 0, 6)),
        (op.sigmoid(), _sigmoid(x), one),
        (op.tanh(), np.tanh(x), one),
        (op.silu(), x * _sigmoid(x)),
        (op.softplus(), np.log1p(np.exp(x)), one),
        (op.softsign(), x / (1 + np.abs(x)), one),
        (op.elu(alpha=half), np.where(x > 0, x, 0.5 * (np.exp(x) - 1)), one),
        (op.leaky_relu(alpha=number(0.25)), np.where(x > 0, x, 0.25 * x), one),
        (op.sigmoid_hard(**two), np.clip(0.25 * x + 0.5, 0, 1), one),
        (op.clamped_relu(**clamped), np.minimum(np.where(x >= 0, x, x / 4), 1.5), "clampedReLU"),
        (op.linear_activation(**two), 0.25 * x + 0.5, one),
        (op.scaled_tanh(**two), 0.25 * np.tanh(0.5 * x), one),
        (op.thresholded_relu(alpha=half), np.where(x >= 0.5, x, 0), one),
        (op.prelu(alpha=channels["alpha"]), np.where(x > 0, x, alpha * x), one),
        (op.softplus_parametric(**channels), alpha * np.log1p(np.exp(beta * x)), one),
        (op.softmax(), power / power.sum(-1, keepdims=True)),
        (op.softmax(axis=1), power / power.sum(1, keepdims=True), "softmax"),
        (op.softmax(axis=2), power / power.sum(2, keepdims=True), "softmaxND"),
        (op.gelu(), 0.5 * x * (1 + _erf(x / np.sqrt(2))), "gelu"),
        (op.gelu(mode="TANH_APPROXIMATION"), 0.5 * x * (1 + tanh)),
        (op.gelu(mode="SIGMOID_APPROXIMATION"), x * _sigmoid(1.702 * x)),
    ]


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [(np.float32, np.float32), (np.float16, np.float16), (np.float16, np.float32)],
    ids=["float32", "float16", "numbers of another type, from iOS17 on"],
)
def test_activations(dtype: Any, numbers: Any) -> None:
    x = (REAL * F(4 / 3)).astype(dtype)
    cases = _activations(x.astype(np.float64), numbers, numbers)
    check(cases, {"x": x}, 4e-3 if dtype is np.float16 else 1e-5)


def test_activations_in_a_network(tmp_path: Path) -> None:
    network(tmp_path, _activations(REAL.astype(np.float64)), {"x": REAL})


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 2, 2, 2)])
def test_prelu_of_other_ranks(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).standard_normal(shape).astype(F)
    check([(op.prelu(alpha=np.full(3, 0.2, F)), np.where(x > 0, x, F(0.2) * x))], {"x": x})


def test_functions_in_a_network(tmp_path: Path) -> None:
    x, p = REAL, POSITIVE
    kinds = "abs exp square"
    cases = [(*case, "unary") for case in as_numpy(kinds, x=x) + as_numpy("sqrt log", p=p)]
    for name in ("ceil", "exp2", "floor", "round", "sign", "cosh"):
        cases += [(*case, name) for case in as_numpy(name, x=x)]
    cases += [
        (op.rsqrt("p"), 1 / np.sqrt(p), "unary"),
        (op.inverse("p", epsilon=F(0.5)), 1 / (p + 0.5), "unary"),
        (op.threshold("x", alpha=F(-1)), np.maximum(x, -1), "unary"),
        (op.clip("x", alpha=F(-1), beta=F(1)), np.clip(x, -1, 1), "clip"),
    ]
    network(tmp_path, cases, {"x": x, "p": p})


def test_two_operands(tmp_path: Path) -> None:
    x, y, p = REAL, DIVISOR, POSITIVE
    cases = as_numpy("real_div:divide floor_div:floor_divide mod maximum minimum", x=x, y=y)
    check(cases + as_numpy("pow:power", p=p, y=y), {"x": x, "y": y, "p": p})
    pairs = (
        "add sub:subtract mul:multiply real_div:divide floor_div:floor_divide mod maximum minimum"
    )
    kinds = "add subtract multiply divide floorDiv mod max min"
    both = zip(as_numpy(pairs, x=x, y=y), kinds.split(), strict=True)
    layers: list[Case] = [(*case, f"{kind}Broadcastable") for case, kind in both]
    truths = as_numpy("greater less_equal not_equal", x=x, y=y)
    for case, kind in zip(truths, ("greaterThan", "lessEqual", "notEqual"), strict=True):
        layers.append((cast(case[0], "fp32"), case[1], kind))
    layers += [
        (op.add("x", y=F(2)), x + 2, "add"),
        (op.mul("x", y=F(2)), x * 2, "multiply"),
        (lambda mb, x, y: mb.select(cond=mb.less(x=x, y=F(0)), a=x, b=mb.mul(x=x, y=F(2))),
         np.where(x < 0, x, 2 * x), "whereBroadcastable"),
    ]  # fmt: skip
    network(tmp_path, layers, {"x": x, "y": y}, 1e-4)


def test_integers() -> None:
    x, y = WHOLE, np.array([[2, -3, 4, 5, -2, 7]], np.int32)
    cases = as_numpy("abs sign square", x=x)
    pairs = "add sub:subtract mul:multiply maximum minimum floor_div:floor_divide mod"
    cases += as_numpy(pairs, x=x, y=y)
    cases.append((op.threshold("x", alpha=np.int32(2)), np.maximum(x, 2)))
    check(cases, {"x": x, "y": y})


def test_floor_div_at_the_ends_of_int32() -> None:
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
