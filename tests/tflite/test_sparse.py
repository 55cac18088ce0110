"""Sparse constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from converter.errors import ModelError
from parsers.tflite_import.reader import read
from parsers.tflite_import.sparse import densify
from tests.tflite.litert import Stepped
from tests.tflite.real import real_file


def _dense(size: int) -> Any:
    level = schema.DimensionMetadataT()
    level.format, level.denseSize = 0, size
    return level


def _compressed(segments: Sequence[int], indices: Sequence[int]) -> Any:
    level = schema.DimensionMetadataT()
    level.format = 1
    level.arraySegments, level.arrayIndices = schema.Int32VectorT(), schema.Uint8VectorT()
    level.arraySegments.values = np.array(segments, np.int32)
    level.arrayIndices.values = np.array(indices, np.uint8)
    return level


def _sparsity(order: Sequence[int], levels: Sequence[Any], blocks: Sequence[int] = ()) -> Any:
    made = schema.SparsityParametersT()
    made.traversalOrder = np.array(order, np.int32)
    made.blockMap = np.array(blocks, np.int32) if blocks else None
    made.dimMetadata = list(levels)
    return made


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (_sparsity([0, 1], [_dense(3), _compressed([0, 2, 2, 4], [0, 3, 1, 2])]),
         [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 4, 0]]),
        (_sparsity([1, 0], [_dense(2), _compressed([0, 1, 4], [2, 0, 1, 2])]),
         [[0, 2], [0, 3], [1, 4]]),
        (_sparsity([0, 1, 2, 3], [_dense(2), _compressed([0, 1, 2], [1, 0]), _dense(2), _dense(2)],
                   blocks=[0, 1]),
         [[0, 0, 1, 2], [0, 0, 3, 4], [5, 6, 0, 0], [7, 8, 0, 0]]),
    ],
    ids=["compressed rows", "compressed columns", "blocks, the schema's own example"],
)  # fmt: skip
def test_levels(how: Any, expected: list[list[int]]) -> None:
    values = np.arange(1, 1 + np.count_nonzero(expected), dtype=np.float32)
    assert densify(values, np.shape(expected), how, "w").tolist() == expected


@pytest.mark.parametrize(
    ("order", "levels"),
    [
        ([0, 1], [_dense(3), _compressed([0, 2, 2, 4], [0, 9, 1, 2])]),
        ([0, 1], [_dense(3), _compressed([0, 2, 2], [0, 3, 1, 2])]),
        ([0, 1], [_dense(3), _compressed([0, 2, 1, 4], [0, 3, 1, 2])]),
        ([0, 1], [_dense(3), _compressed([0, 2, 2, 3], [0, 3, 1])]),
        ([0, 1], [_dense(1 << 30), _dense(1 << 30)]),
        ([0, 0], [_dense(3), _dense(4)]),
        ([0], [_dense(3)]),
    ],
)
def test_levels_that_contradict_each_other(order: list[int], levels: list[Any]) -> None:
    with pytest.raises(ModelError, match="the sparse tensor w contradicts itself"):
        densify(np.arange(1, 5, dtype=np.float32), (3, 4), _sparsity(order, levels), "w")
    with pytest.raises(ModelError, match="too large"):
        densify(np.ones(4, np.float32), (1 << 20, 1 << 20), _sparsity([0, 1], []), "w")


def test_a_real_models_weights_are_as_litert_unpacks_them() -> None:
    path = real_file("face-sparse")
    graph = read(path.read_bytes(), path.name).subgraphs[0]
    litert = Stepped(path)
    litert.run({})
    unpacked = [op for op in graph.operators if op.name == "DENSIFY"]
    assert len(unpacked) == 46
    for operator in unpacked:
        ours = graph.tensors[operator.inputs[0]].data
        assert ours is not None and 0 < np.count_nonzero(ours) < ours.size
        assert np.array_equal(ours, litert.get(operator.outputs[0]))
