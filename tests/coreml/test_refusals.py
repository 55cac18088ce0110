"""Operations, or what they are given, that can't be read: each says why."""

from typing import Any

import numpy as np
import pytest

from converter.errors import UnsupportedError
from tests.coreml.running import Array, Body, compute, op

F = np.float32
LINE, ROWS, IMAGE = np.ones((1, 2, 4), F), np.ones((2, 3), F), np.ones((2, 3, 4, 5), F)
WHOLE = np.array([7, 8], np.int32)
KERNEL = np.ones((2, 3, 3), F)


def _resized(height: int, width: int, mode: str) -> Body:
    how = {"interpolation_mode": "NEAREST_NEIGHBOR", "sampling_mode": mode}
    return op.resize(shape=[height, width], resized_dims=np.uint32(2), **how)


def _clipped(mb: Any, x: Any) -> Any:
    weights = {"weight_ih": np.ones((20, 4), F), "weight_hh": np.ones((20, 5), F)}
    start = {"initial_h": np.zeros((2, 5), F), "initial_c": np.zeros((2, 5), F)}
    return mb.lstm(x=x, **start, **weights, clip=F(2))


@pytest.mark.parametrize(("body", "x", "free", "reason"), [
    (op.real_div(y=WHOLE), WHOLE, (), "rounding"),
    (lambda mb, x: mb.scatter(data=x, indices=[1], updates=[2], mode="div"), WHOLE, (),
     "rounding isn't documented"),
    (op.matmul(y=np.full((3, 2), 0.5, F)), ROWS.astype(np.int32), (), "fractions"),
    (lambda mb, x: mb.gather(x=mb.relu(x=x), indices=[0, -2], axis=1), IMAGE, (),
     "go down to -2"),
    (op.local_response_norm(size=2), IMAGE, (), "which side"),
    (op.conv_transpose(weight=KERNEL, output_shape=[1, 3, 6]), LINE, [2], "free"),
    (op.max_pool(kernel_sizes=[1], strides=[3], pad_type="valid", ceil_mode=True),
     np.ones((1, 2, 5), F), (), "after the input"),
    (_clipped, LINE.repeat(2, 1).reshape(1, 4, 4)[:, :2], (), "clips the cell's state"),
    # of 5 pixels made 9 between the outer centers, each second lies in the middle of two
    (_resized(4, 9, "ALIGN_CORNERS"), IMAGE, (), "nearest under ALIGN_CORNERS"),
    (_resized(6, 5, "OFFSET_CORNERS"), IMAGE, (), "nearest under OFFSET_CORNERS"),
])  # fmt: skip
def test_it_says_why(body: Body, x: Array, free: Any, reason: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        compute(body, {"x": x}, free={"x": free} if free else None)
    assert reason in caught.value.items[0].reason


def test_random_numbers_are_all_listed() -> None:
    kinds = ("normal", "uniform", "bernoulli")

    def body(mb: Any, x: Any) -> list[Any]:
        shape = np.array([2, 3], np.int32)
        drawn = [getattr(mb, f"random_{kind}")(shape=shape, seed=1) for kind in kinds]
        return [*drawn, mb.random_categorical(x=x, size=2, seed=1)]

    with pytest.raises(UnsupportedError, match="4 operations") as caught:
        compute(body, {"x": ROWS})
    expected = {f"random_{kind}" for kind in (*kinds, "categorical")}
    assert {item.op for item in caught.value.items} == expected
    assert all("compared" in item.reason for item in caught.value.items)
