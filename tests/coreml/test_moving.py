"""Elements that keep their values and change their places and shape: values by numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, Case, check, drawing, network, op

F = np.float32
REAL = drawing(1, -3, 3)
X, Y = REAL(2, 3, 4), REAL(2, 3, 4)
THIN = REAL(1, 3, 1, 2)
DEEP, WIDE = REAL(2, 12, 3, 2), REAL(2, 3, 6, 4)
IMAGE = REAL(2, 3, 4, 5)


def test_axes() -> None:
    """Counted from the end too; those of another size than 1 stay."""
    cases: list[Case] = [(op.transpose(perm=[-1, 0, 1]), X.transpose(2, 0, 1))]
    cases += [(op.expand_dims(axes=a), np.expand_dims(X, a)) for a in ((0,), (-1,), (0, 2), (3, 0))]
    cases += [
        (op.flatten2d(axis=axis), X.reshape(int(np.prod(X.shape[:axis])), -1))
        for axis in (1, 2, -1)
    ]
    check(cases, {"x": X})
    squeezed = {(): (3, 2), (0,): (3, 1, 2), (-2, 0): (3, 2), (0, 1): (3, 1, 2)}
    check(
        [
            (op.squeeze(**({"axes": list(axes)} if axes else {})), THIN.reshape(shape))
            for axes, shape in squeezed.items()
        ],
        {"x": THIN},
    )
    check([(op.shape(), np.array([2, 3, 4]))], {"x": X}, free={"x": [0, 2]})


@pytest.mark.parametrize("target", [15, 17])
def test_reshape(target: int) -> None:
    cases = {(6, 4): (6, 4), (-1,): (24,), (4, -1, 2): (4, 3, 2), (0, -1, 0): X.shape}
    cases[0, 4, 3] = (2, 4, 3)
    check(
        [(op.reshape(shape=list(to)), X.reshape(shape)) for to, shape in cases.items()],
        {"x": X},
        target=target,
    )


@pytest.mark.parametrize("free", [None, {"x": [2]}])
def test_a_zero_stands_for_the_size_as_far_from_the_last_axis(free: Any) -> None:
    cases = {(1, 0, -1, 0): (1, 2, 3, 4), (-1, 0): (6, 4), (0, 0, 0, 0, 0): (1, 1, 2, 3, 4)}
    check(
        [(op.reshape(shape=list(to)), X.reshape(shape)) for to, shape in cases.items()],
        {"x": X},
        free=free,
    )


def test_a_computed_shape_may_have_zeros_and_be_that_of_another() -> None:
    def zeros(mb: Any, x: Any) -> Any:
        rows = mb.slice_by_index(x=mb.shape(x=x), begin=[0], end=[1])
        return mb.reshape(x=x, shape=mb.concat(values=[rows, [3, 1, 0]], axis=0))

    def another(mb: Any, x: Any) -> Any:
        return mb.reshape(x=mb.transpose(x=x, perm=[2, 0, 1]), shape=mb.shape(x=x))

    check([(zeros, X.reshape(2, 3, 1, 4))], {"x": X}, free={"x": [0]})
    turned = X.transpose(2, 0, 1).reshape(X.shape)
    check([(another, turned)], {"x": X}, free={"x": [0, 1]})


def test_reshape_like() -> None:
    def body(mb: Any, x: Any, a: Any, b: Any) -> Any:
        begins, ends, masks = (0, 1), (1, 0), (False, True)
        y = mb.reshape_like(x=x, ref_tensors=(a, b), begins=begins, ends=ends, end_masks=masks)
        return y, mb.relu(x=a), mb.relu(x=b)

    a, b = np.zeros((2, 9), F), np.zeros((7, 4, 3), F)
    check([(body, [X.reshape(2, 4, 3), a, b])], {"x": X, "a": a, "b": b})


@pytest.mark.parametrize("free", [None, {"x": [0, 1, 2], "y": [0, 1, 2]}])
def test_concat_one_after_the_other_or_in_turn(free: Any) -> None:
    def joined(axis: int, **how: Any) -> Any:
        return lambda mb, x, y: mb.concat(values=[x, y], axis=axis, **how)

    cases: list[Case] = []
    for axis in (0, 1, -1):
        after = np.concatenate([X, Y], axis)
        in_turn = np.stack([X, Y], axis % 3 + 1).reshape(after.shape)
        cases += [(joined(axis), after), (joined(axis, interleave=True), in_turn)]
    check(cases, {"x": X, "y": Y}, free=free)


def test_parts_and_repetitions() -> None:
    times = np.array([2, 1, 2], np.int32)
    cases: list[Case] = [
        (lambda mb, x, n, axis=axis: mb.stack(values=[x, mb.relu(x=x), x], axis=axis),
         np.stack([X, np.maximum(X, 0), X], axis)) for axis in (0, 2, -1)
    ]  # fmt: skip
    cases += [
        (op.split("x", num_splits=2, axis=-1), np.split(X, 2, -1)),
        (op.split("x", split_sizes=[1, 2], axis=1), np.split(X, [1], 1)),
        (op.tile("x", reps=[1, 2, 3]), np.tile(X, (1, 2, 3))),
        (lambda mb, x, n: mb.tile(x=x, reps=n), np.tile(X, times)),
    ]
    check(cases, {"x": X, "n": times})


def test_concat_of_numbers() -> None:
    def body(mb: Any, x: Any) -> Any:
        first = mb.squeeze(x=mb.slice_by_index(x=x, begin=[0], end=[1]), axes=[0])
        return mb.concat(values=[mb.gather(x=x, indices=2, axis=0), first], axis=0)

    check([(body, np.array([7, 5]))], {"x": np.array([5, 6, 7], np.int32)})


MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
"""Of paddings, and numpy's names."""


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_pad(dtype: Any) -> None:
    """Of the last axes; amounts may be computed."""
    x, amounts, n = (
        X.astype(dtype),
        [(0, 0), (1, 2), (0, 3)],
        np.array([1, 0, 0, 2, 3, 1], np.int32),
    )
    value = op.pad("x", pad=[1, 2, 0, 3], constant_val=dtype(2.5))
    cases: list[Case] = [(value, np.pad(x, amounts, constant_values=2.5))]
    cases += [
        (op.pad("x", pad=[1, 2, 0, 3], mode=mode), np.pad(x, amounts, mode=MODES[mode]))  # type: ignore[call-overload]
        for mode in ("reflect", "replicate")
    ]
    cases.append((lambda mb, x, n: mb.pad(x=x, pad=n, constant_val=dtype(0)),
                  np.pad(x, n.reshape(3, 2))))  # fmt: skip
    check(cases, {"x": x, "n": n})


