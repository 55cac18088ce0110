"""ScatterElements and ScatterND, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tflite_emitter.running import agree, numbers, parsed

REDUCTIONS = ("none", "add", "mul", "max", "min")


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float", "int64"])
def test_scatter_nd(tmp_path: Path, reduction: str, dtype: str) -> None:
    """Windows; places that meet are taken one after the other."""
    model = parsed(f"""g ({dtype}[4, 3, 2] x, int64[3, 1] i, {dtype}[3, 3, 2] u)
        => ({dtype}[4, 3, 2] y) {{ y = ScatterND<reduction = "{reduction}">(x, i, u) }}""")
    places = np.asarray([[-1], [0], [3 if reduction != "none" else 1]], np.int64)
    numpy = np.float32 if dtype == "float" else np.int64
    feeds = {"x": numbers(4, 3, 2) * 9, "u": numbers(3, 3, 2, seed=1) * 9}
    agree(model, {**{k: v.astype(numpy) for k, v in feeds.items()}, "i": places}, tmp_path)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scatter_elements(tmp_path: Path, reduction: str) -> None:
    model = parsed(f"""g (float[3, 4] x, int64[2, 3] i, float[2, 3] u) => (float[3, 4] y) {{
        y = ScatterElements<axis = -1, reduction = "{reduction}">(x, i, u) }}""")
    places = np.asarray([[0, -1, 2], [1, 0, -2]], np.int64)
    agree(model, {"x": numbers(3, 4), "u": numbers(2, 3, seed=1), "i": places}, tmp_path)


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("rows", [0, 2])
def test_as_many_places_as_are_found(tmp_path: Path, rows: int, reduction: str) -> None:
    """The mask idiom of detectors; with none found nothing may be read or written."""
    model = parsed(f"""g (float[N, 3] x) => (float[N, 3] y)
      <float zero = {{0}}, float big = {{9}}> {{
        m = Greater(x, zero)
        c = NonZero(m)
        i = Transpose<perm = [1, 0]>(c)
        v = GatherND(x, i)
        w = Mul(v, big)
        y = ScatterND<reduction = "{reduction}">(x, i, w)
    }}""")
    x = -np.abs(numbers(4, 3))
    x[:rows] *= -1
    agree(model, {"x": x}, tmp_path)


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_free_sizes(tmp_path: Path, reduction: str) -> None:
    model = parsed(f"""g (float[N, 4] x, int64[N, 2] i, float[N, 2] u) => (float[N, 4] y) {{
        y = ScatterElements<axis = 1, reduction = "{reduction}">(x, i, u) }}""")
    places = np.asarray([[0, -1], [2, 1], [3, 0]], np.int64)
    agree(model, {"x": numbers(3, 4), "i": places, "u": numbers(3, 2, seed=1)}, tmp_path)


def test_booleans(tmp_path: Path) -> None:
    model = parsed("""g (bool[4] x, int64[2, 1] i, bool[2] u) => (bool[4] y) {
        y = ScatterND(x, i, u) }""")
    x, u = np.asarray([True, False, True, False]), np.asarray([False, True])
    agree(model, {"x": x, "i": np.asarray([[0], [3]], np.int64), "u": u}, tmp_path)
