"""ScatterElements and ScatterND: reductions, indices that come twice, negative ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.coreml_emitter.running import agree, numbers, parsed, refusals

TWICE = np.array([[0, -1, 0], [1, 1, -2]])


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("kind", ["float", "int64"])
def test_scatter_elements_reduces(reduction: str, kind: str) -> None:
    model = parsed(f"""
        g ({kind}[b, n] x, int64[b, 3] i, {kind}[b, 3] u) => ({kind}[b, n] y)
        {{ y = ScatterElements<axis = 1, reduction = "{reduction}">(x, i, u) }}""")
    dtype = np.dtype({"float": "float32"}.get(kind, kind))
    feeds = {"x": np.arange(8).reshape(2, 4), "i": TWICE, "u": np.arange(2, 8).reshape(2, 3)}
    agree(model, {k: a if k == "i" else a.astype(dtype) for k, a in feeds.items()})


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatter_elements_of_fewer_rows(reduction: str) -> None:
    model = parsed(f"""
        g (float[b, n, 3] x, int64[c, m, 3] i, float[c, m, 3] u) => (float[b, n, 3] y)
        {{ y = ScatterElements<axis = 1, reduction = "{reduction}">(x, i, u) }}""")
    index = np.array([[[0, -1, 2], [1, -2, 3]]])
    feeds = [{"x": numbers(b, 4, 3), "i": index, "u": numbers(1, 2, 3)} for b in (3, 1)]
    agree(model, feeds)


def test_scatter_elements_of_known_sizes() -> None:
    """Where rows are as many, it is one operation; constants are computed right in every mode."""
    model = parsed("""
        g (float[2, 3] u) => (float[2, 4] y, float[2, 4] z)
        <float[2, 4] x = {1, 2, 3, 4, 5, 6, 7, 8}, int64[2, 3] i = {0, -1, 0, 1, 1, -2},
         float[2, 3] c = {1, 2, 3, 4, 5, 6}> {
            y = ScatterElements<axis = 1, reduction = "add">(x, i, u)
            z = ScatterElements<axis = 1, reduction = "add">(x, i, c)
        }""")
    agree(model, {"u": numbers(2, 3)})


@pytest.mark.parametrize("target", [15, 17])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_nd_of_slices(reduction: str, target: int) -> None:
    model = parsed(f"""
        g (float[b, n, 2] x, int64[m, 2] i, float[m, 2] u) => (float[b, n, 2] y)
        {{ y = ScatterND<reduction = "{reduction}">(x, i, u) }}""")
    index = np.array([[0, -1], [-1, 0], [0, 2 if reduction != "none" else 0]])
    feeds = [{"x": numbers(b, 3, 2), "i": index, "u": numbers(3, 2)} for b in (2, 4)]
    agree(model, feeds, target=target)


def test_scatter_nd_of_booleans() -> None:
    model = parsed("""
        g (bool[b, 3] x, bool[2] u) => (bool[b, 3] y)
        <int64[2, 2] i = {0, -1, -1, 0}> { y = ScatterND(x, i, u) }""")
    agree(model, {"x": numbers(2, 3) > 0, "u": np.array([True, False])})


def test_sums_that_may_wrap_around_are_refused() -> None:
    model = parsed("""
        g (int8[4] x, int64[2] i, int8[2] u) => (int8[4] y)
        { y = ScatterElements<reduction = "add">(x, i, u) }""")
    assert "wrap around" in refusals(model)[0].reason
