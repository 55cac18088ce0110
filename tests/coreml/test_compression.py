"""Compressed constants: by coremltools' own examples, and numpy."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parsers.coreml_import.importer import read
from tests.coreml.running import Array, Body, agrees, run, write

RNG = np.random.default_rng(13)


def expanded(
    make: Any, shape: tuple[int, ...], target: int, dtype: Any = np.float32
) -> tuple[Array, list[str]]:
    """A constant of a shape as a program has it, and the kinds of nodes that it became."""
    x = np.zeros(shape, dtype)
    body: Body = lambda mb, x: mb.add(x=x, y=make(mb))  # noqa: E731
    with tempfile.TemporaryDirectory() as folder:
        model = read(write(Path(folder), body, {"x": x}, target=target))
        (y,) = run(model, {"x": x})
    return y, [node.op_type for node in model.graph.graph]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("axis", [None, 1])
def test_affine_quantization_is_kept(dtype: Any, axis: int | None) -> None:
    data = RNG.integers(-100 if dtype == np.int8 else 0, 100, (2, 3, 4)).astype(dtype)
    scale = np.float32(0.25) if axis is None else np.array([0.5, 0.25, 2], np.float32)
    zero = dtype(7)

    def make(mb: Any) -> Any:
        return mb.constexpr_affine_dequantize(
            quantized_data=data, scale=scale, zero_point=zero, axis=axis or 0
        )

    y, kinds = expanded(make, (2, 3, 4), 16)
    assert "DequantizeLinear" in kinds
    column = scale if axis is None else np.asarray(scale)[:, None]
    agrees(y, (data.astype(np.float32) - 7) * column)


def test_a_zero_point_that_is_no_integer() -> None:
    data = RNG.integers(-100, 100, (2, 3)).astype(np.int8)
    zero = np.array([0.5, -1.25], np.float32)

    def make(mb: Any) -> Any:
        return mb.constexpr_affine_dequantize(
            quantized_data=data, scale=np.float32(0.5), zero_point=zero, axis=0
        )

    y, kinds = expanded(make, (2, 3), 16)
    assert kinds == ["Add"]
    agrees(y, (data.astype(np.float32) - zero[:, None]) * np.float32(0.5))


@pytest.mark.parametrize("bits", [1, 2, 4, 6, 8])
def test_a_table_of_palettes(bits: int) -> None:
    table = RNG.uniform(-1, 1, 2**bits).astype(np.float32)
    numbers = RNG.integers(0, 2**bits, 15).astype(np.uint8)
    single = np.unpackbits(numbers[:, None], axis=1, bitorder="little")[:, :bits]
    packed = np.packbits(single.ravel(), bitorder="little")

    def make(mb: Any) -> Any:
        shape = np.array([3, 5], np.uint32)
        return mb.constexpr_lut_to_dense(indices=packed, lut=table, shape=shape)

    y, kinds = expanded(make, (3, 5), 16)
    assert kinds == ["Add"]
    agrees(y, table[numbers].reshape(3, 5))


def test_sparse_until_ios17() -> None:
    values = np.array([1.5, -2, 3], np.float32)
    mask = np.array([0, 1, 0, 0, 1, 0, 0, 0, 0, 1], np.uint8)

    def make(mb: Any) -> Any:
        packed = np.packbits(mask, bitorder="little")
        shape = np.array([2, 5], np.uint32)
        return mb.constexpr_sparse_to_dense(nonzero_data=values, mask=packed, shape=shape)

    y, _ = expanded(make, (2, 5), 17)
    agrees(y, np.array([0, 1.5, 0, 0, -2, 0, 0, 0, 0, 3], np.float32).reshape(2, 5))


def test_a_constant_kept_in_float16() -> None:
    data = RNG.uniform(-1, 1, (2, 3)).astype(np.float16)
    y, _ = expanded(lambda mb: mb.constexpr_cast(source_val=data, output_dtype="fp32"), (2, 3), 16)
    agrees(y, data.astype(np.float32))


def narrow(data: Array, name: str) -> Array:
    """Integers below a byte, as coremltools' builder takes them."""
    from coremltools.converters.mil.mil import types

    made: Array = data.astype(types.nptype_from_builtin(types.string_to_builtin(name)))
    return made


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int4", "uint4"])
@pytest.mark.parametrize("channels", [True, False])
def test_scales_of_channels_are_kept(kind: str, channels: bool, dtype: Any) -> None:
    low, high = {"int8": (-99, 99), "uint8": (0, 200), "int4": (-8, 8), "uint4": (0, 16)}[kind]
    data = RNG.integers(low, high, (2, 3))
    scale = RNG.uniform(0.1, 1, (1, 3) if channels else (1, 1)).astype(dtype)
    offset = np.full(scale.shape, 3)

    def make(mb: Any) -> Any:
        return mb.constexpr_blockwise_shift_scale(
            data=narrow(data, kind), scale=scale, offset=narrow(offset, kind)
        )

    y, kinds = expanded(make, (2, 3), 18, dtype)
    assert "DequantizeLinear" in kinds
    agrees(y, (scale * (data - offset).astype(dtype)).astype(dtype))


