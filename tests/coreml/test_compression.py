"""Constants in fewer bits, and quantize and dequantize at run time: by coremltools' examples, and
numpy."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parsers.coreml_import.importer import read
from tests.coreml.running import Array, Case, agrees, cast, check, drawing, run, write

RNG = np.random.default_rng(13)
F = np.float32


def constant(name: str, **given: Any) -> Callable[[Any], Any]:
    """A constexpr operation; a pair is an array and the type of integers below a byte it is of, as
    coremltools' builder takes them."""

    def narrow(array: Array, kind: str) -> Array:
        from coremltools.converters.mil.mil import types

        made: Array = array.astype(types.nptype_from_builtin(types.string_to_builtin(kind)))
        return made

    def make(mb: Any) -> Any:
        pairs = {n: narrow(*v) for n, v in given.items() if isinstance(v, tuple)}
        made = {n: v(mb) for n, v in given.items() if callable(v)}
        return getattr(mb, f"constexpr_{name}")(**(given | pairs | made))

    return make


Row = tuple[str, Callable[[Any], Any], Array, int, list[str] | str]
"""A name, what makes the constant, what it is, the target (iOS), and the kinds of nodes that it and
its addition to an input become; or one of them."""


def _affine() -> Iterator[Row]:
    kept = "DequantizeLinear"
    for dtype, low in ((np.int8, -100), (np.uint8, 0)):
        data = RNG.integers(low, 100, (2, 3, 4)).astype(dtype)
        for name, scale, axis in (("one", F(0.25), 0), ("each", np.array([0.5, 0.25, 2], F), 1)):
            given = {"quantized_data": data, "scale": scale, "zero_point": dtype(7), "axis": axis}
            column = np.asarray(scale)[:, None] if axis else scale
            expected = (data.astype(F) - 7) * column
            made = constant("affine_dequantize", **given)
            yield f"affine {name} {dtype.__name__}", made, expected, 16, kept
    data, zero = RNG.integers(-100, 100, (2, 3)).astype(np.int8), np.array([0.5, -1.25], F)
    given = {"quantized_data": data, "scale": F(0.5), "zero_point": zero, "axis": 0}
    expected = (data.astype(F) - zero[:, None]) * F(0.5)
    made = constant("affine_dequantize", **given)
    yield "a zero point that is no integer", made, expected, 16, ["Add"]
    limits = {"int8": (-99, 99), "uint8": (0, 200), "int4": (-8, 8), "uint4": (0, 16)}
    for kind, (low, high) in limits.items():
        data = RNG.integers(low, high, (2, 3))
        for dtype in (np.float32, np.float16):
            for shape in ((1, 3), (1, 1)):
                scale = RNG.uniform(0.1, 1, shape).astype(dtype)
                whole = {"data": (data, kind), "offset": (np.full(shape, 3), kind)}
                made = constant("blockwise_shift_scale", scale=scale, **whole)
                expected = (scale * (data - 3).astype(dtype)).astype(dtype)
                yield f"{kind} {dtype.__name__} scales {shape}", made, expected, 18, kept
    data, scale = RNG.integers(-8, 8, (4, 6)), RNG.uniform(0.1, 1, (2, 3)).astype(F)
    for offset in (None, 2.5):
        more = {} if offset is None else {"offset": np.full((2, 3), offset, F)}
        made = constant("blockwise_shift_scale", data=(data, "int4"), scale=scale, **more)
        expected = np.kron(scale, np.ones((2, 2), F)) * (data - (offset or 0)).astype(F)
        yield f"blocks, offset {offset}", made, expected, 18, ["Add"]


