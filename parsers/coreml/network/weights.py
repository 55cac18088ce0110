"""Weights of neural networks (``WeightParams``): float32, float16, or integers of 1 to 8 bits with
a scale and a bias, or a table of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from parsers.coreml.reader import Array
from parsers.coreml.refusal import Refusal


def values(weights: Any, shape: Sequence[int], channels_at: int = 0) -> Array:
    """A layer's weights as float32.

    Args:
        weights: The message.
        shape: What they are.
        channels_at: The axis of the output channels, which scales and biases may be given for.

    Raises:
        Refusal: There are more or fewer than the shape has, or they are of no known kind.
    """
    count = int(np.prod(shape, dtype=np.int64))
    if weights.floatValue:
        found: Array = np.array(weights.floatValue, np.float32)
    elif weights.float16Value:
        found = np.frombuffer(weights.float16Value, "<f2").astype(np.float32)
    elif weights.rawValue:
        found = _unpacked(weights.rawValue, int(weights.quantization.numberOfBits), count)
    elif weights.int8RawValue:
        raise Refusal("its input is quantized while it runs (int8DynamicQuantize)")
    else:
        raise Refusal("it has no weights")
    if found.size != count:
        raise Refusal(f"it has {found.size} weights, but {tuple(shape)} needs {count}")
    shaped = found.reshape(tuple(shape))
    return _expanded(shaped, weights.quantization, channels_at) if weights.rawValue else shaped


def _unpacked(raw: bytes, bits: int, count: int) -> Array:
    """Numbers of so many bits, the first in the highest bits of the first byte."""
    if not 1 <= bits <= 8:
        raise Refusal(f"its weights have {bits} bits")
    single = np.unpackbits(np.frombuffer(raw, np.uint8))[: count * bits]
    if single.size != count * bits:
        raise Refusal(f"it has {single.size // bits} weights, not {count}")
    powers = 1 << np.arange(bits - 1, -1, -1)
    return np.asarray(single.reshape(count, bits) @ powers, np.int64)


def _expanded(integers: Array, how: Any, channels_at: int) -> Array:
    """The real numbers that integers stand for."""
    kind = how.WhichOneof("QuantizationType")
    if kind == "lookupTableQuantization":
        table: Array = np.array(how.lookupTableQuantization.floatValue, np.float32)
        return np.asarray(table[integers], np.float32)
    if kind != "linearQuantization":
        raise Refusal("its weights are integers without a scale")
    sizes = [1] * integers.ndim
    sizes[channels_at] = -1
    scale, bias = (
        np.array(part, np.float32).reshape(sizes if len(part) > 1 else [1] * integers.ndim)
        if part
        else np.float32(0)
        for part in (how.linearQuantization.scale, how.linearQuantization.bias)
    )
    return np.asarray(integers.astype(np.float32) * scale + bias, np.float32)
