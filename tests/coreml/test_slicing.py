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
@pytest.mark.parametrize("case", SLICES)
def test_slice_by_index(case: str, free: Any) -> None:
    given, index = SLICES[case]
    (y,) = compute(lambda mb, x: mb.slice_by_index(x=x, **given), {"x": X}, free=free)
    agrees(y, X[index])


@pytest.mark.parametrize("begin", [[0, 1, 2], [-1, -2, -6], [3, -1, 0]])
def test_begin_may_be_computed(begin: list[int]) -> None:
    def body(mb: Any, x: Any, begin: Any) -> Any:
        masks = {"squeeze_mask": [True, False, False], "end_mask": [False, True, True]}
        return mb.slice_by_index(x=x, begin=begin, end=[0, 0, 0], **masks)

    (y,) = compute(body, {"x": X, "begin": np.array(begin, np.int32)})
    agrees(y, X[begin[0], begin[1] :, begin[2] :])


@pytest.mark.parametrize("case", [case for case in SLICES if "squeezed" not in case])
def test_slice_update(case: str) -> None:
    given, index = SLICES[case]
    expected = X.copy()
    update = -1 - np.arange(X[index].size, dtype=np.float32).reshape(X[index].shape)
    expected[index] = update
    (y,) = compute(
        lambda mb, x, u: mb.slice_update(x=x, update=u, **given), {"x": X, "u": update}, target=18
    )
    agrees(y, expected)


def test_slice_update_of_squeezed_axes() -> None:
    given, index = SLICES["squeezed"]
    expected, update = X.copy(), np.full(5, -7, np.float32)
    expected[index] = update
    (y,) = compute(
        lambda mb, x, u: mb.slice_update(x=x, update=u, **given), {"x": X, "u": update}, target=18
    )
    agrees(y, expected)


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
@pytest.mark.parametrize(("axis", "size", "stride"), [(0, 2, 1), (1, 3, 2), (-1, 2, 3)])
def test_sliding_windows(axis: int, size: int, stride: int, free: Any) -> None:
    (y,) = compute(
        lambda mb, x: mb.sliding_windows(x=x, axis=axis, size=size, stride=stride),
        {"x": X},
        free=free,
    )
    windows = np.lib.stride_tricks.sliding_window_view(X, size, axis)
    at = axis % 3
    moved = np.moveaxis(windows, -1, at + 1)
    agrees(y, moved[(slice(None),) * at + (slice(None, None, stride),)])


@pytest.mark.parametrize("axes", [None, [1], [0, -1]])
def test_reverse(axes: Any) -> None:
    given = {} if axes is None else {"axes": axes}
    (y,) = compute(lambda mb, x: mb.reverse(x=x, **given), {"x": X})
    agrees(y, np.flip(X, axes))


@pytest.mark.parametrize(("time", "batch"), [(1, 0), (0, 1), (2, 1)])
def test_reverse_sequence(time: int, batch: int) -> None:
    lengths = (np.arange(X.shape[batch]) % X.shape[time]).astype(np.int32)
    (y,) = compute(
        lambda mb, x: mb.reverse_sequence(x=x, lengths=lengths, seq_axis=time, batch_axis=batch),
        {"x": X},
    )
    expected = np.moveaxis(X.copy(), (batch, time), (0, 1))
    for row, length in enumerate(lengths):
        expected[row, :length] = expected[row, :length][::-1].copy()
    agrees(y, np.moveaxis(expected, (0, 1), (batch, time)))
