"""Elements taken from where indices say, and chosen: values by numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.errors import ModelError, UnsupportedError
from parsers.coreml_import.importer import read
from tests.coreml.running import Body, agrees, compute, write

RNG = np.random.default_rng(5)
X = RNG.uniform(-3, 3, (3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("target", [15, 17])
def test_gather(target: int) -> None:
    indices, axes = np.array([[2, 0], [1, 1]], np.int32), (0, 1, -1)

    def body(mb: Any, x: Any, i: Any) -> Any:
        several = [mb.gather(x=x, indices=i, axis=axis) for axis in axes]
        return several + [mb.gather(x=x, indices=2, axis=axis) for axis in axes]

    found = compute(body, {"x": X, "i": indices}, target=target)
    for y, z, axis in zip(found[:3], found[3:], axes, strict=True):
        agrees(y, X.take(indices, axis))
        agrees(z, X.take(2, axis))


def test_negative_indices_count_from_the_end_until_ios16() -> None:
    indices = np.array([-1, 0, -3], np.int32)
    (y,) = compute(
        lambda mb, x, i: mb.gather(x=x, indices=i, axis=1), {"x": X, "i": indices}, target=16
    )
    agrees(y, X.take(indices, 1))


def test_from_ios17_on_they_are_out_of_bounds() -> None:
    with pytest.raises(UnsupportedError) as error:
        compute(lambda mb, x: mb.gather(x=mb.relu(x=x), indices=[0, -2], axis=1), {"x": X})
    assert "go down to -2" in error.value.items[0].reason


def _gathered(kind: str) -> Body:
    return lambda mb, x, i: getattr(mb, kind)(x=x, indices=i)


def _scattered(kind: str) -> Body:
    return lambda mb, x, i: getattr(mb, kind)(data=x, indices=i, updates=x, mode="update")


@pytest.mark.parametrize(
    ("body", "indices"),
    [
        (_gathered("gather"), [0, -1]),
        (lambda mb, x, i: mb.gather(x=x, indices=i, axis=1, batch_dims=1), [[0], [-2], [1]]),
        (_gathered("gather_along_axis"), [[0, 1, 2, 0]] * 2 + [[0, 1, -1, 0]]),
        (_gathered("gather_nd"), [[0, 1], [2, -1]]),
        (_scattered("scatter"), [0, 1, -1]),
        (_scattered("scatter_along_axis"), [[0, 1, 2, 0]] * 2 + [[0, 1, -1, 0]]),
        (_scattered("scatter_nd"), [[0], [-2], [1]]),
    ],
)
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


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 2, 2)])
def test_gather_of_each_batch_its_own(shape: tuple[int, ...]) -> None:
    indices = RNG.integers(0, 4, shape).astype(np.int32)

    def body(mb: Any, x: Any, i: Any) -> Any:
        return [mb.gather(x=x, indices=i, axis=axis, batch_dims=1) for axis in (1, 2)]

    found = compute(body, {"x": X, "i": indices}, target=16)
    for y, axis in zip(found, (1, 2), strict=True):
        agrees(y, np.stack([X[b].take(indices[b], axis - 1) for b in range(3)]))


def test_gather_of_two_batch_axes() -> None:
    indices = RNG.integers(0, 5, (3, 4, 2)).astype(np.int32)
    (y,) = compute(
        lambda mb, x, i: mb.gather(x=x, indices=i, axis=2, batch_dims=2),
        {"x": X, "i": indices},
        free={"x": [0], "i": [0]},
    )
    agrees(y, np.take_along_axis(X, indices.astype(np.int64), 2))


def test_narrow_indices() -> None:
    (y,) = compute(
        lambda mb, x, i: mb.gather(x=x, indices=mb.cast(x=i, dtype="uint16"), axis=0),
        {"x": X, "i": np.array([2, 0], np.int32)},
    )
    agrees(y, X[[2, 0]])


def test_gather_along_axis() -> None:
    indices = RNG.integers(0, 4, (3, 2, 5)).astype(np.int32)
    (y,) = compute(
        lambda mb, x, i: mb.gather_along_axis(x=x, indices=i, axis=1), {"x": X, "i": indices}
    )
    agrees(y, np.take_along_axis(X, indices.astype(np.int64), 1))


def test_gather_nd() -> None:
    indices = np.array([[[0, 1], [2, 3]], [[1, 0], [2, 2]]], np.int32)
    (y,) = compute(lambda mb, x, i: mb.gather_nd(x=x, indices=i), {"x": X, "i": indices})
    agrees(y, X[indices[..., 0], indices[..., 1]])


def test_gather_nd_of_each_batch_its_own() -> None:
    indices = np.array([[[0, 4], [3, 1]], [[1, 0], [2, 2]], [[3, 3], [0, 0]]], np.int32)
    (y,) = compute(
        lambda mb, x, i: mb.gather_nd(x=x, indices=i, batch_dims=1), {"x": X, "i": indices}
    )
    agrees(y, np.stack([X[b][indices[b, :, 0], indices[b, :, 1]] for b in range(3)]))


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "int32", "bool"])
def test_select(dtype: str) -> None:
    def body(mb: Any, x: Any, y: Any) -> Any:
        a, b = mb.cast(x=x, dtype=dtype), mb.cast(x=y, dtype=dtype)
        chosen = mb.select(cond=mb.greater(x=x, y=1.0), a=a, b=b)
        return mb.cast(x=chosen, dtype="int32")

    x, y = (RNG.integers(0, 3, shape).astype(np.float32) for shape in ((3, 4, 5), (4, 1)))
    (z,) = compute(body, {"x": x, "y": y})
    a, b = (v != 0 if dtype == "bool" else v for v in (x, y))
    agrees(z, np.where(x > 1, a, b).astype(np.int32))