def _tables() -> Iterator[Row]:
    for bits in (1, 2, 4, 6, 8):
        table = RNG.uniform(-1, 1, 2**bits).astype(F)
        numbers = RNG.integers(0, 2**bits, 15).astype(np.uint8)
        single = np.unpackbits(numbers[:, None], axis=1, bitorder="little")[:, :bits]
        packed, shape = np.packbits(single.ravel(), bitorder="little"), np.array([3, 5], np.uint32)
        made = constant("lut_to_dense", indices=packed, lut=table, shape=shape)
        yield f"a table of {bits} bits", made, table[numbers].reshape(3, 5), 16, ["Add"]
    indices = np.array([2, 3, 3, 0, 1, 0, 3, 0, 2, 1, 0, 3]).reshape(6, 2)
    table = np.array([1, 5, 9, 13, 2, 10, 18, 26], F).reshape(2, 1, 4, 1)
    groups = np.array([[9, 13], [13, 1], [5, 1], [26, 2], [18, 10], [2, 26]], F)
    made = constant("lut_to_dense", indices=(indices, "uint2"), lut=table)
    yield "groups, of coremltools' documentation", made, groups, 18, "Add"
    indices = np.array([0, 0, 1, 0, 1, 1, 0, 0]).reshape(2, 2, 2)
    table = np.array([1, 2, 3, 11, 12, 13], F).reshape(1, 1, 1, 2, 3)
    last = [[1, 2, 3] * 2, [11, 12, 13, 1, 2, 3], [11, 12, 13] * 2, [1, 2, 3] * 2]
    middle = [[1, 1], [2, 2], [3, 3], [11, 1], [12, 2], [13, 3]]
    middle += [[11, 11], [12, 12], [13, 13], [1, 1], [2, 2], [3, 3]]
    for axis in (1, 2, -2):
        vectors = np.array(last if axis == 2 else middle, F)
        vectors = vectors.reshape(2, 2, 6) if axis == 2 else vectors.reshape(2, 6, 2)
        made = constant("lut_to_dense", indices=(indices, "uint1"), lut=table, vector_axis=axis)
        yield f"vectors, of coremltools' documentation, axis {axis}", made, vectors, 18, "Add"
    indices, table = RNG.integers(0, 4, (2, 6)), RNG.integers(-100, 100, (1, 1, 4, 1))
    scale, entries = np.array([[0.5], [0.25]], F), table.astype(np.int8)
    found = constant("lut_to_dense", indices=(indices, "uint2"), lut=entries)
    made = constant("blockwise_shift_scale", data=found, scale=scale)
    expected = scale * table.ravel()[indices].astype(F)
    yield "a table whose entries are scaled", made, expected, 18, "Add"


def _sparse() -> Iterator[Row]:
    mask = np.array([0, 1, 0, 0, 1, 0, 0, 0, 0, 1], np.uint8)
    given = {"mask": np.packbits(mask, bitorder="little"), "shape": np.array([2, 5], np.uint32)}
    made = constant("sparse_to_dense", nonzero_data=np.array([1.5, -2, 3], F), **given)
    expected = np.array([0, 1.5, 0, 0, -2, 0, 0, 0, 0, 3], F).reshape(2, 5)
    yield "sparse until iOS17", made, expected, 17, "Add"
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]])
    values, dense = np.array([10, 11, 3, 4, 5, 6, 7, 8, 9]), np.zeros((4, 4), np.int64)
    dense[mask != 0] = values
    scale, offset = np.array([[0.1, 0.2, 0.3, 0.4]], F), np.array([[1, 2, 3, 4]], np.int8)
    given = {"nonzero_data": values.astype(np.int8), "scale": scale, "offset": offset}
    scaled = constant("sparse_blockwise_shift_scale", data_mask=(mask, "uint1"), **given)
    expected = np.where(mask, scale * (dense - offset).astype(F), 0).astype(F)
    yield "sparse, scaled first", _spread(scaled), expected, 18, "Add"
    table = RNG.uniform(-1, 1, (1, 1, 16, 1)).astype(F)
    lut = {"indices_mask": (mask, "uint1"), "indices_nonzero_data": (values, "uint4")}
    expected = np.where(mask, table.ravel()[dense], 0).astype(F)
    found = constant("lut_to_sparse", **lut, lut=table)
    yield "sparse, looked up first", _spread(found), expected, 18, "Add"
    mask, numbers = np.array([[1, 0, 1], [0, 1, 1]]), np.array([2, 0, 3, 1])
    entries = np.array([-100, 7, 50, 127], np.int8).reshape(1, 1, 4, 1)
    one = (1, 1, 1, 1)
    by = {"scale": np.full(one, 0.5, F), "offset": np.full(one, 7, np.int8)}
    quantized = constant("blockwise_shift_scale", data=entries, **by)
    lut = {"indices_mask": (mask, "uint1"), "indices_nonzero_data": (numbers, "uint2")}
    expected = np.zeros((2, 3), F)
    expected[mask != 0] = (entries.ravel()[numbers].astype(F) - 7) * 0.5
    found = constant("lut_to_sparse", **lut, lut=quantized)
    yield "a table that is quantized itself", _spread(found), expected, 18, "Add"
    half = RNG.uniform(-1, 1, (2, 3)).astype(np.float16)
    made = constant("cast", source_val=half, output_dtype="fp32")
    yield "kept in float16", made, half.astype(F), 16, "Add"


