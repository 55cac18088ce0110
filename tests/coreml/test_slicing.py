"""Parts of a tensor: values by numpy's slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import agrees, compute

X = np.arange(4 * 5 * 6, dtype=np.float32).reshape(4, 5, 6)
FREE: list[Any] = [None, {"x": [0, 1, 2]}]

SLICES: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "plain": ({"begin": [1, 0, 2], "end": [3, 5, 4]}, np.s_[1:3, 0:5, 2:4]),
    "negative": ({"begin": [-3, -5, -2], "end": [-1, 4, 6]}, np.s_[-3:-1, -5:4, -2:6]),
    "strided": (
        {"begin": [0, 1, 0], "end": [4, 5, 6], "stride": [2, 3, 4]},
        np.s_[::2, 1:5:3, 0:6:4],
    ),
    "masked": (
        {
            "begin": [2, 9, 1],
            "end": [9, 3, 0],
            "begin_mask": [False, True, False],
            "end_mask": [True, False, True],
        },
        np.s_[2:, :3, 1:],
    ),
    "backwards": (
        {
            "begin": [0, 3, 0],
            "end": [0, 0, 1],
            "stride": [-1, -2, -1],
            "begin_mask": [True, False, True],
            "end_mask": [True, False, False],
        },
        np.s_[::-1, 3:0:-2, :1:-1],
    ),
    "squeezed": (
        {
            "begin": [-1, 0, 2],
            "end": [0, 0, 0],
            "end_mask": [False, True, False],
            "squeeze_mask": [True, False, True],
        },
        np.s_[-1, :, 2],
    ),
    "squeezed with a stride": (
        {
            "begin": [1, 0, 0],
            "end": [0, 5, 6],
            "stride": [1, 2, 2],
            "squeeze_mask": [True, False, False],
        },
        np.s_[1, ::2, ::2],
    ),
}


@pytest.mark.parametrize("free", FREE)
def test_slice_by_index(free: Any) -> None:
    def body(mb: Any, x: Any) -> Any:
        return [mb.slice_by_index(x=x, **given) for given, _ in SLICES.values()]

    found = dict(zip(SLICES, compute(body, {"x": X}, free=free), strict=True))
    for case, (_, index) in SLICES.items():
        agrees(found[case], X[index])


@pytest.mark.parametrize("begin", [[0, 1, 2], [-1, -2, -6], [3, -1, 0]])
def test_begin_may_be_computed(begin: list[int]) -> None:
    def body(mb: Any, x: Any, begin: Any) -> Any:
        masks = {"squeeze_mask": [True, False, False], "end_mask": [False, True, True]}
        return mb.slice_by_index(x=x, begin=begin, end=[0, 0, 0], **masks)

    (y,) = compute(body, {"x": X, "begin": np.array(begin, np.int32)})
    agrees(y, X[begin[0], begin[1] :, begin[2] :])


@pytest.mark.parametrize("free", FREE)
def test_slice_update(free: Any) -> None:
    updates = {
        case: -1 - np.arange(X[index].size, dtype=np.float32).reshape(X[index].shape)
        for case, (_, index) in SLICES.items()
    }

    def body(mb: Any, x: Any) -> Any:
        return [mb.slice_update(x=x, update=updates[case], **SLICES[case][0]) for case in SLICES]

    found = dict(zip(SLICES, compute(body, {"x": X}, target=18, free=free), strict=True))
    for case, (_, index) in SLICES.items():
        expected = X.copy()
        expected[index] = updates[case]
        agrees(found[case], expected)


@pytest.mark.parametrize("free", FREE)
@pytest.mark.parametrize(
    ("begin", "size", "index"),
    [
        ([1, 0, 2], [2, 5, 3], np.s_[1:3, 0:5, 2:5]),
        ([1, 2, 0], [-1, -1, 6], np.s_[1:, 2:, :]),
        ([-2, -3, -6], [2, 1, -1], np.s_[-2:, -3:-2, :]),
    ],
)
def test_slice_by_size(begin: list[int], size: list[int], index: Any, free: Any) -> None:
    def body(mb: Any, x: Any, at: Any) -> Any:
        known = mb.slice_by_size(x=x, begin=begin, size=size)
        return known, mb.slice_by_size(x=x, begin=at, size=size)

    for y in compute(body, {"x": X, "at": np.array(begin, np.int32)}, free=free):
        agrees(y, X[index])


@pytest.mark.parametrize("free", FREE)
def test_sliding_windows(free: Any) -> None:
    cases = [(0, 2, 1), (1, 3, 2), (-1, 2, 3)]

    def body(mb: Any, x: Any) -> Any:
        names = ("axis", "size", "stride")
        return [mb.sliding_windows(x=x, **dict(zip(names, c, strict=True))) for c in cases]

    for y, (axis, size, stride) in zip(compute(body, {"x": X}, free=free), cases, strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(X, size, axis)
        at = axis % 3
        moved = np.moveaxis(windows, -1, at + 1)
        agrees(y, moved[(slice(None),) * at + (slice(None, None, stride),)])


def test_reverse() -> None:
    def body(mb: Any, x: Any) -> Any:
        return mb.reverse(x=x), mb.reverse(x=x, axes=[1]), mb.reverse(x=x, axes=[0, -1])

    for y, axes in zip(compute(body, {"x": X}), (None, 1, (0, -1)), strict=True):
        agrees(y, np.flip(X, axes))


def test_reverse_sequence() -> None:
    cases = [(1, 0), (0, 1), (2, 1)]
    lengths = [(np.arange(X.shape[b]) % X.shape[t]).astype(np.int32) for t, b in cases]

    def body(mb: Any, x: Any) -> Any:
        return [
            mb.reverse_sequence(x=x, lengths=n, seq_axis=t, batch_axis=b)
            for n, (t, b) in zip(lengths, cases, strict=True)
        ]

    for y, counts, (time, batch) in zip(compute(body, {"x": X}), lengths, cases, strict=True):
        expected = np.moveaxis(X.copy(), (batch, time), (0, 1))
        for row, length in enumerate(counts):
            expected[row, :length] = expected[row, :length][::-1].copy()
        agrees(y, np.moveaxis(expected, (0, 1), (batch, time)))
