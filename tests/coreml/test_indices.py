"""Elements taken from, and written to, where indices say, and chosen: values by numpy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.errors import ModelError
from parsers.coreml.importer import read
from tests.coreml.running import Array, Body, cast, check, compute, drawing, write

RNG = np.random.default_rng(5)
X = drawing(5, -3, 3)(3, 4, 5)


def at(kind: str, **how: Any) -> Body:
    """Elements of x by indices i; written, where there are updates u."""

    def body(mb: Any, x: Any, i: Any, u: Any = None) -> Any:
        taken = {"x": x} if u is None else {"data": x, "updates": u}
        return getattr(mb, kind)(**taken, **({"indices": i} | how))

    return body


def test_negative_indices_count_from_the_end_until_ios16() -> None:
    indices = np.array([-1, 0, -3], np.int32)
    check([(at("gather", axis=1), X.take(indices, 1))], {"x": X, "i": indices}, target=16)


def _scattered(kind: str) -> Body:
    return lambda mb, x, i: getattr(mb, kind)(data=x, indices=i, updates=x, mode="update")


@pytest.mark.parametrize(("body", "indices"), [
    (at("gather"), [0, -1]),
    (at("gather", axis=1, batch_dims=1), [[0], [-2], [1]]),
    (at("gather_along_axis"), [[0, 1, 2, 0]] * 2 + [[0, 1, -1, 0]]),
    (at("gather_nd"), [[0, 1], [2, -1]]),
    (_scattered("scatter"), [0, 1, -1]),
    (_scattered("scatter_along_axis"), [[0, 1, 2, 0]] * 2 + [[0, 1, -1, 0]]),
    (_scattered("scatter_nd"), [[0], [-2], [1]]),
])  # fmt: skip
@pytest.mark.parametrize("target", [16, 17])
def test_what_is_computed_may_be_out_of_bounds_too(body: Body, indices: Any, target: int) -> None:
    """What the same numbers from 0 on do tells that it isn't anything else."""
    x, below = X[:, :, 0], np.asarray(indices, np.int32)
    compute(body, {"x": x, "i": np.abs(below)}, target=target)
    if target < 17:
        compute(body, {"x": x, "i": below}, target=target)
        return
    with pytest.raises(ModelError, match=r"indices element|GatherElements|invalid ind"):
        compute(body, {"x": x, "i": below}, target=target)


def test_what_counts_from_the_start_itself_is_read_as_it_is(tmp_path: Path) -> None:
    """As Apple's documentation has it; with another axis' size it isn't taken for that."""

    def body(mb: Any, x: Any, i: Any) -> Any:
        inside = mb.greater_equal(x=i, y=0)
        raised = {size: mb.select(cond=inside, a=i, b=mb.add(x=i, y=size)) for size in (4, 3)}
        return [mb.gather(x=x, indices=raised[size], axis=1) for size in (4, 3)]

    package = write(tmp_path, body, {"x": X, "i": np.zeros(2, np.int32)})
    kinds = [node.op_type for node in read(package).nodes()]
    assert kinds.count("Gather") == 2 and kinds.count("Less") == 1


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "int32", "bool"])
def test_select(dtype: str) -> None:
    def body(mb: Any, x: Any, y: Any) -> Any:
        a, b = mb.cast(x=x, dtype=dtype), mb.cast(x=y, dtype=dtype)
        return mb.select(cond=mb.greater(x=x, y=1.0), a=a, b=b)

    chance = np.random.default_rng(8)
    x, y = (chance.integers(0, 3, shape).astype(np.float32) for shape in ((3, 4, 5), (4, 1)))
    a, b = (v != 0 if dtype == "bool" else v for v in (x, y))
    check([(cast(body), np.where(x > 1, a, b).astype(np.int32))], {"x": x, "y": y})


DATA = drawing(6, 1, 3)(4, 3, 5)
MODES: dict[str, Any] = {
    "update": lambda old, new: new, "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "div": np.divide, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def _written(x: Array, where: Any, updates: Array, mode: str) -> Array:
    expected = x.copy()
    expected[where] = MODES[mode](x[where], updates)
    return expected


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter(axis: int, dtype: Any) -> None:
    indices, x = np.array([2, 0], np.int32), DATA.astype(dtype)
    shape = [2 if n == axis else size for n, size in enumerate(x.shape)]
    updates, where = drawing(9, 1, 3)(*shape).astype(dtype), (slice(None),) * axis + (indices,)
    cases = [
        (at("scatter", axis=axis, mode=mode), _written(x, where, updates, mode)) for mode in MODES
    ]
    check(cases, {"x": x, "i": indices, "u": updates})


def test_scatter_along_axis_and_of_several() -> None:
    draw = drawing(9, 1, 3)
    indices = np.argsort(draw(4, 3, 5), 1)[:, :2].astype(np.int32)
    first, _, last = np.indices(indices.shape)
    updates = draw(4, 2, 5)
    cases = [
        (at("scatter_along_axis", axis=1, mode=mode),
         _written(DATA, (first, indices, last), updates, mode)) for mode in MODES
    ]  # fmt: skip
    check(cases, {"x": DATA, "i": indices, "u": updates})
    pairs, rows = np.array([[3, 0], [0, 2]], np.int32), draw(2, 5)
    where = (pairs[:, 0], pairs[:, 1])
    cases = [(at("scatter_nd", mode=mode), _written(DATA, where, rows, mode)) for mode in MODES]
    check(cases, {"x": DATA, "i": pairs, "u": rows})


def test_an_index_may_come_more_than_once() -> None:
    x, updates = np.array([[7], [6], [9]], np.float32), np.array([[2], [4]], np.float32)
    expected = {"add": 12, "sub": 0, "mul": 48, "div": 0.75, "max": 6, "min": 2}
    cases = [
        (lambda mb, x, u, mode=mode: mb.scatter(
            data=x, indices=[1, 1], updates=u, axis=0, mode=mode),
         np.array([[7], [number], [9]], np.float32))
        for mode, number in expected.items()
    ]  # fmt: skip
    check(cases, {"x": x, "u": updates})
