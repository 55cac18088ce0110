"""What inspect tells of files: their own operators, types, sizes and quantization."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.acceptance.cli import command, converted_cnn, typed, written
from tests.tflite.build import File

WEIGHTS = 8 * 27 + 8 * 72 + 80
BIASES = 8 + 8 + 10


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What inspect says of a small CNN's artifacts, by target and precision."""
    options = "--to onnx,tflite,coreml --precision fp32,int8 --few-samples --no-check"
    folder = converted_cnn(tmp_path_factory.mktemp("inspect"), options)
    found = command("inspect", "build/cnn", "--json", cwd=folder).json["artifacts"]
    return {f"{item['target']} {item['precision']}": item for item in found}


@pytest.mark.parametrize(("artifact", "parameters"), [
    ("onnx fp32", WEIGHTS), ("onnx int8", WEIGHTS + BIASES),
    ("tflite fp32", WEIGHTS + 8), ("tflite int8", WEIGHTS + BIASES),
    ("coreml fp32", WEIGHTS + 10), ("coreml int8", WEIGHTS + 10),
])  # fmt: skip
def test_parameters_count_however_they_are_stored(told: dict[str, dict[str, Any]], artifact: str,
                                                  parameters: int) -> None:  # fmt: skip
    """Biases that a format, or correcting them, adds are parameters too; scales aren't."""
    assert told[artifact]["parameters"] == parameters


@pytest.mark.parametrize(("artifact", "op", "types"), [
    ("onnx int8", "Conv", {"uint8 with int8 weights": 2}),
    ("tflite fp32", "CONV_2D", {"float32": 2}),
    ("tflite int8", "FULLY_CONNECTED", {"int8": 1}),
    ("coreml fp32", "linear", {"float32": 1}),
    ("coreml int8", "constexpr_affine_dequantize", {"float32": 3}),
])  # fmt: skip
def test_operators_are_the_file_s_own(told: dict[str, dict[str, Any]], artifact: str, op: str,
                                      types: dict[str, int]) -> None:  # fmt: skip
    assert told[artifact]["op_types"][op] == types
    assert told[artifact]["ops"][op] == sum(types.values())


def test_a_source_is_told_as_it_is(model: Path) -> None:
    found = command("inspect", model.name, "--json", cwd=model.parent).json
    assert found["inputs"] == [{"name": "image", "dtype": "float32", "shape": ["batch", 3, 16, 16]}]
    assert (found["ops"]["Conv"], found["opset"], found["parameters"]) == (2, 17, WEIGHTS)
    assert found["precisions"] == {"float32": 1.0}


def test_formats_and_quantization_are_said(told: dict[str, dict[str, Any]]) -> None:
    assert told["onnx int8"]["opset"] == 20
    assert told["tflite int8"]["opset"] is None
    assert told["tflite int8"]["format"].startswith("TFLite, schema")
    assert told["coreml int8"]["format"].startswith("Core ML ML Program")
    assert told["tflite int8"]["quantization"]["int8 by channel"] == 3
    assert told["onnx int8"]["quantization"]["int32 by channel"] == 3
    assert told["tflite int8"]["precisions"]["int8"] > 0.8
    assert {item["macs"] for item in told.values()} == {256 * (8 * 27 + 8 * 72) + 80}


def test_domains_and_constants_of_nodes(tmp_path: Path) -> None:
    """Weights may be Constant nodes, and behind nodes that unpack them."""
    text = """g (float[batch, 3] x) => (float[batch, 4] out) {
        q = Constant<value = uint8[3, 4] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}>()
        s = Constant<value_float = 0.5>() z = Constant<value = uint8 {128}>()
        w = DequantizeLinear(q, s, z) y = MatMul(x, w) out = com.microsoft.Gelu(y) }"""
    written(tmp_path / "m.onnx", text)
    found = typed("inspect m.onnx --json", tmp_path).json
    assert found["parameters"] == 12
    assert found["domains"] == {"com.microsoft": 1}
    assert found["op_types"]["MatMul"] == {"float32 with uint8 weights": 1}
    assert found["weight_bytes"] == 13 and found["precisions"] == {"uint8": 1.0}
    assert "com.microsoft 1" in typed("inspect m.onnx", tmp_path).out


def test_work_in_branches_counts(tmp_path: Path) -> None:
    """Of an If the larger branch."""
    text = """g (float[1, 3] x, bool c) => (float[1, 4] y)
        <float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
         float[3, 3] v = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
        y = If (c) <
            then_branch = one () => (float[1, 4] a) { a = MatMul (x, w) },
            else_branch = two () => (float[1, 4] b) { h = MatMul (x, v) b = MatMul (h, w) }> }"""
    written(tmp_path / "m.onnx", text)
    assert typed("inspect m.onnx --json", tmp_path).json["macs"] == 9 + 12


def test_a_file_that_cannot_be_read_as_a_graph_is_shown_all_the_same(tmp_path: Path) -> None:
    file = File()
    graph = file.graph()
    x, y = graph.tensor("x", (1, 4)), graph.tensor("y", (1, 4))
    graph.op("SKIP_GRAM", [x], [y])
    graph.interface([x], [y])
    (tmp_path / "m.tflite").write_bytes(file.content())
    said = command("inspect", "m.tflite", "--json", cwd=tmp_path, code=0)
    assert said.json["ops"] == {"SKIP_GRAM": 1} and said.json["macs"] is None
    assert "SKIP_GRAM" in said.json["unread"]


def test_layers_of_a_core_ml_network(tmp_path: Path) -> None:
    from converter.options.request import Request
    from modelyard.containers.coreml import coremltools
    from parsers.coreml.parser import CoremlParser

    tools = coremltools()
    from coremltools.models import datatypes
    from coremltools.models.neural_network import NeuralNetworkBuilder

    kinds = datatypes.Array(3), datatypes.Array(2)
    builder = NeuralNetworkBuilder([("x", kinds[0])], [("y", kinds[1])])
    builder.add_inner_product("fc", np.ones((2, 3)), np.ones(2), 3, 2, True, "x", "h")
    builder.add_activation("relu", "RELU", "h", "y")
    path = tmp_path / "net.mlmodel"
    tools.utils.save_spec(builder.spec, str(path))
    found = CoremlParser().listing(Request(str(path)))
    assert found.op_types == {"innerProduct": {"": 1}, "activation": {"": 1}}
    assert (found.parameters, dict(found.stored)) == (8, {"float32": 32})
    assert found.format.startswith("Core ML neural network")
