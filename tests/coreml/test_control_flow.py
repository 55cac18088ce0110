"""cond, while_loop, lists and states."""

from typing import Any

import numpy as np

from tests.coreml.running import check

X = np.random.default_rng(11).uniform(-3, 3, (3, 4)).astype(np.float32)


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


def test_a_list_grows() -> None:
    def body(mb: Any, x: Any) -> Any:
        rows = mb.make_list(init_length=1, elem_shape=(4,), dynamic_length=True, dtype="fp32")
        rows = mb.list_scatter(ls=rows, indices=[2, 0, 1], value=x)
        rows = mb.list_write(ls=rows, index=4, value=mb.gather(x=x, indices=0, axis=0))
        length = mb.list_length(ls=rows)
        return mb.list_gather(ls=rows, indices=[0, 1, 2, 4]), mb.expand_dims(x=length, axes=[0])

    check([(body, [X[[1, 2, 0, 0]], np.array([5])])], {"x": X})
