"""Convolutions, plain and transposed: values by sums over the kernel, in numpy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from converter.errors import UnsupportedError
from tests.coreml.running import Array, agrees, compute

RNG = np.random.default_rng(6)


def _real(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def _conv(
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
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    sizes = [
        (padded.shape[axis + 2] - reach[axis]) // strides[axis] + 1 for axis in range(len(kernel))
    ]
    out = np.zeros((x.shape[0], weight.shape[0], *sizes))
    inner, outer = x.shape[1] // groups, weight.shape[0] // groups
    for group in range(groups):
        part = padded[:, group * inner : (group + 1) * inner]
        filters = weight[group * outer : (group + 1) * outer]
        for place in product(*(range(size) for size in kernel)):
            spans = [
                slice(p * d, p * d + s * (n - 1) + 1, s)
                for p, d, s, n in zip(place, dilations, strides, sizes, strict=True)
            ]
            window = part[(slice(None), slice(None), *spans)]
            weights = filters[(slice(None), slice(None), *place)]
            out[:, group * outer : (group + 1) * outer] += np.einsum(
                "nc...,oc->no...", window, weights
            )
    return out


def _transposed(x: Array, weight: Array, strides: list[int], groups: int = 1) -> Array:
    """The whole product: each input adds its kernel to the output."""
    kernel = weight.shape[2:]
    sizes = [s * (n - 1) + k for s, n, k in zip(strides, x.shape[2:], kernel, strict=True)]
    outer = weight.shape[1]
    out = np.zeros((x.shape[0], outer * groups, *sizes))
    inner = x.shape[1] // groups
    for group in range(groups):
        part = x[:, group * inner : (group + 1) * inner].astype(np.float64)
        filters = weight[group * inner : (group + 1) * inner]
        for place in product(*(range(size) for size in kernel)):
            where = tuple(
                slice(p, p + s * (n - 1) + 1, s)
                for p, s, n in zip(place, strides, x.shape[2:], strict=True)
            )
            weights = filters[(slice(None), slice(None), *place)]
            target = (slice(None), slice(group * outer, (group + 1) * outer), *where)
            out[target] += np.einsum("nc...,co->no...", part, weights)
    return out


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_conv_with_paddings_of_its_own(axes: int) -> None:
    x, weight, bias = _real(2, 4, *[9] * axes), _real(6, 2, *[3] * axes), _real(6)
    pads = [(1, 2), (0, 1), (2, 0)][:axes]
    how: dict[str, Any] = {"strides": [2] * axes, "dilations": [2] * axes, "groups": 2}

    def body(mb: Any, x: Any) -> Any:
        flat = [size for pair in pads for size in pair]
        return mb.conv(x=x, weight=weight, bias=bias, pad_type="custom", pad=flat, **how)

    (found,) = compute(body, {"x": x})
    wanted = _conv(x, weight, [2] * axes, pads, [2] * axes, 2) + bias.reshape(-1, *[1] * axes)
    agrees(found, wanted.astype(np.float32))


@pytest.mark.parametrize("kind", ["same", "same_lower"])
@pytest.mark.parametrize(("size", "kernel"), [(8, 3), (7, 3), (8, 4), (9, 2)])
def test_conv_of_the_same_size(kind: str, size: int, kernel: int) -> None:
    """ceil(size / stride) long; an odd padding is longer after, or before."""
    x, weight = _real(1, 2, size, size), _real(3, 2, kernel, kernel)

    def body(mb: Any, x: Any) -> Any:
        return mb.conv(x=x, weight=weight, pad_type=kind, strides=[2, 2])

    (found,) = compute(body, {"x": x})
    total = max(0, 2 * (-(-size // 2) - 1) + kernel - size)
    pair = (total // 2, total - total // 2)
    pads = [pair if kind == "same" else pair[::-1]] * 2
    agrees(found, _conv(x, weight, [2, 2], pads, [1, 1]).astype(np.float32))


def test_conv_of_float16_with_weights_of_float32() -> None:
    x, weight = _real(1, 2, 5, 5).astype(np.float16), _real(3, 2, 3, 3)
    (found,) = compute(lambda mb, x: mb.conv(x=x, weight=weight), {"x": x})
    wanted = _conv(x, weight, [1, 1], [(0, 0)] * 2, [1, 1])
    agrees(found, wanted.astype(np.float16), 1e-2)


def test_conv_with_a_computed_weight() -> None:
    x, weight = _real(1, 2, 5, 5), _real(3, 2, 3, 3)
    (found,) = compute(lambda mb, x, w: mb.conv(x=x, weight=w), {"x": x, "w": weight})
    agrees(found, _conv(x, weight, [1, 1], [(0, 0)] * 2, [1, 1]).astype(np.float32))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_conv_transpose(axes: int) -> None:
    x, weight, bias = _real(2, 4, *[4] * axes), _real(4, 3, *[3] * axes), _real(6)
    pads = [(1, 0), (0, 1), (1, 1)][:axes]

    def body(mb: Any, x: Any) -> list[Any]:
        flat = [size for pair in pads for size in pair]
        how = {"weight": weight, "bias": bias, "strides": [2] * axes, "groups": 2}
        return [
            mb.conv_transpose(x=x, **how),
            mb.conv_transpose(x=x, pad_type="custom", pad=flat, **how),
        ]

    found = compute(body, {"x": x})
    whole = _transposed(x, weight, [2] * axes, 2) + bias.reshape(-1, *[1] * axes)
    cut = tuple(
        slice(before, size - after)
        for (before, after), size in zip(pads, whole.shape[2:], strict=True)
    )
    agrees(found[0], whole.astype(np.float32))
    agrees(found[1], whole[(slice(None), slice(None), *cut)].astype(np.float32))


@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (4, 2), (2, 2), (2, 3), (5, 1)])
def test_conv_transpose_of_the_same_size(kernel: int, stride: int) -> None:
    """stride * size long; what is too long is cut, the odd one after."""
    x, weight = _real(1, 2, 4), _real(2, 3, kernel)

    def body(mb: Any, x: Any) -> Any:
        return mb.conv_transpose(x=x, weight=weight, pad_type="same", strides=[stride])

    (found,) = compute(body, {"x": x})
    whole = _transposed(x, weight, [stride])
    wanted = np.zeros((1, 3, 4 * stride))
    before = max(0, kernel - stride) // 2
    part = whole[:, :, before : before + 4 * stride]
    wanted[:, :, : part.shape[2]] = part
    agrees(found, wanted.astype(np.float32))


def test_conv_transpose_to_a_size() -> None:
    """stride 2 makes 7 and 8 of 4 under the same paddings."""
    x, weight = _real(1, 2, 4), _real(2, 3, 3)

    def body(mb: Any, x: Any) -> list[Any]:
        how = {"weight": weight, "strides": [2], "pad_type": "custom", "pad": [1, 1]}
        return [mb.conv_transpose(x=x, **how, output_shape=[1, 3, size]) for size in (7, 8)]

    found = compute(body, {"x": x})
    whole = _transposed(x, weight, [2])
    agrees(found[0], whole[:, :, 1:8].astype(np.float32))
    agrees(found[1], whole[:, :, 1:9].astype(np.float32))


def test_conv_transpose_to_a_size_of_a_free_input_is_refused() -> None:
    weight = _real(2, 3, 3)

    def body(mb: Any, x: Any) -> Any:
        return mb.conv_transpose(x=x, weight=weight, output_shape=[1, 3, 6])

    with pytest.raises(UnsupportedError, match="free"):
        compute(body, {"x": _real(1, 2, 4)}, free={"x": [2]})