def _blocks(x: Array, shape: Any, perm: Any) -> Array:
    """Channels and space exchanged: cut into factors, whose order changes."""
    made = x.reshape(shape).transpose(perm)
    return made.reshape(2, 3, 6, 4) if x is DEEP else made.reshape(2, 12, 3, 2)


@pytest.mark.parametrize("free", [None, {"x": [0, 2, 3]}])
def test_channels_and_space(free: Any) -> None:
    """A place in the block comes first, or the channel (pixel_shuffle); and the way back."""
    cases = [
        (op.depth_to_space(block_size=2), _blocks(DEEP, (2, 2, 2, 3, 3, 2), (0, 3, 4, 1, 5, 2))),
        (op.pixel_shuffle(upscale_factor=2), _blocks(DEEP, (2, 3, 2, 2, 3, 2), (0, 1, 4, 2, 5, 3))),
    ]
    check(cases, {"x": DEEP}, free=free)
    two = np.uint32(2)
    cases = [
        (op.space_to_depth(block_size=2), _blocks(WIDE, (2, 3, 3, 2, 2, 2), (0, 3, 5, 1, 2, 4))),
        (
            op.pixel_unshuffle(downscale_factor=two),
            _blocks(WIDE, (2, 3, 3, 2, 2, 2), (0, 1, 3, 5, 2, 4)),
        ),
    ]
    check(cases, {"x": WIDE}, free=free)