@pytest.mark.parametrize("offset", [None, 2.5])
def test_scales_of_blocks(offset: float | None) -> None:
    data = RNG.integers(-8, 8, (4, 6))
    scale = RNG.uniform(0.1, 1, (2, 3)).astype(np.float32)
    given = {} if offset is None else {"offset": np.full((2, 3), offset, np.float32)}

    def make(mb: Any) -> Any:
        return mb.constexpr_blockwise_shift_scale(data=narrow(data, "int4"), scale=scale, **given)

    y, kinds = expanded(make, (4, 6), 18)
    assert kinds == ["Add"]
    agrees(
        y, np.kron(scale, np.ones((2, 2), np.float32)) * (data - (offset or 0)).astype(np.float32)
    )


def test_tables_of_groups_as_in_coremltools_documentation() -> None:
    indices = np.array([2, 3, 3, 0, 1, 0, 3, 0, 2, 1, 0, 3]).reshape(6, 2)
    table = np.array([1, 5, 9, 13, 2, 10, 18, 26], np.float32).reshape(2, 1, 4, 1)

    def make(mb: Any) -> Any:
        return mb.constexpr_lut_to_dense(indices=narrow(indices, "uint2"), lut=table)

    y, _ = expanded(make, (6, 2), 18)
    expected = [[9, 13], [13, 1], [5, 1], [26, 2], [18, 10], [2, 26]]
    agrees(y, np.array(expected, np.float32))


@pytest.mark.parametrize("axis", [1, 2, -2])
def test_tables_of_vectors_as_in_coremltools_documentation(axis: int) -> None:
    indices = np.array([0, 0, 1, 0, 1, 1, 0, 0]).reshape(2, 2, 2)
    table = np.array([1, 2, 3, 11, 12, 13], np.float32).reshape(1, 1, 1, 2, 3)
    shape = [2, 2, 2]
    shape[axis] = 6

    def make(mb: Any) -> Any:
        given = {"indices": narrow(indices, "uint1"), "lut": table, "vector_axis": axis}
        return mb.constexpr_lut_to_dense(**given)

    y, _ = expanded(make, tuple(shape), 18)
    last = [[1, 2, 3] * 2, [11, 12, 13, 1, 2, 3], [11, 12, 13] * 2, [1, 2, 3] * 2]
    middle = [[1, 1], [2, 2], [3, 3], [11, 1], [12, 2], [13, 3]]
    middle += [[11, 11], [12, 12], [13, 13], [1, 1], [2, 2], [3, 3]]
    agrees(y, np.array(last if axis == 2 else middle, np.float32).reshape(shape))


def test_what_is_sparse_is_scaled_or_looked_up_first() -> None:
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]])
    values = np.array([10, 11, 3, 4, 5, 6, 7, 8, 9])
    scale = np.array([[0.1, 0.2, 0.3, 0.4]], np.float32)
    offset = np.array([[1, 2, 3, 4]], np.int8)
    table = RNG.uniform(-1, 1, (1, 1, 16, 1)).astype(np.float32)

    def make(mb: Any) -> Any:
        where, kept = mb.constexpr_sparse_blockwise_shift_scale(
            data_mask=narrow(mask, "uint1"), nonzero_data=values.astype(np.int8),
            scale=scale, offset=offset,
        )  # fmt: skip
        scaled = mb.constexpr_sparse_to_dense(nonzero_data=kept, mask=where)
        where, kept = mb.constexpr_lut_to_sparse(
            indices_mask=narrow(mask, "uint1"),
            indices_nonzero_data=narrow(values, "uint4"), lut=table,
        )  # fmt: skip
        found = mb.constexpr_sparse_to_dense(nonzero_data=kept, mask=where)
        return mb.concat(values=[scaled, found], axis=0)

    y, _ = expanded(make, (8, 4), 18)
    dense = np.zeros((4, 4), np.int64)
    dense[mask != 0] = values
    scaled = np.where(mask, scale * (dense - offset).astype(np.float32), 0)
    agrees(y, np.concatenate([scaled, np.where(mask, table.ravel()[dense], 0)]).astype(np.float32))


def test_a_table_whose_entries_are_scaled() -> None:
    indices = RNG.integers(0, 4, (2, 6))
    table = RNG.integers(-100, 100, (1, 1, 4, 1)).astype(np.int8)
    scale = np.array([[0.5], [0.25]], np.float32)

    def make(mb: Any) -> Any:
        found = mb.constexpr_lut_to_dense(indices=narrow(indices, "uint2"), lut=table)
        return mb.constexpr_blockwise_shift_scale(data=found, scale=scale)

    y, _ = expanded(make, (2, 6), 18)
    agrees(y, scale * table.ravel()[indices].astype(np.float32))


def test_a_table_that_is_quantized_itself() -> None:
    mask = np.array([[1, 0, 1], [0, 1, 1]])
    numbers = np.array([2, 0, 3, 1])
    entries = np.array([-100, 7, 50, 127], np.int8).reshape(1, 1, 4, 1)
    scale, offset = np.full((1, 1, 1, 1), 0.5, np.float32), np.full((1, 1, 1, 1), 7, np.int8)

    def make(mb: Any) -> Any:
        table = mb.constexpr_blockwise_shift_scale(data=entries, scale=scale, offset=offset)
        where, kept = mb.constexpr_lut_to_sparse(
            indices_mask=narrow(mask, "uint1"),
            indices_nonzero_data=narrow(numbers, "uint2"),
            lut=table,
        )
        return mb.constexpr_sparse_to_dense(nonzero_data=kept, mask=where)

    y, _ = expanded(make, (2, 3), 18)
    expected = np.zeros((2, 3), np.float32)
    expected[mask != 0] = (entries.ravel()[numbers].astype(np.float32) - 7) * 0.5
    agrees(y, expected)
