"""Neural networks of the newer kind, as coremltools makes them of operations: values by numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.coreml_file import coremltools
from parsers.coreml_import.importer import read
from tests.coreml.running import Array, Arrays, agrees, run
from tests.coreml.test_resizing import bilinear

RNG = np.random.default_rng(11)
F = np.float32
X = RNG.uniform(-3, 3, (2, 3, 4, 5)).astype(F)
POSITIVE = np.abs(X) + F(0.1)
ROW = RNG.standard_normal((4, 1)).astype(F)
ALPHA = np.array([0.1, 0.5, 1.5], F)
A = ALPHA.reshape(3, 1, 1)
WEIGHT = RNG.standard_normal((6, 5)).astype(F)
BIAS = RNG.standard_normal(6).astype(F)
BLOCKS = RNG.standard_normal((2, 8, 4, 4)).astype(F)

Case = tuple[str, Callable[..., Any], Any]
"""A layer that the network has to hold, what it is made of, and what it gives."""


def _written(folder: Path, body: Callable[..., Any], inputs: Arrays) -> tuple[Path, list[str]]:
    """A network as a file, and the kinds of its layers."""
    ct = coremltools()
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import Function, Program, types

    holders = {
        name: mb.placeholder(shape=array.shape, dtype=types.fp32) for name, array in inputs.items()
    }
    program = Program()
    with Function(holders) as function:
        given = body(mb, **function.inputs)
        function.set_outputs(list(given) if isinstance(given, list | tuple) else [given])
    program.add_function("main", function)
    model = ct.convert(
        program, source="milinternal", convert_to="neuralnetwork", skip_model_load=True
    )
    path = folder / "net.mlmodel"
    model.save(str(path))
    layers = model.get_spec().neuralNetwork.layers
    return path, [layer.WhichOneof("layer") for layer in layers]


def _check(folder: Path, cases: list[Case], inputs: Arrays, tolerance: float = 1e-5) -> None:
    """All cases in one network."""

    def body(mb: Any, **given: Any) -> list[Any]:
        return [make(mb, **given) for _, make, _ in cases]

    path, kinds = _written(folder, body, inputs)
    assert {kind for kind, _, _ in cases} <= set(kinds)
    found = run(read(path), inputs)
    for value, (_, _, expected) in zip(found, cases, strict=True):
        agrees(value, np.asarray(expected, F), tolerance)


def test_functions(tmp_path: Path) -> None:
    x, p = X, POSITIVE
    cases: list[Case] = [
        ("unary", lambda mb, x, p: mb.abs(x=x), np.abs(x)),
        ("unary", lambda mb, x, p: mb.exp(x=x), np.exp(x)),
        ("unary", lambda mb, x, p: mb.square(x=x), x * x),
        ("unary", lambda mb, x, p: mb.sqrt(x=p), np.sqrt(p)),
        ("unary", lambda mb, x, p: mb.rsqrt(x=p), 1 / np.sqrt(p)),
        ("unary", lambda mb, x, p: mb.inverse(x=p, epsilon=F(0.5)), 1 / (p + 0.5)),
        ("unary", lambda mb, x, p: mb.log(x=p), np.log(p)),
        ("unary", lambda mb, x, p: mb.threshold(x=x, alpha=F(-1)), np.maximum(x, -1)),
        ("ceil", lambda mb, x, p: mb.ceil(x=x), np.ceil(x)),
        ("exp2", lambda mb, x, p: mb.exp2(x=x), np.exp2(x)),
        ("floor", lambda mb, x, p: mb.floor(x=x), np.floor(x)),
        ("round", lambda mb, x, p: mb.round(x=x), np.round(x)),
        ("sign", lambda mb, x, p: mb.sign(x=x), np.sign(x)),
        ("cosh", lambda mb, x, p: mb.cosh(x=x), np.cosh(x)),
        ("clip", lambda mb, x, p: mb.clip(x=x, alpha=F(-1), beta=F(1)), np.clip(x, -1, 1)),
        ("gelu", lambda mb, x, p: mb.gelu(x=x), _gelu(x)),
    ]
    _check(tmp_path, cases, {"x": x, "p": p})


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))


def test_activations(tmp_path: Path) -> None:
    x = X
    two = {"alpha": F(0.25), "beta": F(0.5)}
    power = np.exp(x)
    cases: list[Case] = [
        ("activation", lambda mb, x: mb.relu(x=x), np.maximum(x, 0)),
        ("activation", lambda mb, x: mb.tanh(x=x), np.tanh(x)),
        ("activation", lambda mb, x: mb.sigmoid(x=x), 1 / (1 + np.exp(-x))),
        ("activation", lambda mb, x: mb.leaky_relu(x=x, alpha=F(0.1)), np.where(x > 0, x, 0.1 * x)),
        (
            "activation",
            lambda mb, x: mb.elu(x=x, alpha=F(0.5)),
            np.where(x > 0, x, 0.5 * (np.exp(x) - 1)),
        ),
        ("activation", lambda mb, x: mb.sigmoid_hard(x=x, **two), np.clip(0.25 * x + 0.5, 0, 1)),
        ("activation", lambda mb, x: mb.linear_activation(x=x, **two), 0.25 * x + 0.5),
        ("activation", lambda mb, x: mb.scaled_tanh(x=x, **two), 0.25 * np.tanh(0.5 * x)),
        (
            "activation",
            lambda mb, x: mb.thresholded_relu(x=x, alpha=F(0.5)),
            np.where(x >= 0.5, x, 0),
        ),
        ("activation", lambda mb, x: mb.softsign(x=x), x / (1 + np.abs(x))),
        ("activation", lambda mb, x: mb.softplus(x=x), np.log1p(np.exp(x))),
        ("activation", lambda mb, x: mb.prelu(x=x, alpha=ALPHA), np.where(x > 0, x, A * x)),
        (
            "activation",
            lambda mb, x: mb.softplus_parametric(x=x, alpha=ALPHA, beta=ALPHA),
            A * np.log1p(np.exp(A * x)),
        ),
        (
            "clampedReLU",
            lambda mb, x: mb.clamped_relu(x=x, alpha=F(0.25), beta=F(1.5)),
            np.minimum(np.where(x > 0, x, 0.25 * x), 1.5),
        ),
        ("softmax", lambda mb, x: mb.softmax(x=x, axis=1), power / power.sum(1, keepdims=True)),
        ("softmaxND", lambda mb, x: mb.softmax(x=x, axis=2), power / power.sum(2, keepdims=True)),
    ]
    _check(tmp_path, cases, {"x": x})


def test_two_operands(tmp_path: Path) -> None:
    x, y = X, ROW
    cases: list[Case] = [
        ("addBroadcastable", lambda mb, x, y: mb.add(x=x, y=y), x + y),
        ("subtractBroadcastable", lambda mb, x, y: mb.sub(x=x, y=y), x - y),
        ("multiplyBroadcastable", lambda mb, x, y: mb.mul(x=x, y=y), x * y),
        ("divideBroadcastable", lambda mb, x, y: mb.real_div(x=x, y=y), x / y),
        ("floorDivBroadcastable", lambda mb, x, y: mb.floor_div(x=x, y=y), np.floor(x / y)),
        ("modBroadcastable", lambda mb, x, y: mb.mod(x=x, y=y), np.mod(x, y)),
        ("maxBroadcastable", lambda mb, x, y: mb.maximum(x=x, y=y), np.maximum(x, y)),
        ("minBroadcastable", lambda mb, x, y: mb.minimum(x=x, y=y), np.minimum(x, y)),
        ("add", lambda mb, x, y: mb.add(x=x, y=F(2)), x + 2),
        ("multiply", lambda mb, x, y: mb.mul(x=x, y=F(2)), x * 2),
        ("greaterThan", lambda mb, x, y: _number(mb, mb.greater(x=x, y=y)), x > y),
        ("lessEqual", lambda mb, x, y: _number(mb, mb.less_equal(x=x, y=y)), x <= y),
        ("notEqual", lambda mb, x, y: _number(mb, mb.not_equal(x=x, y=y)), x != y),
        ("whereBroadcastable",
         lambda mb, x, y: mb.select(cond=mb.less(x=x, y=F(0)), a=x, b=mb.mul(x=x, y=F(2))),
         np.where(x < 0, x, 2 * x)),
    ]  # fmt: skip
    _check(tmp_path, cases, {"x": x, "y": y}, 1e-4)


def _number(mb: Any, truth: Any) -> Any:
    return mb.cast(x=truth, dtype="fp32")


def test_reductions(tmp_path: Path) -> None:
    x = X
    cases: list[Case] = [
        ("reduceSum", lambda mb, x: mb.reduce_sum(x=x, axes=[1, 3]), x.sum((1, 3))),
        ("reduceMean", lambda mb, x: mb.reduce_mean(x=x, axes=[1, 3]), x.mean((1, 3))),
        ("reduceMax", lambda mb, x: mb.reduce_max(x=x, axes=[2], keep_dims=True),
         x.max(2, keepdims=True)),
        ("reduceMin", lambda mb, x: mb.reduce_min(x=x, axes=[2]), x.min(2)),
        ("reduceProd", lambda mb, x: mb.reduce_prod(x=x, axes=[2]), x.prod(2)),
        ("reduceL1", lambda mb, x: mb.reduce_l1_norm(x=x, axes=[2]), np.abs(x).sum(2)),
        ("reduceL2", lambda mb, x: mb.reduce_l2_norm(x=x, axes=[2]), np.sqrt((x * x).sum(2))),
        ("reduceSumSquare", lambda mb, x: mb.reduce_sum_square(x=x, axes=[2]), (x * x).sum(2)),
        ("reduceLogSumExp", lambda mb, x: mb.reduce_log_sum_exp(x=x, axes=[2]),
         np.log(np.exp(x).sum(2))),
        ("argMax", lambda mb, x: _number(mb, mb.reduce_argmax(x=x, axis=1)), x.argmax(1)),
    ]  # fmt: skip
    _check(tmp_path, cases, {"x": x}, 1e-4)


def test_products(tmp_path: Path) -> None:
    x = X
    cases: list[Case] = [
        ("innerProduct", lambda mb, x, z: mb.linear(x=z, weight=WEIGHT, bias=BIAS),
         x[0] @ WEIGHT.T + BIAS),
        ("batchedMatmul", lambda mb, x, z: mb.matmul(x=x, y=x, transpose_y=True),
         x @ x.swapaxes(2, 3)),
        ("batchedMatmul", lambda mb, x, z: mb.matmul(x=x, y=np.ascontiguousarray(WEIGHT.T)),
         x @ WEIGHT.T),
    ]  # fmt: skip
    _check(tmp_path, cases, {"x": x, "z": x[0]}, 1e-4)


def test_normalizations(tmp_path: Path) -> None:
    x, variance = X, ALPHA + 1
    each = variance.reshape(3, 1, 1)
    mean, spread = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    numbers = {"mean": ALPHA, "variance": variance, "gamma": variance, "beta": ALPHA}
    around = np.pad(x * x, [(0, 0), (1, 1), (0, 0), (0, 0)])
    total = around[:, :-2] + around[:, 1:-1] + around[:, 2:]
    squares = np.square(x).sum((1, 2, 3), keepdims=True)
    cases: list[Case] = [
        ("batchnorm", lambda mb, x: mb.batch_norm(x=x, **numbers),
         (x - A) / np.sqrt(each + 1e-5) * each + A),
        ("batchnorm", lambda mb, x: mb.instance_norm(x=x), (x - mean) / np.sqrt(spread + 1e-5)),
        ("l2normalize", lambda mb, x: mb.l2_norm(x=x), x / np.sqrt(squares + 1e-6)),
        ("lrn", lambda mb, x: mb.local_response_norm(x=x, size=3),
         x / (1 + 1e-4 / 3 * total) ** 0.75),
    ]  # fmt: skip
    _check(tmp_path, cases, {"x": x})


def test_shapes(tmp_path: Path) -> None:
    x = X
    index = np.array([2, 0], np.int32)
    begin, end, stride = [0, 1, 3, 0], [2, 3, 0, 0], [1, 1, -2, 2]
    last = [False, False, False, True]
    kinds = [("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge")]
    cases: list[Case] = [
        ("transpose", lambda mb, x: mb.transpose(x=x, perm=[0, 2, 3, 1]), x.transpose(0, 2, 3, 1)),
        ("reshapeStatic", lambda mb, x: mb.reshape(x=x, shape=[2, -1]), x.reshape(2, -1)),
        ("expandDims", lambda mb, x: mb.expand_dims(x=x, axes=[1]), x[:, None]),
        ("concatND", lambda mb, x: mb.concat(values=[x, mb.relu(x=x)], axis=2),
         np.concatenate([x, np.maximum(x, 0)], 2)),
        ("stack", lambda mb, x: mb.stack(values=[x, mb.relu(x=x)], axis=1),
         np.stack([x, np.maximum(x, 0)], 1)),
        ("splitND", lambda mb, x: mb.split(x=x, split_sizes=[1, 2], axis=1)[1], x[:, 1:]),
        ("sliceStatic",
         lambda mb, x: mb.slice_by_index(x=x, begin=begin, end=end, stride=stride,
                                         begin_mask=last, end_mask=last),
         x[0:2, 1:3, 3:0:-2, ::2]),
        ("sliceStatic",
         lambda mb, x: mb.slice_by_index(x=x, begin=[-1, 1, 0, 0], end=[0, 3, 0, 0],
                                         end_mask=[False, False, True, True],
                                         squeeze_mask=[True, False, False, False]),
         x[-1, 1:3]),
        ("tile", lambda mb, x: mb.tile(x=x, reps=[1, 2, 1, 3]), np.tile(x, (1, 2, 1, 3))),
        ("gather", lambda mb, x: mb.gather(x=x, indices=index, axis=1), x[:, index]),
        ("crop", lambda mb, x: mb.crop(x=x, crop_height=[1, 1], crop_width=[0, 2]),
         x[:, :, 1:-1, :-2]),
        *[("padding", lambda mb, x, mode=mode: mb.pad(x=x, pad=[0, 0, 0, 0, 1, 2, 3, 1], mode=mode),
           np.pad(x, [(0, 0), (0, 0), (1, 2), (3, 1)], mode=same)) for mode, same in kinds],
    ]  # fmt: skip
    _check(tmp_path, cases, {"x": x})


def test_images(tmp_path: Path) -> None:
    x, blocks = X, BLOCKS
    cases: list[Case] = [
        ("upsample", lambda mb, x, s: mb.upsample_nearest_neighbor(
            x=x, scale_factor_height=2, scale_factor_width=3), x.repeat(2, 2).repeat(3, 3)),
        *[("upsample", lambda mb, x, s, align=align: mb.upsample_bilinear(
            x=x, scale_factor_height=2, scale_factor_width=3, align_corners=align),
           bilinear(x, 8, 15, mode))
          for align, mode in ((True, "STRICT_ALIGN_CORNERS"), (False, "UNALIGN_CORNERS"))],
        *[("resizeBilinear", lambda mb, x, s, mode=mode: mb.resize_bilinear(
            x=x, target_size_height=7, target_size_width=3, sampling_mode=mode),
           bilinear(x, 7, 3, mode))
          for mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS")],
        ("reorganizeData", lambda mb, x, s: mb.depth_to_space(x=s, block_size=2),
         blocks.reshape(2, 2, 2, 2, 4, 4).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 8, 8)),
        ("reorganizeData", lambda mb, x, s: mb.space_to_depth(x=s, block_size=2),
         blocks.reshape(2, 8, 2, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(2, 32, 2, 2)),
        ("reorganizeData", lambda mb, x, s: mb.pixel_shuffle(x=s, upscale_factor=2),
         blocks.reshape(2, 2, 2, 2, 4, 4).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 8, 8)),
    ]  # fmt: skip
    _check(tmp_path, cases, {"x": x, "s": blocks})


@pytest.mark.parametrize("kind", ["same", "custom"])
def test_convolutions_and_pools(tmp_path: Path, kind: str) -> None:
    from tests.coreml.test_convolution import _conv, _transposed
    from tests.coreml.test_pooling import _pooled

    x = RNG.standard_normal((2, 4, 6, 6)).astype(F)
    weight = RNG.standard_normal((6, 2, 3, 3)).astype(F)
    turned = RNG.standard_normal((4, 3, 3, 3)).astype(F)
    pair = (0, 1) if kind == "same" else (1, 1)
    how: dict[str, Any] = {"strides": [2, 2], "pad_type": kind}
    how |= {"pad": [1, 1, 1, 1]} if kind == "custom" else {}
    window = how | {"kernel_sizes": [3, 3]}
    whole = _transposed(x, turned, [2, 2], 2)
    cut = slice(0, 12) if kind == "same" else slice(1, 12)
    cases: list[Case] = [
        ("convolution", lambda mb, x: mb.conv(x=x, weight=weight, bias=BIAS, groups=2, **how),
         _conv(x, weight, [2, 2], [pair] * 2, [1, 1], 2) + BIAS.reshape(6, 1, 1)),
        ("convolution", lambda mb, x: mb.conv_transpose(x=x, weight=turned, groups=2, **how),
         whole[:, :, cut, cut]),
        ("pooling", lambda mb, x: mb.max_pool(x=x, **window), _pooled(x, "max", 3, 2, pair, False)),
        ("pooling", lambda mb, x: mb.avg_pool(x=x, exclude_padding_from_average=True, **window),
         _pooled(x, "excluded", 3, 2, pair, False)),
        ("pooling", lambda mb, x: mb.l2_pool(x=x, **window), _pooled(x, "l2", 3, 2, pair, False)),
    ]  # fmt: skip
    _check(tmp_path, cases, {"x": x}, 1e-4)
