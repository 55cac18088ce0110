"""Elements whose places and shapes change, or that are made of numbers, where sizes are free,
computed, or said in a way of MIL's own: values by numpy."""

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Case, cast, check, drawing, op

F = np.float32
REAL = drawing(1, -3, 3)
X, WIDE = REAL(2, 3, 4), REAL(2, 3, 6, 4)
GRID = np.arange(4 * 5 * 6, dtype=F).reshape(4, 5, 6)


@pytest.mark.parametrize("free", [None, {"x": [2]}])
def test_a_zero_stands_for_the_size_as_far_from_the_last_axis(free: Any) -> None:
    cases = {(1, 0, -1, 0): (1, 2, 3, 4), (-1, 0): (6, 4), (0, 0, 0, 0, 0): (1, 1, 2, 3, 4)}
    made = [(op.reshape(shape=list(to)), X.reshape(shape)) for to, shape in cases.items()]
    check(made, {"x": X}, free=free)


def test_a_computed_shape_may_have_zeros_and_be_that_of_another() -> None:
    def zeros(mb: Any, x: Any) -> Any:
        rows = mb.slice_by_index(x=mb.shape(x=x), begin=[0], end=[1])
        return mb.reshape(x=x, shape=mb.concat(values=[rows, [3, 1, 0]], axis=0))

    def another(mb: Any, x: Any) -> Any:
        return mb.reshape(x=mb.transpose(x=x, perm=[2, 0, 1]), shape=mb.shape(x=x))

    check([(zeros, X.reshape(2, 3, 1, 4))], {"x": X}, free={"x": [0]})
    check([(another, X.transpose(2, 0, 1).reshape(X.shape))], {"x": X}, free={"x": [0, 1]})


def test_reshape_like() -> None:
    def body(mb: Any, x: Any, a: Any, b: Any) -> Any:
        begins, ends, masks = (0, 1), (1, 0), (False, True)
        y = mb.reshape_like(x=x, ref_tensors=(a, b), begins=begins, ends=ends, end_masks=masks)
        return y, mb.relu(x=a), mb.relu(x=b)

    a, b = np.zeros((2, 9), F), np.zeros((7, 4, 3), F)
    check([(body, [X.reshape(2, 4, 3), a, b])], {"x": X, "a": a, "b": b})


def test_computed_paddings_and_what_is_outside_of_a_band() -> None:
    """That is zero, even where it was infinite."""
    inf = np.full((3, 3), np.inf, np.float32)
    check([(op.band_part(lower=0, upper=0), np.where(np.eye(3) > 0, np.inf, 0))], {"x": inf})
    n = np.array([1, 0, 0, 2, 3, 1], np.int32)
    body = op.pad(constant_val=F(0))
    check([(lambda mb, x, n: body(mb, x=x, pad=n), np.pad(X, n.reshape(3, 2)))], {"x": X, "n": n})


def test_concat_of_numbers() -> None:
    def body(mb: Any, x: Any) -> Any:
        first = mb.squeeze(x=mb.slice_by_index(x=x, begin=[0], end=[1]), axes=[0])
        return mb.concat(values=[mb.gather(x=x, indices=2, axis=0), first], axis=0)

    check([(body, np.array([7, 5]))], {"x": np.array([5, 6, 7], np.int32)})


@pytest.mark.parametrize("free", [None, {"x": [0]}])
def test_space_to_batch_and_back(free: Any) -> None:
    def body(mb: Any, x: Any) -> Any:
        y = mb.space_to_batch(x=x, block_shape=[2, 3], paddings=[[1, 1], [2, 0]])
        return y, mb.batch_to_space(x=y, block_shape=[2, 3], crops=[[1, 1], [2, 0]])

    padded = np.pad(WIDE, ((0, 0), (0, 0), (1, 1), (2, 0)))
    apart = padded.reshape(2, 3, 4, 2, 2, 3).transpose(3, 5, 0, 1, 2, 4).reshape(12, 3, 4, 2)
    check([(body, [apart, WIDE])], {"x": WIDE}, free=free)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float16])
def test_range_1d(dtype: Any) -> None:
    def body(mb: Any, end: Any) -> Any:
        return mb.range_1d(start=dtype(1), end=mb.squeeze(x=end, axes=[0]), step=dtype(2))

    check([(body, np.array([1, 3, 5, 7], dtype))], {"end": np.array([8], dtype)})


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_of_what_is_no_place_is_nowhere(axis: int) -> None:
    indices = np.array([[0, 3, -1], [2, 4, 1]], np.int32)
    hot = np.moveaxis(indices[..., None] == np.arange(4), -1, axis)

    def of(**values: Any) -> Any:
        return lambda mb, i, n: mb.one_hot(indices=i, one_hot_vector_size=4, axis=axis, **values)

    def counted(mb: Any, i: Any, n: Any) -> Any:
        return mb.one_hot(indices=i, one_hot_vector_size=mb.squeeze(x=n, axes=[0]), axis=axis)

    cases = [
        (of(on_value=2.5, off_value=-1.0), np.where(hot, np.float32(2.5), np.float32(-1))),
        (cast(of(on_value=True, off_value=False)), hot),
        (counted, hot),
    ]
    check(cases, {"i": indices, "n": np.array([4], np.int32)})


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
    cases = [(op.slice_by_index(**given), GRID[index]) for given, index in SLICES]
    for axis, size, stride in ((0, 2, 1), (1, 3, 2), (-1, 2, 3)):
        at = axis % 3
        windows = np.lib.stride_tricks.sliding_window_view(GRID, size, axis)
        moved = np.moveaxis(windows, -1, at + 1)[(slice(None),) * at + (slice(None, None, stride),)]
        cases.append((op.sliding_windows(axis=axis, size=size, stride=stride), moved))
    check(cases, {"x": GRID}, free=free)


@pytest.mark.parametrize("free", FREE)
def test_slice_update(free: Any) -> None:
    cases: list[Case] = []
    for given, index in SLICES:
        update = -1 - np.arange(GRID[index].size, dtype=np.float32).reshape(GRID[index].shape)
        expected = GRID.copy()
        expected[index] = update
        cases.append((op.slice_update(update=update, **given), expected))
    check(cases, {"x": GRID}, target=18, free=free)


@pytest.mark.parametrize("begin", [[0, 1, 2], [-1, -2, -6], [3, -1, 0]])
def test_begin_may_be_computed(begin: list[int]) -> None:
    masks = {"squeeze_mask": [True, False, False], "end_mask": [False, True, True]}
    expected = GRID[begin[0], begin[1] :, begin[2] :]
    body = op.slice_by_index(end=[0, 0, 0], **masks)
    check([(body, expected)], {"x": GRID, "begin": np.array(begin, np.int32)})


@pytest.mark.parametrize("free", FREE)
@pytest.mark.parametrize(("begin", "size", "index"), [
    ([1, 0, 2], [2, 5, 3], np.s_[1:3, 0:5, 2:5]),
    ([1, 2, 0], [-1, -1, 6], np.s_[1:, 2:, :]),
    ([-2, -3, -6], [2, 1, -1], np.s_[-2:, -3:-2, :]),
])  # fmt: skip
def test_slice_by_size(begin: list[int], size: list[int], index: Any, free: Any) -> None:
    cases = [
        (op.slice_by_size("x", begin=begin, size=size), GRID[index]),
        (lambda mb, x, at: mb.slice_by_size(x=x, begin=at, size=size), GRID[index]),
    ]
    check(cases, {"x": GRID, "at": np.array(begin, np.int32)}, free=free)
