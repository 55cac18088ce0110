"""Parts of a tensor: values by numpy's slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Case, check, op

X = np.arange(4 * 5 * 6, dtype=np.float32).reshape(4, 5, 6)
FREE: list[Any] = [None, {"x": [0, 1, 2]}]
NO, YES = False, True


def _given(begin: Any, end: Any, /, **more: Any) -> dict[str, Any]:
    return {"begin": begin, "end": end} | {
        name if name == "stride" else f"{name}_mask": value for name, value in more.items()
    }


SLICES: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
    (_given([1, 0, 2], [3, 5, 4]), np.s_[1:3, 0:5, 2:4]),
    (_given([-3, -5, -2], [-1, 4, 6]), np.s_[-3:-1, -5:4, -2:6]),
    (_given([0, 1, 0], [4, 5, 6], stride=[2, 3, 4]), np.s_[::2, 1:5:3, 0:6:4]),
    (_given([2, 9, 1], [9, 3, 0], begin=[NO, YES, NO], end=[YES, NO, YES]), np.s_[2:, :3, 1:]),
    (_given([0, 3, 0], [0, 0, 1], stride=[-1, -2, -1], begin=[YES, NO, YES], end=[YES, NO, NO]),
     np.s_[::-1, 3:0:-2, :1:-1]),
    (_given([-1, 0, 2], [0, 0, 0], end=[NO, YES, NO], squeeze=[YES, NO, YES]), np.s_[-1, :, 2]),
    (_given([1, 0, 0], [0, 5, 6], stride=[1, 2, 2], squeeze=[YES, NO, NO]), np.s_[1, ::2, ::2]),
]  # fmt: skip
"""Plain, negative, strided, masked, backwards, squeezed, and squeezed with a stride."""


@pytest.mark.parametrize("free", FREE)
def test_slices(free: Any) -> None:
    cases = [(op.slice_by_index(**given), X[index]) for given, index in SLICES]
    for axis, size, stride in ((0, 2, 1), (1, 3, 2), (-1, 2, 3)):
        at = axis % 3
        windows = np.lib.stride_tricks.sliding_window_view(X, size, axis)
        moved = np.moveaxis(windows, -1, at + 1)[(slice(None),) * at + (slice(None, None, stride),)]
        cases.append((op.sliding_windows(axis=axis, size=size, stride=stride), moved))
    check(cases, {"x": X}, free=free)


@pytest.mark.parametrize("free", FREE)
def test_slice_update(free: Any) -> None:
    cases: list[Case] = []
    for given, index in SLICES:
        update = -1 - np.arange(X[index].size, dtype=np.float32).reshape(X[index].shape)
        expected = X.copy()
        expected[index] = update
        cases.append((op.slice_update(update=update, **given), expected))
    check(cases, {"x": X}, target=18, free=free)


@pytest.mark.parametrize("begin", [[0, 1, 2], [-1, -2, -6], [3, -1, 0]])
def test_begin_may_be_computed(begin: list[int]) -> None:
    masks = {"squeeze_mask": [True, False, False], "end_mask": [False, True, True]}
    expected = X[begin[0], begin[1] :, begin[2] :]
    body = op.slice_by_index(end=[0, 0, 0], **masks)
    check([(body, expected)], {"x": X, "begin": np.array(begin, np.int32)})


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
    cases = [
        (op.slice_by_size("x", begin=begin, size=size), X[index]),
        (lambda mb, x, at: mb.slice_by_size(x=x, begin=at, size=size), X[index]),
    ]
    check(cases, {"x": X, "at": np.array(begin, np.int32)}, free=free)


def test_reversed() -> None:
    cases: list[Case] = [(op.reverse(), np.flip(X))]
    cases += [(op.reverse(axes=list(axes)), np.flip(X, axes)) for axes in ((1,), (0, -1))]
    for time, batch in ((1, 0), (0, 1), (2, 1)):
        lengths = (np.arange(X.shape[batch]) % X.shape[time]).astype(np.int32)
        expected = np.moveaxis(X.copy(), (batch, time), (0, 1))
        for row, length in enumerate(lengths):
            expected[row, :length] = expected[row, :length][::-1].copy()
        body = op.reverse_sequence(lengths=lengths, seq_axis=time, batch_axis=batch)
        cases.append((body, np.moveaxis(expected, (0, 1), (batch, time))))
    check(cases, {"x": X})
