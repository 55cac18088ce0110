"""Reductions: axes, integers, free sizes."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.coreml_emitter.running import (
    Array,
    agree,
    emitted,
    kinds,
    numbers,
    parsed,
    refusals,
    run_package,
)

_OPS = ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
        "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"]  # fmt: skip


def _all(
    dtype: str, given: str, out: str, axes: str, attributes: str, ops: list[str] = _OPS
) -> str:
    """A graph of all reductions of one input."""
    outputs = ", ".join(f"{dtype}{out} {op}" for op in ops)
    nodes = " ".join(f"{op} = {op}<{attributes}>(x{', axes' if axes else ''})" for op in ops)
    constant = f"axes = Constant<value_ints=[{axes}]>()" if axes else ""
    return f"g ({dtype}{given} x) => ({outputs}) {{ {constant} {nodes} }}"


@pytest.mark.parametrize(
    ("axes", "keep", "out"),
    [
        ("-1", 1, "[n,m,1]"),
        ("0, 2", 0, "[m]"),
        ("1", 0, "[n,3]"),
        ("", 1, "[1,1,1]"),
        ("", 0, ""),
    ],
)
def test_axes(axes: str, keep: int, out: str) -> None:
    """Some, or all; kept, or not; of free sizes, too."""
    model = parsed(_all("float", "[n,m,3]", out, axes, f"keepdims={keep}"))
    feeds = [{"x": np.abs(numbers(*shape, 3)) + 0.1} for shape in ((2, 4), (3, 1))]
    agree(model, feeds)


def test_no_axes() -> None:
    """Where ONNX says so, each element is reduced by itself; MIL's operations reduce all."""
    ops = [op for op in _OPS if op not in ("ReduceL1", "ReduceL2", "ReduceLogSum")]
    ops.remove("ReduceSumSquare")  # of these, ONNX Runtime leaves the elements as they are
    text = _all("float", "[n,3]", "[n,3]", "", "noop_with_empty_axes=1", ops)
    agree(parsed(text), {"x": numbers(2, 3)})


def test_of_a_number(tmp_path: Path) -> None:
    """Without axes there is one element."""
    text = _all("float", "", "", "", "keepdims=1")
    x = np.asarray(2.5, np.float32)
    found = run_package(emitted(parsed(text), tmp_path), {"x": x})
    values = {"ReduceLogSum": np.log(x), "ReduceSumSquare": x * x}
    for op in _OPS:
        np.testing.assert_allclose(found[op], values.get(op, x), rtol=1e-6, err_msg=op)


def test_of_integers(tmp_path: Path) -> None:
    """A mean has no fraction, whatever its sign; roots have none, either."""
    x = np.asarray([[-7, 2, 1], [5, 5, 1], [-1, -1, 0]], np.int32)
    text = _all("int32", "[n,m]", "[n]", "1", "keepdims=0")
    found = run_package(emitted(parsed(text), tmp_path), {"x": x})
    expected = {
        "ReduceL1": np.abs(x).sum(1),
        "ReduceL2": np.trunc(np.sqrt((x * x).sum(1))),
        "ReduceMax": x.max(1),
        "ReduceMean": np.trunc(x.sum(1) / 3),
        "ReduceMin": x.min(1),
        "ReduceProd": x.prod(1),
        "ReduceSum": x.sum(1),
        "ReduceSumSquare": (x * x).sum(1),
    }
    for name, array in expected.items():
        assert found[name].tolist() == array.tolist(), name


def test_mean_of_integers_over_all() -> None:
    """Of a free number of them."""
    model = parsed("g (int64[n,m] x) => (int64 y) { y = ReduceMean<keepdims=0>(x) }")
    run_of = {"x": np.arange(6).reshape(2, 3) - 7}
    agree(parsed("g (int32[n,m] x) => (int32 y) { y = ReduceMean<keepdims=0>(x) }"), _int32(run_of))
    assert not refusals(model)


def _int32(feeds: dict[str, Array]) -> dict[str, Array]:
    return {name: array.astype(np.int32) for name, array in feeds.items()}


def test_of_truth_values() -> None:
    """The largest is whether any holds, the least whether all do."""
    axes = "axes = Constant<value_ints=[1]>()"
    text = f"""g (bool[n,2] x) => (bool[n,1] any, bool[n,1] all) {{
        {axes} any = ReduceMax(x, axes) all = ReduceMin(x, axes)
    }}"""
    x = np.asarray([[True, True], [True, False], [False, False]])
    agree(parsed(text), {"x": x})


def test_computed_axes_are_refused() -> None:
    """MIL's are constants."""
    model = parsed("g (float[n,3] x, int64[1] a) => (float[?,?] y) { y = ReduceSum(x, a) }")
    assert "computed at run time" in refusals(model)[0].reason


# -- CumSum ------------------------------------------------------------------------------


def test_cumulative_sum() -> None:
    """From either end, with the element itself or without, along each axis."""
    outputs, nodes = [], [f"a{axis % 5} = Constant<value_int={axis}>()" for axis in (0, 1, -1)]
    for axis, exclusive, reverse in product((0, 1, -1), (0, 1), (0, 1)):
        name = f"y{axis % 5}{exclusive}{reverse}"
        outputs.append(f"float[n,m,3] {name}")
        options = f"exclusive={exclusive}, reverse={reverse}"
        nodes.append(f"{name} = CumSum<{options}>(x, a{axis % 5})")
    text = f"g (float[n,m,3] x) => ({', '.join(outputs)}) {{ {' '.join(nodes)} }}"
    agree(parsed(text), [{"x": numbers(2, 4, 3)}, {"x": numbers(3, 1, 3)}])


def test_cumulative_sum_of_integers(tmp_path: Path) -> None:
    """int64 in int32."""
    text = "g (int64[n] x) => (int64[n] y) { a = Constant<value_int=0>() y = CumSum(x, a) }"
    package = emitted(parsed(text), tmp_path)
    assert kinds(package) == ["cumsum"]
    found = run_package(package, {"x": np.asarray([5, -7, 100])})["y"]
    assert found.tolist() == [5, -2, 98]