def _spread(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Of what is sparse, the whole."""

    def whole(mb: Any) -> Any:
        where, kept = make(mb)
        return mb.constexpr_sparse_to_dense(nonzero_data=kept, mask=where)

    return whole


ROWS = {row[0]: row[1:] for row in (*_affine(), *_tables(), *_sparse())}


@pytest.mark.parametrize("name", ROWS)
def test_constants(name: str) -> None:
    make, expected, target, kinds = ROWS[name]
    x = np.zeros_like(expected)
    with tempfile.TemporaryDirectory() as folder:
        package = write(
            Path(folder), lambda mb, x: mb.add(x=x, y=make(mb)), {"x": x}, target=target
        )
        model = read(package)
        (y,) = run(model, {"x": x})
    found = [node.op_type for node in model.graph.graph]
    assert kinds in found if isinstance(kinds, str) else kinds == found
    agrees(y, expected)


# -- at run time -------------------------------------------------------------------------

X = drawing(12, -3, 3)(2, 3, 4)
X[0, 0] = [0.5 / 16, 1.5 / 16, -0.5 / 16, 100]
SCALE, ZERO = np.array([1 / 8, 1 / 16, 1 / 64], F), np.array([-3, 0, 9], np.int8)


def rounded(x: Array, scale: Any, zero: Any, dtype: Any) -> Array:
    limits = np.iinfo(dtype)
    y: Array = np.clip(np.round(x / scale) + zero, limits.min, limits.max)
    return y


def both(x: Array, dtype: Any, scale: Any, zero: Any = None, **axis: int) -> list[Case]:
    """What is quantized, and from there on dequantized."""
    given = {"scale": scale} | axis | ({} if zero is None else {"zero_point": zero})

    def quantized(mb: Any, x: Any) -> Any:
        return mb.quantize(input=x, output_dtype=np.dtype(dtype).name, **given)

    column, shift = (np.asarray(a)[:, None] if np.ndim(a) else a for a in (scale, zero))
    shift = 0 if shift is None else np.asarray(shift, x.dtype)
    q = rounded(x, column, shift, dtype)
    back = ((q - shift) * column).astype(x.dtype)
    return [
        (cast(quantized), q.astype(np.int32)),
        (lambda mb, x: mb.dequantize(input=quantized(mb, x), **given), back),
    ]


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_one_scale(kind: Any) -> None:
    x, cases = X.astype(kind), []
    for dtype in (np.int8, np.uint8):
        for zero in (None, dtype(3)):
            cases += both(x, dtype, kind(1 / 16), zero)
    check(cases, {"x": x})


def test_along_an_axis() -> None:
    """With zero points, without; and what had one scale is taken to have another for each."""

    def mixed(mb: Any, x: Any) -> Any:
        q = mb.quantize(input=x, output_dtype="int8", scale=F(1 / 16))
        return mb.dequantize(input=q, scale=SCALE, axis=1)

    cases = both(X, np.int8, SCALE, ZERO, axis=-2) + both(X, np.int8, SCALE, axis=1)
    cases.append((mixed, (rounded(X, 1 / 16, 0, np.int8) * SCALE[:, None]).astype(F)))
    check(cases, {"x": X})
