"""ArgMax, ArgMin and TopK, of equal numbers above all."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from emitters.coreml import limits
from tests.coreml_emitter.running import (
    agree,
    emitted,
    kinds,
    numbers,
    parsed,
    refusals,
    run_package,
)


@pytest.mark.parametrize("dtype", ["float", "int32"])
def test_places(dtype: str) -> None:
    """The first of equal numbers or the last, kept or not, along free axes, too."""
    outputs, nodes = [], []
    for op, axis, last, keep in product(("ArgMax", "ArgMin"), (0, 1, -1), (0, 1), (0, 1)):
        dims = ["n", "m", "3"]
        dims[axis : axis + 1 or None] = ["1"] * keep
        name = f"{op}{axis % 3}{last}{keep}"
        outputs.append(f"int64[{','.join(dims)}] {name}")
        options = f"axis={axis}, select_last_index={last}, keepdims={keep}"
        nodes.append(f"{name} = {op}<{options}>(x)")
    text = f"g ({dtype}[n,m,3] x) => ({', '.join(outputs)}) {{ {' '.join(nodes)} }}"
    kind = np.float32 if dtype == "float" else np.int32
    generator = np.random.default_rng(3)
    feeds = [{"x": generator.integers(0, 3, (n, m, 3)).astype(kind)} for n, m in ((4, 5), (1, 2))]
    agree(parsed(text), feeds)


def test_place_is_one_of_the_axis(tmp_path: Path) -> None:
    """Even where no number is."""
    model = parsed("g (float[n,3] x) => (int64[n,1] y) { y = ArgMax<axis=1>(x) }")
    package = emitted(model, tmp_path)
    x = np.full((2, 3), np.nan, np.float32)
    found = run_package(package, {"x": x})["y"]
    assert ((found >= 0) & (found < 3)).all()


@pytest.mark.parametrize("target", [15, 17])
def test_topk(target: int) -> None:
    """Of a constant k."""
    outputs, nodes = [], ["k = Constant<value_ints=[2]>()"]
    for axis, largest in product((0, 1, -1), (0, 1)):
        dims = ["n", "5", "4"]
        dims[axis] = "2"
        v, i = (f"{name}{axis % 3}{largest}" for name in "vi")
        outputs += [f"float[{','.join(dims)}] {v}", f"int64[{','.join(dims)}] {i}"]
        nodes.append(f"{v}, {i} = TopK<axis={axis}, largest={largest}>(x, k)")
    text = f"g (float[n,5,4] x) => ({', '.join(outputs)}) {{ {' '.join(nodes)} }}"
    agree(parsed(text), [{"x": numbers(size, 5, 4)} for size in (2, 3)], target=target)


@pytest.mark.parametrize("axis", [0, 1])
def test_topk_of_a_computed_number(axis: int) -> None:
    """All are sorted, and cut."""
    out = "[k,5]" if axis == 0 else "[n,k]"
    text = f"""g (float[n,5] x, int64[1] k) => (float{out} v, int64{out} i) {{
        v, i = TopK<axis={axis}, largest=0>(x, k)
    }}"""
    feeds = [{"x": numbers(4, 5), "k": np.asarray([count])} for count in (1, 3)]
    agree(parsed(text), feeds)


def test_topk_of_nothing() -> None:
    """Has no elements."""
    text = """g (float[n,5] x) => (float[n,0] v, int64[n,k] i) {
        k = Constant<value_ints=[0]>()
        v, i = TopK(x, k)
    }"""
    assert {refused.reason for refused in refusals(parsed(text))} == {limits.EMPTY}


def test_values_alone(tmp_path: Path) -> None:
    """One operation, whichever outputs are wanted."""
    text = """g (float[n,5] x) => (float[n,2] v) {
        k = Constant<value_ints=[2]>()
        v, i = TopK(x, k)
    }"""
    assert kinds(emitted(parsed(text), tmp_path)) == ["topk"]
