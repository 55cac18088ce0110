"""ScatterElements and ScatterND: reductions, indices that come twice, negative ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.coreml_emitter.running import agree, emitted, kinds, numbers, parsed, refusals
from tests.coreml_emitter.several import several

REDUCTIONS = ("none", "add", "mul", "max", "min")
TWICE = np.array([[0, -1, 0], [1, 1, -2]])


@pytest.mark.parametrize("kind", ["float", "int64"])
def test_scatter_elements_reduces(kind: str) -> None:
    nodes = [
        f'ScatterElements<axis = 1, reduction = "{reduction}">(x, i, u)'
        for reduction in REDUCTIONS[1:]
    ]
    model = several(f"{kind}[b, n] x, int64[b, 3] i, {kind}[b, 3] u", kind, nodes)
    dtype = {"float": np.float32, "int64": np.int64}[kind]
    x, u = np.arange(8).reshape(2, 4), np.arange(2, 8).reshape(2, 3)
    agree(model, {"x": x.astype(dtype), "i": TWICE, "u": u.astype(dtype)})


def test_scatter_elements_of_fewer_rows() -> None:
    nodes = [
        f'ScatterElements<axis = 1, reduction = "{reduction}">(x, i, u)'
        for reduction in ("none", "add")
    ]
    model = several("float[b, n, 3] x, int64[c, m, 3] i, float[c, m, 3] u", "float", nodes)
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
def test_scatter_nd_of_slices(target: int) -> None:
    """Without a reduction no index comes twice: ONNX leaves open which update stays."""
    nodes = [f'ScatterND<reduction = "{reduction}">(x, i, u)' for reduction in REDUCTIONS[1:]]
    nodes.append("ScatterND(x, j, u)")
    ports = "float[b, n, 2] x, int64[m, 2] i, int64[m, 2] j, float[m, 2] u"
    model = several(ports, "float", nodes)
    twice, once = np.array([[0, -1], [-1, 0], [0, 2]]), np.array([[0, -1], [-1, 0], [0, 0]])
    feeds = [{"x": numbers(b, 3, 2), "i": twice, "j": once, "u": numbers(3, 2)} for b in (2, 4)]
    agree(model, feeds, target=target)


@pytest.mark.parametrize("kind", ["ScatterND", "ScatterElements"])
def test_indices_are_made_positive(kind: str, tmp_path: Path) -> None:
    """ONNX Runtime, which runs what is read back, takes negative ones; MIL doesn't."""
    updates = "float[m, 1]" if kind == "ScatterElements" else "float[m, n]"
    model = several(f"float[b, n] x, int64[m, 1] i, {updates} u", "float", [f"{kind}(x, i, u)"])
    assert kinds(emitted(model, tmp_path)).count("select") == 1


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
