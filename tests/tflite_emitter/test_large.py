"""Files of more than 2 GiB, and the memory that writing takes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx_ir
import pytest

from converter.errors import ModelError
from converter.ir import Model
from emitters.tflite import writer
from emitters.tflite.graph import DataType, Operator, Subgraph, Tensor, TfliteModel
from tests.tflite_emitter.running import emitted, lowered, numbers, parsed, run_file

WIDTH = 1024
ROWS = 560_000


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A table of 2.3 GB that takes next to nothing on the disk; its last row isn't zero."""
    path = tmp_path / "weights"
    with path.open("wb") as file:
        file.truncate(ROWS * WIDTH * 4)
        file.seek((ROWS - 1) * WIDTH * 4)
        file.write(numbers(WIDTH).tobytes())
    return path


@pytest.mark.slow
def test_weights_above_two_gibibytes(tmp_path: Path, weights: Path) -> None:
    path = emitted(_table(weights), tmp_path / "out")
    size = path.stat().st_size
    assert 2**31 < ROWS * WIDTH * 4 <= size < ROWS * WIDTH * 4 + 16384
    found = run_file(path, {"rows": np.asarray([5, ROWS - 1, 0])})["y"]
    np.testing.assert_allclose(found[1], np.maximum(numbers(WIDTH), 0), rtol=1e-6)
    assert not found[0].any() and not found[2].any()


def _table(weights: Path) -> Model:
    model = parsed(f"""
g (int64[n] rows, float[{ROWS},{WIDTH}] table) => (float[n,{WIDTH}] y) {{
  picked = Gather (table, rows)
  y = Relu (picked)
}}""")
    graph = model.graph.graph
    table = graph.inputs.pop(1)
    table.const_value = onnx_ir.ExternalTensor(
        weights.name, 0, ROWS * WIDTH * 4, onnx_ir.DataType.FLOAT, name="table",
        shape=onnx_ir.Shape([ROWS, WIDTH]), base_dir=str(weights.parent),
    )  # fmt: skip
    graph.register_initializer(table)
    return model


def test_more_elements_than_litert_counts_are_refused(tmp_path: Path) -> None:
    huge = np.broadcast_to(np.zeros(1, np.int8), (1 << 16, 1 << 15))
    table = Tensor("table", huge.shape, DataType.INT8, huge)
    out = Tensor("y", (1,), DataType.INT8)
    graph = Subgraph("main", [], [out], [Operator("GATHER", [table], [out])])
    with pytest.raises(ModelError, match="more elements") as caught:
        writer.write(TfliteModel([graph], {}, {"y": out}), tmp_path / "model.tflite")
    assert caught.value.details == ("table: 2,147,483,648 elements",)
    assert not list(tmp_path.iterdir())


def test_writing_copies_one_constant_at_a_time(tmp_path: Path) -> None:
    count, width = 12, 512
    text = ", ".join(f"float[{width},{width}] w{number}" for number in range(count))
    steps = "".join(f"  x{n + 1} = MatMul (x{n}, w{n})\n" for n in range(count))
    model = parsed(f"g (float[1,{width}] x0, {text}) => (float[1,{width}] x{count}) {{\n{steps}}}")
    graph = model.graph.graph
    for number, value in enumerate(list(graph.inputs)[1:]):
        graph.inputs.remove(value)
        value.const_value = onnx_ir.Tensor(numbers(width, width, seed=number), name=value.name)
        graph.register_initializer(value)
    made = lowered(model).model
    tracemalloc.start()
    writer.write(made, tmp_path / "model.tflite")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    each = width * width * 4
    assert (tmp_path / "model.tflite").stat().st_size > count * each
    assert peak < 3 * each
