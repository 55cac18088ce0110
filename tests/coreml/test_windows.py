"""Convolutions, plain and transposed, and pooling: values by numpy, sums over the kernel and window
by window."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, Case, check, drawing, network, op


def conv(
    x: Array,
    weight: Array,
    strides: list[int],
    pads: list[tuple[int, int]],
    dilations: list[int],
    groups: int = 1,
) -> Array:
    """Every output as a sum of products, in float64."""
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pads])
    kernel = weight.shape[2:]
    sizes = [
        (size - (k - 1) * d - 1) // s + 1
        for size, k, d, s in zip(padded.shape[2:], kernel, dilations, strides, strict=True)
    ]
    parts = zip(np.split(padded, groups, 1), np.split(weight, groups), strict=True)
    return np.concatenate(
        [_one_group(part, filters, strides, dilations, sizes) for part, filters in parts], 1
    )


def _one_group(part: Array, filters: Array, strides: Any, dilations: Any, sizes: Any) -> Array:
    out = np.zeros((len(part), len(filters), *sizes))
    for place in product(*(range(size) for size in filters.shape[2:])):
        spans = [
            slice(p * d, p * d + s * (n - 1) + 1, s)
            for p, d, s, n in zip(place, dilations, strides, sizes, strict=True)
        ]
        out += np.einsum("nc...,oc->no...", part[:, :, *spans], filters[:, :, *place])
    return out


def transposed(x: Array, weight: Array, strides: list[int], groups: int = 1) -> Array:
    """The whole product: each input adds its kernel to the output."""
    kernel = weight.shape[2:]
    sizes = [s * (n - 1) + k for s, n, k in zip(strides, x.shape[2:], kernel, strict=True)]
    made = []
    for part, filters in zip(np.split(x, groups, 1), np.split(weight, groups), strict=True):
        out = np.zeros((len(x), weight.shape[1], *sizes))
        for place in product(*(range(size) for size in kernel)):
            where = [
                slice(p, p + s * (n - 1) + 1, s)
                for p, s, n in zip(place, strides, x.shape[2:], strict=True)
            ]
            weights = filters[:, :, *place]
            out[:, :, *where] += np.einsum("nc...,co->no...", part.astype(np.float64), weights)
        made.append(out)
    return np.concatenate(made, 1)


def pooled(
    x: Array, how: str, kernel: int, stride: int, pads: tuple[int, int], ceil: bool
) -> Array:
    """Window by window: the part that it sees, and how long it is with padding."""
    over, rows = tuple(range(2, x.ndim)), []
    for size in x.shape[2:]:
        room = size + sum(pads) - kernel
        count = (-(-room // stride) if ceil else room // stride) + 1
        if ceil and (count - 1) * stride >= size + pads[0]:
            count -= 1
        starts = [place * stride - pads[0] for place in range(count)]
        rows.append([(start, min(start + kernel, size + pads[1])) for start in starts])
    out = np.zeros((*x.shape[:2], *(len(row) for row in rows)))
    for place in product(*(range(len(row)) for row in rows)):
        ends = [row[at] for row, at in zip(rows, place, strict=True)]
        spans = [slice(max(0, begin), end) for begin, end in ends]
        part = x.astype(np.float64)[:, :, *spans]
        if how == "max":
            out[:, :, *place] = part.max(axis=over)
        elif how == "l2":
            out[:, :, *place] = np.sqrt(np.square(part).sum(axis=over))
        else:
            count = int(np.prod([end - begin for begin, end in ends]))
            mean = part.sum(axis=over) / count if how == "counted" else part.mean(axis=over)
            out[:, :, *place] = mean
    return out.astype(x.dtype)


def _how(kind: str, axes: int, pad: int, **more: Any) -> dict[str, Any]:
    how = {"strides": [2] * axes, "pad_type": kind} | more
    return how | ({"pad": [pad, pad] * axes} if kind == "custom" else {})


def _flat(pads: list[tuple[int, int]]) -> list[int]:
    return [size for pair in pads for size in pair]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_paddings_of_their_own(axes: int) -> None:
    real = drawing(6, -2, 2)
    x, weight, bias = real(2, 4, *[9] * axes), real(6, 2, *[3] * axes), real(6)
    turned = real(4, 3, *[3] * axes)
    pads = [(1, 2), (0, 1), (2, 0)][:axes]
    cuts = [(1, 0), (0, 1), (1, 1)][:axes]
    how: dict[str, Any] = {"strides": [2] * axes, "bias": bias, "groups": 2}
    own = {"pad_type": "custom", "pad": _flat(pads)}
    column = bias.reshape(-1, *[1] * axes)
    whole = transposed(x, turned, [2] * axes, 2) + column
    cut = tuple(slice(a, size - b) for (a, b), size in zip(cuts, whole.shape[2:], strict=True))
    cases = [
        (op.conv(weight=weight, dilations=[2] * axes, **own, **how),
         conv(x, weight, [2] * axes, pads, [2] * axes, 2) + column),
        (op.conv_transpose(weight=turned, **how), whole),
        (op.conv_transpose(weight=turned, pad_type="custom", pad=_flat(cuts), **how),
         whole[(slice(None), slice(None), *cut)]),
    ]  # fmt: skip
    check(cases, {"x": x})


@pytest.mark.parametrize(("size", "kernel"), [(8, 3), (7, 3), (8, 4), (9, 2)])
def test_conv_of_the_same_size(size: int, kernel: int) -> None:
    """ceil(size / stride) long; an odd padding is longer after, or before."""
    real = drawing(7, -2, 2)
    x, weight = real(1, 2, size, size), real(3, 2, kernel, kernel)
    total = max(0, 2 * (-(-size // 2) - 1) + kernel - size)
    pair = (total // 2, total - total // 2)
    cases = [
        (op.conv(weight=weight, pad_type=kind, strides=[2, 2]),
         conv(x, weight, [2, 2], [pads] * 2, [1, 1]))
        for kind, pads in (("same", pair), ("same_lower", pair[::-1]))
    ]  # fmt: skip
    check(cases, {"x": x})


def test_conv_of_float16_with_weights_of_float32_and_with_a_computed_weight() -> None:
    real = drawing(8, -2, 2)
    x, weight = real(1, 2, 5, 5), real(3, 2, 3, 3)
    plain = [1, 1], [(0, 0)] * 2, [1, 1]
    check([(lambda mb, x, w: mb.conv(x=x, weight=w), conv(x, weight, *plain))],
          {"x": x, "w": weight})  # fmt: skip
    half = x.astype(np.float16)
    check([(op.conv(weight=weight), conv(half, weight, *plain))], {"x": half}, 1e-2)


@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (4, 2), (2, 2), (2, 3), (5, 1)])
def test_conv_transpose_of_the_same_size(kernel: int, stride: int) -> None:
    """stride * size long; what is too long is cut, the odd one after."""
    real = drawing(9, -2, 2)
    x, weight = real(1, 2, 4), real(2, 3, kernel)
    wanted = np.zeros((1, 3, 4 * stride))
    before = max(0, kernel - stride) // 2
    part = transposed(x, weight, [stride])[:, :, before : before + 4 * stride]
    wanted[:, :, : part.shape[2]] = part
    how = {"pad_type": "same", "strides": [stride]}
    check([(op.conv_transpose(weight=weight, **how), wanted)], {"x": x})


def test_conv_transpose_to_a_size() -> None:
    """stride 2 makes 7 and 8 of 4 under the same paddings."""
    real = drawing(10, -2, 2)
    x, weight = real(1, 2, 4), real(2, 3, 3)
    how: dict[str, Any] = {"weight": weight, **_how("custom", 1, 1)}
    whole = transposed(x, weight, [2])
    cases = [
        (op.conv_transpose(**how, output_shape=[1, 3, size]), whole[:, :, 1 : size + 1])
        for size in (7, 8)
    ]
    check(cases, {"x": x})


# -- pooling -----------------------------------------------------------------------------


def _pools(x: Array, window: tuple[Any, ...], how: dict[str, Any], l2: bool = True) -> list[Case]:
    """Every kind of pooling; averages that count paddings differ in neural networks."""
    exclude = {"exclude_padding_from_average": True}
    return [
        (op.max_pool(**how), pooled(x, "max", *window), "pooling"),
        (op.avg_pool(**how), pooled(x, "counted", *window)),
        (op.avg_pool(**how, **exclude), pooled(x, "excluded", *window), "pooling"),
        *([(op.l2_pool(**how), pooled(x, "l2", *window), "pooling")] if l2 else []),
    ]


KINDS = {"valid": (0, 0), "custom": (1, 1), "same": (0, 1)}


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_pools(axes: int, kind: str) -> None:
    x = drawing(7, -2, 2)(2, 3, *[6] * axes)
    how = _how(kind, axes, 1, kernel_sizes=[3] * axes)
    check(_pools(x, (3, 2, KINDS[kind], False), how, axes < 3), {"x": x})


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("pad", [0, 1])
def test_sizes_rounded_up(axes: int, pad: int) -> None:
    x = drawing(7, -2, 2)(1, 2, *[8] * axes)
    how = _how("custom", axes, pad, kernel_sizes=[3] * axes, ceil_mode=True)
    check(_pools(x, (3, 2, (pad, pad), True), how, False), {"x": x})


def test_same_lower_and_float16() -> None:
    x = drawing(7, -2, 2)(1, 2, 6, 6).astype(np.float16)
    how = _how("same_lower", 2, 0, kernel_sizes=[3, 3])
    check([(op.max_pool(**how), pooled(x, "max", 3, 2, (1, 0), False))], {"x": x})


@pytest.mark.parametrize("kind", ["same", "custom"])
def test_in_a_network(tmp_path: Path, kind: str) -> None:
    real = drawing(11, -2, 2)
    x, weight, turned, bias = real(2, 4, 6, 6), real(6, 2, 3, 3), real(4, 3, 3, 3), real(6)
    pair, how = KINDS[kind], _how(kind, 2, 1)
    cut = slice(0, 12) if kind == "same" else slice(1, 12)
    cases: list[Case] = [
        (op.conv(weight=weight, bias=bias, groups=2, **how),
         conv(x, weight, [2, 2], [pair] * 2, [1, 1], 2) + bias.reshape(6, 1, 1), "convolution"),
        (op.conv_transpose(weight=turned, groups=2, **how),
         transposed(x, turned, [2, 2], 2)[:, :, cut, cut], "convolution"),
        *_pools(x, (3, 2, pair, False), _how(kind, 2, 1, kernel_sizes=[3, 3])),
    ]  # fmt: skip
    network(tmp_path, cases, {"x": x}, 1e-4)
