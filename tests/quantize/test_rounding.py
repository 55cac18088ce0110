"""Error-gptq rounding: what layers compute stays closer than with the nearest weights."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from converter.ir.model import Model
from converter.precision.budget.effort import Effort
from converter.precision.calibrate.ranges import Ranges, collect
from converter.precision.int8.bias_correction import correct_biases
from converter.precision.int8.insert import quantize
from converter.precision.int8.placement import place
from converter.precision.int8.rounding import round_by_gptq
from converter.precision.int8.scheme import ONNXRUNTIME_CPU
from converter.precision.weights.gptq import Steps, gptq
from converter.runtime.ort import OrtSession
from tests.passes.models import Array, ListedSamples
from tests.quantize.small import correlated, with_weights
from tests.schemes import SCHEMES

Body = tuple[str, dict[str, tuple[int, ...]], tuple[int, ...]]

BODIES: dict[str, Body] = {
    "conv": ("m (float[N,8,6,6] x) => (float[N,4,3,3] y) { p = Conv(x, a, b) q = Relu(p)"
             " r = Conv <group=16> (q, c) s = Relu(r) y = Conv(s, d) }",
             {"a": (16, 8, 3, 3), "b": (16,), "c": (16, 1, 2, 2), "d": (4, 16, 1, 1)},
             (1, 8, 6, 6)),
    "gemm": ("m (float[N,24] x) => (float[N,8] y)"
             " { p = Gemm <transB=1, alpha=0.5> (x, a) q = Relu(p) y = Gemm(q, c) }",
             {"a": (32, 24), "c": (32, 8)}, (32, 24)),
    "matmul": ("m (float[N,8,24] x) => (float[N,8,8] y)"
               " { p = MatMul(x, a) q = Relu(p) y = MatMul(q, c) }",
               {"a": (24, 32), "c": (32, 8)}, (4, 8, 24)),
}  # fmt: skip


def _body(name: str) -> Model:
    return with_weights(BODIES[name][0], 0.0, **BODIES[name][1])


COARSE = replace(ONNXRUNTIME_CPU, weight_limit=7)
"""Weights of four bits: what they cost isn't hidden behind the activations' rounding."""


def _ranges(model: Model, samples: ListedSamples) -> Ranges:
    return collect(model, samples, place(model, ONNXRUNTIME_CPU).tensors)


def _error(model: Model, other: Model, samples: ListedSamples) -> float:
    one, two = OrtSession(model.graph, plain=True), OrtSession(other.graph, plain=True)
    pairs = [(one.run(s.feeds)["y"], two.run(s.feeds)["y"]) for s in samples]
    return float(np.sqrt(np.mean([np.square(a - b).mean() for a, b in pairs])))


def _samples(name: str, seed: int) -> ListedSamples:
    shape = BODIES[name][2]
    if name != "matmul":
        return correlated({"x": shape}, seed=seed)
    turned = correlated({"x": (shape[0], shape[2], shape[1])}, seed=seed)
    return ListedSamples([{"x": s.feeds["x"].transpose(0, 2, 1).copy()} for s in turned])


@pytest.mark.parametrize("name", BODIES)
def test_other_samples_gain_too(name: str) -> None:
    model, samples, others = _body(name), _samples(name, 0), _samples(name, 1)
    ranges = _ranges(model, samples)
    rounded = round_by_gptq(model, ranges, COARSE, samples)
    assert set(rounded) == set(BODIES[name][1]) - {"b"}
    nearest = quantize(model, ranges, COARSE)
    better = quantize(model, ranges, COARSE, rounded=rounded)
    fair = correct_biases(model, nearest, samples)
    both = correct_biases(model, better, samples)
    assert _error(model, both.model, others) < 0.9 * _error(model, fair.model, others)


def test_the_same_again_and_within_limits() -> None:
    model, samples = _body("conv"), _samples("conv", 0)
    ranges = _ranges(model, samples)
    scheme = SCHEMES["onnxruntime-u8s7"]
    once = round_by_gptq(model, ranges, scheme, samples)
    again = round_by_gptq(model, ranges, scheme, samples)
    for name, array in once.items():
        assert array.dtype == np.int8 and np.abs(array.astype(int)).max() <= 63
        assert array.shape == BODIES["conv"][1][name]
        np.testing.assert_array_equal(array, again[name])


def test_too_little_work_leaves_layers_out_the_small_ones_first() -> None:
    model, samples = _body("conv"), _samples("conv", 0)
    ranges = _ranges(model, samples)

    def names(work: float) -> set[str]:
        return set(round_by_gptq(model, ranges, ONNXRUNTIME_CPU, samples, work=work))

    assert names(0.0) == set()
    assert names(0.0089 * 5e9) == {"a"}
    ticks = itertools.count()
    effort = Effort(0, 2.5, clock=lambda: float(next(ticks)))
    late = round_by_gptq(model, ranges, ONNXRUNTIME_CPU, samples, effort=effort)
    assert set(late) == {"a"}  # the clock ran out after the first layer
    assert effort.cut


def _losses(errors: Array, covariance: Array) -> Array:
    """What errors of weights, one set a row, add to an output's variance."""
    rows = errors.reshape(-1, errors.shape[-1])
    losses: Array = ((rows @ covariance) * rows).sum(axis=1)
    return losses


def _on_ones(weights: Array, covariance: Array) -> Array:
    return gptq(weights, covariance, Steps(np.ones_like(weights), -127, 127))


def test_compensated_is_near_the_best_there_is() -> None:
    """Against all roundings up or down of a layer small enough to try them all."""
    rng = np.random.default_rng(0)
    worse = []
    for _ in range(20):
        inputs = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 8))
        inputs += 0.2 * rng.standard_normal(inputs.shape)
        covariance = inputs.T @ inputs / len(inputs)
        weights = rng.uniform(-20, 20, (1, 1, 8))

        ways = np.floor(weights[0]) + np.array(list(itertools.product((0, 1), repeat=8)))
        best = _losses(weights - ways, covariance).min()
        found = _losses(weights - _on_ones(weights, covariance[None]), covariance).item()
        nearest = _losses(weights - np.rint(weights), covariance).item()
        worse.append((found - best) / (nearest - best + 1e-12))
    assert np.median(worse) < 0.35


def test_a_layer_with_too_few_rows_stays_nearest() -> None:
    model = _body("gemm")
    few = correlated({"x": (1, 24)}, count=7)
    ranges = collect(model, few, place(model, ONNXRUNTIME_CPU).tensors, few=True)
    rounded = round_by_gptq(model, ranges, ONNXRUNTIME_CPU, few)
    assert set(rounded) == {"a"}  # 7 rows: enough for 24 inputs, not for 32
