"""Versions of operators and the oldest runtime, against files of TensorFlow's own converter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from converter.tflite_file import unpack
from emitters.tflite.build import TENSOR_TYPES
from emitters.tflite.graph import DataType, Operator, Quant, Tensor
from emitters.tflite.runtimes import NAME, RUNTIMES, oldest_runtime, stored
from emitters.tflite.versions import version_of
from tests.tflite_emitter.running import emitted, numbers, parsed, run_file

_NAMES = {number: name for name, number in vars(schema.BuiltinOperator).items() if name[0] != "_"}
_TYPES = {number: dtype for dtype, number in TENSOR_TYPES.items()}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """TensorFlow's files, as the schema's objects."""
    folder = tmp_path_factory.mktemp("tensorflow")
    subprocess.run(
        [sys.executable, "-m", "tests.tflite_emitter.tensorflow_files", str(folder)],
        check=True,
        timeout=300,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    # int16 isn't looked at: the converter leaves int8's versions there, against its own rules.
    paths = sorted(path for path in folder.glob("*.tflite") if path.stem != "int16")
    assert len(paths) == 17
    return [unpack(path.read_bytes(), path.name) for path in paths]


@pytest.mark.slow
def test_versions_are_those_of_tensorflow(files: list[Any]) -> None:
    seen = set()
    for model in files:
        needed: dict[int, int] = {}
        for number, operator in _operators(model):
            needed[number] = max(needed.get(number, 1), version_of(operator))
        for number, version in needed.items():
            code = model.operatorCodes[number]
            name = _NAMES[code.builtinCode]
            assert version == code.version, f"{name} of {_description(model, number)}"
            seen.add((name, version))
    assert len({name for name, _ in seen}) >= 80
    assert len(seen) >= 120


@pytest.mark.slow
def test_the_oldest_runtime_is_that_of_tensorflow(files: list[Any]) -> None:
    for model in files:
        codes = [(_NAMES[code.builtinCode], code.version) for code in model.operatorCodes]
        assert stored(oldest_runtime(codes)) == _metadata(model, NAME)


def test_a_file_says_its_oldest_runtime(tmp_path: Path) -> None:
    model = parsed("""g (float[2,2,2,2,2] x) => (float[2,2,2,2,2] y) {
  y = Transpose <perm = [4,3,2,1,0]> (x)
}""")
    path = emitted(model, tmp_path)
    written = unpack(path.read_bytes(), path.name)
    assert [code.version for code in written.operatorCodes] == [4]
    assert _metadata(written, NAME) == b"2.3.0" + bytes(11)
    np.testing.assert_array_equal(
        run_file(path, {"x": numbers(2, 2, 2, 2, 2)})["y"], numbers(2, 2, 2, 2, 2).transpose()
    )


def test_runtimes_are_told_by_number() -> None:
    assert oldest_runtime([("ADD", 1), ("ABS", 5), ("CAST", 2)]) == "2.12.0"
    assert oldest_runtime([("TRANSPOSE", 7), ("ADD", 1)]) == "2.14.4"
    assert oldest_runtime([("BROADCAST_TO", 1), ("CUSTOM", 1)]) == ""
    assert set(RUNTIMES) <= set(vars(schema.BuiltinOperator))


def _operators(model: Any) -> Iterator[tuple[int, Operator]]:
    for graph in model.subgraphs:
        tensors = [_tensor(tensor) for tensor in graph.tensors]
        for made in graph.operators or ():
            name = _NAMES[model.operatorCodes[made.opcodeIndex].builtinCode]
            options = made.builtinOptions or made.builtinOptions2
            yield (
                made.opcodeIndex,
                Operator(
                    name,
                    [tensors[i] if i >= 0 else None for i in _numbers(made.inputs)],
                    [tensors[i] for i in _numbers(made.outputs)],
                    vars(options) if options is not None else {},
                ),
            )


def _numbers(values: Any) -> list[int]:
    return [] if values is None else [int(value) for value in values]


def _tensor(made: Any) -> Tensor:
    quant, shape = made.quantization, _numbers(made.shape)
    found = None
    if quant is not None and quant.scale is not None and len(quant.scale):
        found = Quant(np.asarray(quant.scale), np.asarray(quant.zeroPoint), None)
    return Tensor("", tuple(shape), _TYPES.get(made.type, DataType.UNDEFINED), None, found)


def _metadata(model: Any, name: str) -> bytes:
    (item,) = [item for item in model.metadata if item.name == name.encode()]
    return bytes(model.buffers[item.buffer].data)


def _description(model: Any, number: int) -> str:
    found = [operator for index, operator in _operators(model) if index == number]
    return "; ".join(
        f"{[t and (t.dtype.name, t.shape) for t in op.inputs]} {op.options}" for op in found
    )
