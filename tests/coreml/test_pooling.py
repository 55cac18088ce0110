"""Pooling: values by numpy, window by window."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from converter.errors import UnsupportedError
from tests.coreml.running import Array, agrees, compute

RNG = np.random.default_rng(7)


def _windows(x: Array, kernel: int, stride: int, pads: tuple[int, int], ceil: bool) -> Any:
    """The part of each row and plane that each window sees, and how long it is with padding."""
    axes = x.ndim - 2
    starts = []
    for size in x.shape[2:]:
        room = size + sum(pads) - kernel
        count = (-(-room // stride) if ceil else room // stride) + 1
        if ceil and (count - 1) * stride >= size + pads[0]:
            count -= 1
        starts.append([place * stride - pads[0] for place in range(count)])
    out_shape = x.shape[:2] + tuple(len(row) for row in starts)
    for place in product(*(range(len(row)) for row in starts)):
        begins = [starts[axis][place[axis]] for axis in range(axes)]
        ends = [
            min(begin + kernel, size + pads[1])
            for begin, size in zip(begins, x.shape[2:], strict=True)
        ]
        spans = tuple(slice(max(0, begin), end) for begin, end in zip(begins, ends, strict=True))
        count = int(np.prod([end - begin for begin, end in zip(begins, ends, strict=True)]))
        yield out_shape, place, x[(slice(None), slice(None), *spans)], count


def _pooled(x: Array, how: str, *window: Any) -> Array:
    over = tuple(range(2, x.ndim))
    out: Array | None = None
    for shape, place, part, count in _windows(x.astype(np.float64), *window):
        out = np.zeros(shape) if out is None else out
        total = {
            "max": lambda part=part: part.max(axis=over),
            "counted": lambda part=part, count=count: part.sum(axis=over) / count,
            "excluded": lambda part=part: part.mean(axis=over),
            "l2": lambda part=part: np.sqrt(np.square(part).sum(axis=over)),
        }[how]()
        out[(slice(None), slice(None), *place)] = total
    assert out is not None
    return out.astype(x.dtype)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    ("kind", "pads"), [("valid", (0, 0)), ("custom", (1, 1)), ("same", (0, 1))]
)
def test_all_kinds(axes: int, kind: str, pads: tuple[int, int]) -> None:
    x = RNG.standard_normal((2, 3, *[6] * axes)).astype(np.float32)
    how: dict[str, Any] = {"kernel_sizes": [3] * axes, "strides": [2] * axes, "pad_type": kind}
    if kind == "custom":
        how["pad"] = [*pads] * axes

    def body(mb: Any, x: Any) -> list[Any]:
        found = [
            mb.max_pool(x=x, **how),
            mb.avg_pool(x=x, **how),
            mb.avg_pool(x=x, **how, exclude_padding_from_average=True),
        ]
        return found + ([mb.l2_pool(x=x, **how)] if axes < 3 else [])

    names = ["max", "counted", "excluded", "l2"]
    found = compute(body, {"x": x})
    for value, name in zip(found, names, strict=False):
        agrees(value, _pooled(x, name, 3, 2, pads, False))


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("pad", [0, 1])
def test_sizes_rounded_up(axes: int, pad: int) -> None:
    x = RNG.standard_normal((1, 2, *[8] * axes)).astype(np.float32)
    how: dict[str, Any] = {
        "kernel_sizes": [3] * axes,
        "strides": [2] * axes,
        "pad_type": "custom",
        "pad": [pad, pad] * axes,
        "ceil_mode": True,
    }

    def body(mb: Any, x: Any) -> list[Any]:
        return [
            mb.max_pool(x=x, **how),
            mb.avg_pool(x=x, **how),
            mb.avg_pool(x=x, **how, exclude_padding_from_average=True),
        ]

    for value, name in zip(compute(body, {"x": x}), ["max", "counted", "excluded"], strict=True):
        agrees(value, _pooled(x, name, 3, 2, (pad, pad), True))


def test_same_lower_and_float16() -> None:
    x = RNG.standard_normal((1, 2, 6, 6)).astype(np.float16)
    how = {"kernel_sizes": [3, 3], "strides": [2, 2], "pad_type": "same_lower"}
    (found,) = compute(lambda mb, x: mb.max_pool(x=x, **how), {"x": x})
    agrees(found, _pooled(x, "max", 3, 2, (1, 0), False))


def test_a_last_window_behind_the_input_is_refused() -> None:
    x = RNG.standard_normal((1, 2, 5)).astype(np.float32)
    how = {"kernel_sizes": [1], "strides": [3], "pad_type": "valid", "ceil_mode": True}
    with pytest.raises(UnsupportedError, match="behind the input"):
        compute(lambda mb, x: mb.max_pool(x=x, **how), {"x": x})
