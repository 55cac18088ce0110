"""Weights and biases as integers.

A weight is stored as int8 with zero point 0: ``real = stored * scale``. Stored values lie in
[-127, 127] and never at -128: targets' specifications say so, negating a weight stays possible,
and the largest magnitude has an exact value on both sides. On x86 CPUs without VNNI, a sum of two
products of uint8 and int8 saturates at 16 bits (VPMADDUBSW: 2 * 255 * 127 > 32767); weights within
[-63, 63] can't (2 * 255 * 63 = 32130), at the price of one bit.

A bias is stored as int32 with the scale of the accumulator, scale_input * scale_weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BIAS_LIMIT = 2.0**30
"""Largest stored bias: half of int32, the other half is for the sum of products."""

ZERO_BIAS = 2.0**24
"""The stored bias of a channel whose weights are all 0: as exact as a float32."""

_SMALLEST = float(np.finfo(np.float32).tiny)


def weight_scales(weight: Array, axis: int | None, limit: int = 127) -> Array:
    """The scales of a weight, so that its largest magnitude is stored as ``limit``.

    Args:
        weight: float32, any shape.
        axis: The output channels; None for one scale.
        limit: Largest stored value.

    Returns:
        float32, one for each channel, or of no dimensions; 1 where all weights are 0 (or too
        small for a scale that is a normal float32).
    """
    others = None if axis is None else tuple(i for i in range(weight.ndim) if i != axis)
    largest = np.maximum(weight.max(axis=others), -weight.min(axis=others))
    scales = np.asarray(largest, np.float64) / limit
    found: Array = np.where(scales < _SMALLEST, 1.0, scales).astype(np.float32)
    return found


def fit_bias(scales: Array, weight: Array, axis: int | None, bias: Array, scale: float) -> Array:
    """Weight scales with which the bias fits into int32.

    A channel whose weights are tiny beside its bias gets a larger scale: what its weights lose
    is 2^-30 of the bias. A channel without weights gets the scale that its bias wants.

    Args:
        scales: From :func:`weight_scales`.
        weight: The weight.
        axis: Its output channels; None for one scale.
        bias: float32, one for each output channel. Where a grouped ConvTranspose has more of
            them than the axis, the channels of all groups share a scale.
        scale: Of the operator's input.
    """
    channels = scales.size if axis is not None else 1
    largest = np.abs(np.asarray(bias, np.float64)).reshape(-1, channels).max(axis=0)
    others = None if axis is None else tuple(i for i in range(weight.ndim) if i != axis)
    empty = np.logical_not(weight.any(axis=others))
    wanted = largest.reshape(scales.shape) / scale
    chosen = np.maximum(np.asarray(scales, np.float64), wanted / BIAS_LIMIT)
    chosen = np.where(empty & (wanted > 0), np.maximum(wanted / ZERO_BIAS, _SMALLEST), chosen)
    fitted: Array = chosen.astype(np.float32)
    return fitted


def store_weight(weight: Array, scales: Array, axis: int | None, limit: int = 127) -> Array:
    """A weight as int8: each value the nearest multiple of its scale, in float32.

    Args:
        weight: float32.
        scales: float32: a number for each index along ``axis``, or one number.
        axis: Of the scales; None for one scale.
        limit: The largest magnitude stored.
    """
    ratio: Array = np.divide(weight, spread(scales, axis, weight.ndim), dtype=np.float32)
    np.rint(ratio, out=ratio)
    np.clip(ratio, -limit, limit, out=ratio)
    return ratio.astype(np.int8)


def store_bias(bias: Array, scales: Array, scale: float) -> tuple[Array, Array]:
    """The bias as int32, and the scale of each.

    Args:
        bias: float32, one for each output channel.
        scales: Of the weight: as many, one, or one for each channel of a group.
        scale: Of the operator's input.
    """
    repeated = np.tile(np.atleast_1d(scales), bias.size // scales.size)
    steps = (np.float32(scale) * repeated).astype(np.float32)
    stored = np.rint(np.asarray(bias, np.float64) / (np.float64(scale) * repeated))
    info = np.iinfo(np.int32)
    return np.clip(stored, info.min, info.max).astype(np.int32), steps


def spread(scales: Array, axis: int | None, rank: int) -> Array:
    """Scales shaped so that they multiply a tensor.

    Args:
        scales: [n], or one number.
        axis: The tensor's axis of n elements; None for one number.
        rank: How many axes the tensor has.
    """
    if axis is None:
        return scales
    return scales.reshape([-1 if i == axis else 1 for i in range(rank)])