def test_space_to_batch_as_coremltools_own_example() -> None:
    x = np.arange(1, 17, dtype=F).reshape(2, 1, 2, 4)
    rows = [[0, 1, 3], [0, 9, 11], [0, 2, 4], [0, 10, 12]]
    rows += [[0, 5, 7], [0, 13, 15], [0, 6, 8], [0, 14, 16]]
    cut = {"block_shape": [2, 2]}
    y = np.array(rows, F).reshape(8, 1, 1, 3)
    check([(op.space_to_batch(**cut, paddings=[[0, 0], [2, 0]]), y)], {"x": x})
    check([(op.batch_to_space(**cut, crops=[[0, 0], [2, 0]]), x)], {"x": y})


@pytest.mark.parametrize("free", [None, {"x": [0]}])
def test_space_to_batch_and_back(free: Any) -> None:
    def body(mb: Any, x: Any) -> Any:
        y = mb.space_to_batch(x=x, block_shape=[2, 3], paddings=[[1, 1], [2, 0]])
        return y, mb.batch_to_space(x=y, block_shape=[2, 3], crops=[[1, 1], [2, 0]])

    padded = np.pad(WIDE, ((0, 0), (0, 0), (1, 1), (2, 0)))
    apart = padded.reshape(2, 3, 4, 2, 2, 3).transpose(3, 5, 0, 1, 2, 4).reshape(12, 3, 4, 2)
    check([(body, [apart, WIDE])], {"x": WIDE}, free=free)


def test_in_a_network(tmp_path: Path) -> None:
    x, deep, wide = IMAGE, DEEP, WIDE
    above = np.maximum(x, 0)
    index = np.array([2, 0], np.int32)
    last = [False, False, False, True]
    some = {"begin": [0, 1, 3, 0], "end": [2, 3, 0, 0], "stride": [1, 1, -2, 2]}
    one = {"begin": [-1, 1, 0, 0], "end": [0, 3, 0, 0], "end_mask": [False, False, True, True]}
    around = [(0, 0), (0, 0), (1, 2), (3, 1)]
    twice = (2, 2, 2, 3, 3, 2)
    cases: list[Case] = [
        (op.transpose("x", perm=[0, 2, 3, 1]), x.transpose(0, 2, 3, 1), "transpose"),
        (op.reshape("x", shape=[2, -1]), x.reshape(2, -1), "reshapeStatic"),
        (op.expand_dims("x", axes=[1]), x[:, None], "expandDims"),
        (lambda mb, x, s, d: mb.concat(values=[x, mb.relu(x=x)], axis=2),
         np.concatenate([x, above], 2), "concatND"),
        (lambda mb, x, s, d: mb.stack(values=[x, mb.relu(x=x)], axis=1),
         np.stack([x, above], 1), "stack"),
        (op.split("x", split_sizes=[1, 2], axis=1), [x[:, :1], x[:, 1:]], "splitND"),
        (op.slice_by_index("x", **some, begin_mask=last, end_mask=last),
         x[0:2, 1:3, 3:0:-2, ::2], "sliceStatic"),
        (op.slice_by_index("x", **one, squeeze_mask=[True, False, False, False]),
         x[-1, 1:3], "sliceStatic"),
        (op.tile("x", reps=[1, 2, 1, 3]), np.tile(x, (1, 2, 1, 3)), "tile"),
        (op.gather("x", indices=index, axis=1), x[:, index], "gather"),
        (op.crop("x", crop_height=[1, 1], crop_width=[0, 2]), x[:, :, 1:-1, :-2], "crop"),
        *[(op.pad("x", pad=[0, 0, 0, 0, 1, 2, 3, 1], mode=mode),
           np.pad(x, around, mode=same), "padding")  # type: ignore[call-overload]
          for mode, same in MODES.items()],
        (op.depth_to_space("d", block_size=2),
         _blocks(deep, twice, (0, 3, 4, 1, 5, 2)), "reorganizeData"),
        (op.pixel_shuffle("d", upscale_factor=2),
         _blocks(deep, (2, 3, 2, 2, 3, 2), (0, 1, 4, 2, 5, 3)), "reorganizeData"),
        (op.space_to_depth("s", block_size=2),
         _blocks(wide, (2, 3, 3, 2, 2, 2), (0, 3, 5, 1, 2, 4)), "reorganizeData"),
    ]  # fmt: skip
    network(tmp_path, cases, {"x": x, "s": wide, "d": deep})
