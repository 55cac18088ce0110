"""Constants in fewer bits, which stay so, and scales along an axis at run time: by numpy. Sparse
ones, and tables of tables, are among coremltools' own tests (library_expectations)."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parsers.coreml.importer import read
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
        return getattr(mb, f"constexpr_{name}")(**(given | pairs))

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
            expected = (data.astype(F) - 7) * (np.asarray(scale)[:, None] if axis else scale)
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


ROWS = {row[0]: row[1:] for row in (*_affine(), *_tables())}


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


def both(axis: int, **zero: Array) -> list[Case]:
    """What is quantized, and from there on dequantized."""
    given = {"scale": SCALE, "axis": axis} | zero

    def quantized(mb: Any, x: Any) -> Any:
        return mb.quantize(input=x, output_dtype="int8", **given)

    column, shift = SCALE[:, None], zero.get("zero_point", np.zeros(3))[:, None].astype(F)
    q = np.clip(np.round(X / column) + shift, -128, 127)
    back = ((q - shift) * column).astype(F)
    return [
        (cast(quantized), q.astype(np.int32)),
        (lambda mb, x: mb.dequantize(input=quantized(mb, x), **given), back),
    ]


def test_along_an_axis() -> None:
    """With zero points, without; and what had one scale is taken to have another for each."""

    def mixed(mb: Any, x: Any) -> Any:
        q = mb.quantize(input=x, output_dtype="int8", scale=F(1 / 16))
        return mb.dequantize(input=q, scale=SCALE, axis=1)

    one = np.clip(np.round(X * 16), -128, 127)
    cases = [*both(-2, zero_point=ZERO), *both(1), (mixed, (one * SCALE[:, None]).astype(F))]
    check(cases, {"x": X})
