"""Comparisons, truth values and Where."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.coreml_emitter.joined import Case, check, numpy_type
from tests.coreml_emitter.running import Array, agree, emitted, kinds, numbers, parsed, run_package

_COMPARISONS = ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"]


def _of(dtype: str, *shape: int, seed: int = 0) -> Array:
    made = np.random.default_rng(seed).integers(0, 3, shape)
    return made.astype(numpy_type(dtype))


def _all(given: str, shape: str, a: str = "a", b: str = "b") -> str:
    """A graph of all comparisons of two inputs."""
    outputs = ", ".join(f"bool{shape} {op}" for op in _COMPARISONS)
    nodes = " ".join(f"{op} = {op}({a}, {b})" for op in _COMPARISONS)
    return f"g ({given}) => ({outputs}) {{ {nodes} }}"


@pytest.mark.parametrize("dtype", ["float", "int32", "int64", "uint8"])
def test_comparison(dtype: str) -> None:
    """Of what broadcasts along a free axis."""
    model = parsed(_all(f"{dtype}[n,3] a, {dtype}[4,1,3] b", "[4,n,3]"))
    feeds = [{"a": _of(dtype, size, 3), "b": _of(dtype, 4, 1, 3, seed=1)} for size in (2, 5)]
    agree(model, feeds)


def test_comparison_with_no_number() -> None:
    """Never holds; zeros of both signs are equal."""
    a = np.asarray([np.nan, np.nan, 1.0, 0.0, np.inf], np.float32)
    b = np.asarray([np.nan, 1.0, np.nan, -0.0, np.inf], np.float32)
    agree(parsed(_all("float[n] a, float[n] b", "[n]")), {"a": a, "b": b})
    text = "g (float[n] x) => (bool[n] y) { y = IsNaN(x) }"
    assert agree(parsed(text), {"x": a})["y"].tolist() == [True, True, False, False, False]


def test_truth_values() -> None:
    """All four pairs."""
    a, b = np.asarray([True, True, False, False]), np.asarray([True, False, True, False])
    ops = ["And", "Or", "Xor", "Equal"]
    outputs = ", ".join(f"bool[n] {op}" for op in ops)
    nodes = " ".join(f"{op}_ = {op}(a, b) {op} = Not({op}_)" for op in ops)
    agree(parsed(f"g (bool[n] a, bool[n] b) => ({outputs}) {{ {nodes} }}"), {"a": a, "b": b})


def test_is_infinite(tmp_path: Path) -> None:
    """On the sides asked for; the largest number isn't."""
    cases = []
    for up, down, dtype in product((0, 1), (0, 1), ("float", "float16")):
        kind = numpy_type(dtype)
        largest = np.finfo(kind).max  # type: ignore[arg-type]
        x = np.asarray([np.inf, -np.inf, np.nan, largest, -largest, 0], kind)
        expected = np.asarray([bool(up), bool(down), False, False, False, False])
        op = f"IsInf<detect_positive={up}, detect_negative={down}>"
        cases.append(Case(op, [dtype], "bool", [x], expected))
    check(cases, tmp_path)


_SHAPES: list[tuple[tuple[int, ...], ...]] = [
    ((2, 3), (2, 3), (2, 3)),
    ((2, 3), (3,), (1,)),
    ((2, 3), (), ()),
    ((2, 1), (1, 3), (3,)),
    ((4, 2, 3), (2, 1), (3,)),
    ((1,), (2, 3), (2, 1)),
    ((2, 3), (1,), (2, 1)),
]


@pytest.mark.parametrize("dtype", ["float", "bool", "int64"])
@pytest.mark.parametrize("known", [False, True])
def test_where(dtype: str, known: bool, tmp_path: Path) -> None:
    """The condition may have the most axes; sizes may be free."""
    inputs, outputs, nodes, feeds, expected = [], [], [], {}, {}
    for number, shapes in enumerate(_SHAPES):
        for name, kind, shape in zip("cab", ("bool", dtype, dtype), shapes, strict=True):
            inputs.append(f"{kind}{_shape(shape, known)} {name}{number}")
            feeds[f"{name}{number}"] = _of(kind, *shape, seed=ord(name))
        outputs.append(f"{dtype}{_shape(np.broadcast_shapes(*shapes), known)} y{number}")
        nodes.append(f"y{number} = Where(c{number}, a{number}, b{number})")
        expected[f"y{number}"] = np.where(*(feeds[f"{name}{number}"] for name in "cab"))
    text = f"g ({', '.join(inputs)}) => ({', '.join(outputs)}) {{ {' '.join(nodes)} }}"
    found = run_package(emitted(parsed(text), tmp_path), feeds)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def _shape(sizes: Sequence[int], known: bool) -> str:
    """In ONNX's text; 2 and 4 are free sizes."""
    dims = [str(size) if known or size in (1, 3) else f"n{size}" for size in sizes]
    return f"[{', '.join(dims)}]" if dims else ""


def test_where_keeps_every_number() -> None:
    """Broadcasting a branch to the condition makes NaN of none."""
    text = "g (bool[n,4] c, float[4] a, float b) => (float[n,4] y) { y = Where(c, a, b) }"
    a = np.asarray([np.inf, 0.0, np.nan, -np.inf], np.float32)
    c = np.asarray([[True] * 4, [False] * 4])
    agree(parsed(text), {"c": c, "a": a, "b": np.asarray(np.inf, np.float32)})


def test_masked_scores(tmp_path: Path) -> None:
    """One select: a mask as large as the scores needs no more."""
    text = """g (bool[n,1,s,s] m, float[n,4,s,s] x) => (float[n,4,s,s] y) {
        low = Constant<value_float=-1e9>()
        y = Where(m, x, low)
    }"""
    package = emitted(parsed(text), tmp_path)
    assert kinds(package) in (["cast", "select"], ["cast", "select", "identity"])
    m = np.tril(np.ones((2, 1, 3, 3), bool))
    found = run_package(package, {"m": m, "x": numbers(2, 4, 3, 3)})["y"]
    assert (found == np.float32(-1e9)).sum() == 2 * 4 * 3
