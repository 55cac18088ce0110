"""cond, while_loop, lists and states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import agrees, check, compute

X = np.random.default_rng(11).uniform(-3, 3, (3, 4)).astype(np.float32)


@pytest.mark.parametrize("flag", [-1.0, 1.0])
def test_cond(flag: float) -> None:
    def body(mb: Any, x: Any, flag: Any) -> Any:
        outside = mb.mul(x=x, y=2.0)
        one = mb.squeeze(x=mb.greater(x=flag, y=0.0), axes=[0])

        def true() -> Any:
            return mb.add(x=outside, y=1.0), x

        def false() -> Any:
            return outside, mb.const(val=np.ones((3, 4), np.float32))

        return mb.cond(pred=one, _true_fn=true, _false_fn=false)

    expected = [X * 2 + 1, X] if flag > 0 else [X * 2, np.ones_like(X)]
    check([(body, expected)], {"x": X, "flag": np.array([flag], np.float32)})


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_while_loop(rounds: int) -> None:
    def body(mb: Any, x: Any, n: Any) -> Any:
        last = mb.squeeze(x=n, axes=[0])

        def test(i: Any, y: Any) -> Any:
            return mb.less(x=i, y=last)

        def turn(i: Any, y: Any) -> Any:
            return mb.add(x=i, y=1), mb.add(x=mb.mul(x=y, y=0.5), y=x)

        return mb.while_loop(_cond=test, _body=turn, loop_vars=(0, x))

    i, y = compute(body, {"x": X, "n": np.array([rounds], np.int32)})
    expected = X
    for _ in range(rounds):
        expected = expected * np.float32(0.5) + X
    agrees(i.reshape(()), np.int32(rounds))
    agrees(y, expected)


def test_a_condition_within_a_loop_with_what_stays_and_what_is_swapped() -> None:
    def body(mb: Any, x: Any, y: Any) -> Any:
        def test(i: Any, a: Any, b: Any) -> Any:
            return mb.less(x=i, y=3)

        def turn(i: Any, a: Any, b: Any) -> Any:
            odd = mb.equal(x=mb.mod(x=i, y=2), y=1)
            c = mb.cond(pred=odd, _true_fn=lambda: mb.add(x=a, y=y), _false_fn=lambda: a)
            return mb.add(x=i, y=1), b, c

        return mb.while_loop(_cond=test, _body=turn, loop_vars=(0, x, y))[1:]

    p, q = X, X + 1
    for i in range(3):
        p, q = q, p + (X + 1) if i % 2 else p
    check([(body, [p, q])], {"x": X, "y": X + 1})


def test_a_list_that_a_loop_writes() -> None:
    def body(mb: Any, x: Any) -> Any:
        rows = mb.make_list(init_length=3, elem_shape=(4,), dynamic_length=False, dtype="fp32")

        def test(i: Any, rows: Any) -> Any:
            return mb.less(x=i, y=mb.list_length(ls=rows))

        def turn(i: Any, rows: Any) -> Any:
            row = mb.gather(x=x, indices=mb.sub(x=2, y=i), axis=0)
            return mb.add(x=i, y=1), mb.list_write(ls=rows, index=i, value=row)

        _, rows = mb.while_loop(_cond=test, _body=turn, loop_vars=(0, rows))
        return mb.list_gather(ls=rows, indices=[0, 1, 2]), mb.list_read(ls=rows, index=1)

    check([(body, [X[::-1], X[1]])], {"x": X})


def test_a_list_grows() -> None:
    def body(mb: Any, x: Any) -> Any:
        rows = mb.make_list(init_length=1, elem_shape=(4,), dynamic_length=True, dtype="fp32")
        rows = mb.list_scatter(ls=rows, indices=[2, 0, 1], value=x)
        rows = mb.list_write(ls=rows, index=4, value=mb.gather(x=x, indices=0, axis=0))
        length = mb.list_length(ls=rows)
        return mb.list_gather(ls=rows, indices=[0, 1, 2, 4]), mb.expand_dims(x=length, axes=[0])

    check([(body, [X[[1, 2, 0, 0]], np.array([5])])], {"x": X})
