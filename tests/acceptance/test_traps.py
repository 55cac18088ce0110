"""What peers get wrong, through the command line: a right result, or said and rolled back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from converter.ort import OrtSession
from tests.acceptance.cli import modelyard
from tests.passes.real import MODELS
from zoo.packages import fetch_package_file


def save(
    path: Path, nodes: list[onnx.NodeProto], inputs: object, outputs: object, *weights: object
) -> None:
    def infos(specs: dict[str, list[int | str]]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in specs.items()]

    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights]  # type: ignore[misc]
    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), tensors)  # type: ignore[arg-type]
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


def convert(folder: Path, *args: str) -> dict[str, object]:
    said = modelyard(
        "convert", "m.onnx", "--no-bench", "--out", "out", "--json", *args, cwd=folder
    ).no_traceback()
    assert said.code == 0, said.err
    report: dict[str, object] = said.json["report"]
    return report


def test_silence_does_not_become_nan(tmp_path: Path) -> None:
    """Log(x + 1e-10): onnxscript's optimizer drops the addition, and zeros become -Inf or NaN."""
    nodes = [
        helper.make_node("Add", ["x", "tiny"], ["a"], name="add"),
        helper.make_node("Log", ["a"], ["y"], name="log"),
    ]
    tiny = ("tiny", np.array(1e-10, np.float32))
    save(tmp_path / "m.onnx", nodes, {"x": ["batch", 4]}, {"y": ["batch", 4]}, tiny)
    convert(tmp_path)
    session = OrtSession(tmp_path / "out/onnx/fp32/model.onnx")
    out = session.run({"x": np.zeros((1, 4), np.float32)})["y"]
    np.testing.assert_allclose(out, np.log(np.float32(1e-10)), rtol=1e-5)


def test_a_wrong_declared_output_shape_is_put_right(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Transpose", ["r"], ["y"], name="turn", perm=[0, 2, 1]),
    ]
    save(tmp_path / "m.onnx", nodes, {"x": ["batch", 2, 3]}, {"y": ["batch", 2, 3]})
    report = convert(tmp_path)
    session = OrtSession(tmp_path / "out/onnx/fp32/model.onnx")
    assert session.outputs[0].shape == ("batch", 3, 2)
    assert session.run({"x": np.zeros((1, 2, 3), np.float32)})["y"].shape == (1, 3, 2)
    assert "declared" in str(report["passes"])


def test_a_nested_if(tmp_path: Path) -> None:
    real = MODELS["silero"]
    source = fetch_package_file(real.package, real.version, real.member, real.sha256)
    said = modelyard(
        "convert", source, "--no-bench", "--out", "out", "--samples", _speech(tmp_path),
        "--input", "input:batchxlength", "--input", "state:2xbatchx128", "--input", "sr:int64:",
        cwd=tmp_path,
    ).no_traceback()  # fmt: skip
    assert said.code == 0, said.err
    before, after = OrtSession(source), OrtSession(tmp_path / "out/onnx/fp32/model.onnx")
    wave = np.sin(np.arange(576, dtype=np.float32) / 7)[None] * 0.3
    for scale in (0.0, 1.0):
        feeds = {
            "input": wave * np.float32(scale),
            "state": np.zeros((2, 1, 128), np.float32),
            "sr": np.array(16000),
        }
        expected, found = before.run(feeds), after.run(feeds)
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-5)


def _speech(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    (folder / "samples").mkdir()
    for number in range(3):
        np.savez(
            folder / "samples" / f"{number}.npz",
            input=rng.standard_normal((1, 576)).astype(np.float32) * 0.1,
            state=np.zeros((2, 1, 128), np.float32),
            sr=np.array(16000),
        )
    return folder / "samples"


def test_unnamed_nodes_get_names(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])]
    save(tmp_path / "m.onnx", nodes, {"x": ["batch", 4]}, {"y": ["batch", 4]})
    convert(tmp_path)
    written = onnx.load(tmp_path / "out/onnx/fp32/model.onnx")
    names = [node.name for node in written.graph.node]
    assert all(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("asked", [None, "dynamic"])
def test_a_declared_batch_that_fails_at_2(tmp_path: Path, asked: str | None) -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"], name="reshape")]
    save(
        tmp_path / "m.onnx", nodes, {"x": ["batch", 4]}, {"y": ["batch", 2, 2]},
        ("shape", np.array([1, 2, 2], np.int64)),
    )  # fmt: skip
    if asked:
        said = modelyard("convert", "m.onnx", "--batch", asked, "--no-bench", cwd=tmp_path)
        assert said.no_traceback().code == 3, said.err
        assert "fails at 2" in said.err
        return
    report = convert(tmp_path, "--serve", "triton")
    assert "BATCH IS FIXED TO 1" in str(report["alerts"])
    session = OrtSession(tmp_path / "out/onnx/fp32/model.onnx")
    assert session.inputs[0].shape == (1, 4)
    config = (tmp_path / "out/serving/triton/m/config.pbtxt").read_text()
    assert "max_batch_size" not in config or "max_batch_size: 0" in config
