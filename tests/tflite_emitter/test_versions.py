"""Versions of operators and the oldest runtime, against files of TensorFlow's own converter."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from emitters.tflite.graph import DataType, Operator, Quant, Tensor
from emitters.tflite.runtimes import NAME, RUNTIMES, oldest_runtime, stored
from emitters.tflite.versions import version_of
from modelyard.containers.tflite import unpack
from parsers.tflite import model as tflite
from parsers.tflite.builder import DTYPES
from parsers.tflite.reader import read
from tests.operators.cases import numbers, parsed
from tests.tflite.ops import make_models
from tests.tflite_emitter.running import emitted, run_file


@pytest.mark.slow
def test_versions_and_the_oldest_runtime_are_those_of_tensorflow(tmp_path: Path) -> None:
    seen: dict[tuple[str, int], int] = {}
    known = 0
    # int16 isn't looked at: the converter leaves int8's versions there, against its own rules.
    paths = [p for p in make_models.written(tmp_path).glob("*.tflite") if "int16" not in p.stem]
    for path in paths:
        needed: dict[tuple[str, int], int] = {}
        for version, operator in _operators(path.read_bytes()):
            code = (operator.op, version)
            needed[code] = max(needed.get(code, 1), version_of(operator))
            assert needed[code] <= version, operator
        assert needed == {(name, version): version for name, version in needed}, path.stem
        seen |= needed
        if all(name in RUNTIMES for name, _ in needed):  # else it has what is never written
            found = _metadata(unpack(path.read_bytes(), path.name), NAME)
            assert stored(oldest_runtime(needed)) == found
            known += 1
    assert len({name for name, _ in seen}) >= 120
    assert len(seen) >= 180
    assert known > len(paths) / 2


def test_a_file_says_its_oldest_runtime(tmp_path: Path) -> None:
    ends, x = "g (float[2,2,2,2,2] x) => (float[2,2,2,2,2] y)", numbers(2, 2, 2, 2, 2)
    path = emitted(parsed(f"{ends} {{ y = Transpose <perm = [4,3,2,1,0]> (x) }}"), tmp_path)
    written = unpack(path.read_bytes(), path.name)
    assert [code.version for code in written.operatorCodes] == [4]
    assert _metadata(written, NAME) == b"2.3.0" + bytes(11)
    np.testing.assert_array_equal(run_file(path, {"x": x})["y"], x.transpose())


def test_runtimes_are_told_by_number() -> None:
    assert oldest_runtime([("ADD", 1), ("ABS", 5), ("CAST", 2)]) == "2.12.0"
    assert oldest_runtime([("TRANSPOSE", 7), ("ADD", 1)]) == "2.14.4"
    assert oldest_runtime([("BROADCAST_TO", 1), ("CUSTOM", 1)]) == ""
    assert set(RUNTIMES) <= set(vars(schema.BuiltinOperator))


F32, F16, I64, I32 = DataType.FLOAT, DataType.FLOAT16, DataType.INT64, DataType.INT32
I16, I8, I4 = DataType.INT16, DataType.INT8, DataType.INT4


@pytest.mark.parametrize(("name", "types", "scales", "version"), [
    ("CONV_2D", (F32, F32, F32), 1, 1),
    ("CONV_2D", (F32, I8, F32), 1, 2),
    ("CONV_2D", (F32, I8, F32), 2, 5),
    ("CONV_2D", (I8, I8, I8), 2, 3),
    ("CONV_2D", (I16, I8, I16), 2, 4),
    ("CONV_2D", (I8, I4, I8), 2, 7),
    ("CAST", (F32, I32), 1, 1),
    ("CAST", (F32, DataType.UINT32), 1, 2),
    ("CAST", (I8, F32), 1, 3),
    ("CAST", (F32, DataType.UINT16), 1, 4),
    ("CAST", (F16, F32), 1, 5),
    ("CAST", (I4, F32), 1, 6),
    ("CAST", (DataType.BFLOAT16, F32), 1, 7),
    ("DEQUANTIZE", (DataType.UINT8, F32), 1, 1),
    ("DEQUANTIZE", (I8, F32), 1, 2),
    ("DEQUANTIZE", (F16, F32), 1, 3),
    ("DEQUANTIZE", (I16, F32), 1, 3),
    ("DEQUANTIZE", (I8, F32), 2, 5),
    ("DEQUANTIZE", (I4, F32), 1, 6),
    ("QUANTIZE", (F32, I8), 1, 1),
    ("QUANTIZE", (F32, I16), 1, 2),
    ("QUANTIZE", (F32, I8), 2, 3),
    ("QUANTIZE", (F32, I4), 2, 4),
    ("DYNAMIC_UPDATE_SLICE", (F32, F32, I32, F32), 1, 1),
    ("DYNAMIC_UPDATE_SLICE", (I8, I8, I64, I8), 1, 2),
    ("DYNAMIC_UPDATE_SLICE", (F16, F16, I64, F16), 1, 3),
    ("DYNAMIC_UPDATE_SLICE", (I16, I16, I32, I16), 1, 4),
    ("FILL", (I32, F32, F32), 1, 1),
    ("FILL", (I32, DataType.BOOL, DataType.BOOL), 1, 2),
    ("FILL", (I32, DataType.STRING, DataType.STRING), 1, 2),
    ("FILL", (I32, I8, I8), 1, 3),
    ("FILL", (I32, I16, I16), 1, 3),
    ("FILL", (I32, F16, F16), 1, 4),
    ("GATHER", (F32, I32, F32), 1, 1),
    ("GATHER", (I4, I32, I4), 1, 7),
])  # fmt: skip
def test_a_version_is_what_op_version_cc_has(
    name: str, types: tuple[DataType, ...], scales: int, version: int
) -> None:
    """Types of inputs and of the result, and how many scales each has."""
    quant = Quant(np.ones(scales, np.float32), np.zeros(scales, np.int64), 0)
    *inputs, result = (Tensor("", (2, 2, 2, 2), dtype, None, quant) for dtype in types)
    assert version_of(Operator(name, inputs, [result])) == version


def _operators(content: bytes) -> Iterator[tuple[int, Operator]]:
    for graph in read(content, "a file").subgraphs:
        tensors = [*map(_tensor, graph.tensors), None]
        for one in graph.operators:
            ends = ([tensors[number] for number in side] for side in (one.inputs, one.outputs))
            yield one.version, Operator(one.name, *ends, vars(one.options) if one.options else {})


def _tensor(one: tflite.Tensor) -> Tensor:
    how = one.quantization
    quant = Quant(how.scale, how.zero_point, None) if how else None
    return Tensor("", one.shape, DTYPES.get(one.dtype, DataType.UNDEFINED), None, quant)


def _metadata(model: Any, name: str) -> bytes:
    (item,) = [item for item in model.metadata if item.name == name.encode()]
    return bytes(model.buffers[item.buffer].data)
