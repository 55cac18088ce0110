"""The main job: EfficientNet-Lite0 from PyTorch to a checked Triton folder."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from converter.ir import Model
from converter.ort import OrtSession
from tests.acceptance.cli import modelyard, tree
from tests.acceptance.conftest import RECIPE

pytestmark = pytest.mark.slow
NAME = "efficientnet-lite0"


@pytest.fixture(scope="session")
def folder(demo: Path) -> Path:
    return demo / "serving" / "triton" / NAME


@pytest.fixture(scope="session")
def config(folder: Path) -> Any:
    parsed = model_config_pb2.ModelConfig()
    text_format.Parse((folder / "config.pbtxt").read_text(), parsed)
    return parsed


def test_the_configuration_says_what_the_file_is(folder: Path, config: Any) -> None:
    proto = onnx.load(folder / "1" / "model.onnx")
    assert config.name == NAME
    assert config.max_batch_size == 8
    pairs = [(config.input, proto.graph.input), (config.output, proto.graph.output)]
    for configured, declared in pairs:
        assert [item.name for item in configured] == [item.name for item in declared]
        for item, value in zip(configured, declared, strict=True):
            dims = value.type.tensor_type.shape.dim
            assert dims[0].dim_param == "batch"
            assert list(item.dims) == [dim.dim_value for dim in dims[1:]]
            assert item.data_type == model_config_pb2.TYPE_FP32
            assert value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_each_warm_up_file_has_the_bytes_that_its_dims_say(folder: Path, config: Any) -> None:
    assert {warmup.batch_size for warmup in config.model_warmup} >= {1, 8}
    for warmup in config.model_warmup:
        for data in warmup.inputs.values():
            size = (folder / "warmup" / data.input_data_file).stat().st_size
            assert size == np.prod(list(data.dims)) * 4


def test_every_batch_up_to_the_largest_works(folder: Path, config: Any) -> None:
    session = OrtSession(folder / "1" / "model.onnx")
    image = np.random.default_rng(0).standard_normal((8, 3, 224, 224)).astype(np.float32)
    whole = session.run({"image": image})["scores"]
    for size in (1, 2, config.max_batch_size):
        scores = session.run({"image": image[:size]})["scores"]
        assert scores.shape == (size, 1000)
        np.testing.assert_allclose(scores, whole[:size], rtol=1e-3, atol=1e-4)


@pytest.mark.smoke
def test_accuracy_is_the_source_s(demo: Path) -> None:
    report = json.loads((demo / "report.json").read_text())
    artifact = report["artifacts"][0]
    top1 = next(metric for metric in artifact["metrics"] if metric["name"] == "top1")
    assert top1["samples"] == 20
    assert top1["source"] == top1["candidate"] == 85.0
    for output in artifact["accuracy"]["outputs"]:
        assert output["cosine_worst"] >= 0.99999
        assert output["cosine_all"] >= 0.99999
    assert report["verdict"] == "passed"
    assert {gate["status"] for gate in artifact["gates"]} == {"passed"}


def test_latency_is_measured_beside_the_source_s(demo: Path) -> None:
    artifact = json.loads((demo / "report.json").read_text())["artifacts"][0]
    roles = {(point["role"], point["batch"]) for point in artifact["latency"]}
    assert roles == {("artifact", 1), ("source", 1), ("artifact", 8), ("source", 8)}
    assert all(point["n"] >= 3 and point["p50_ms"] > 0 for point in artifact["latency"])


def test_names_are_the_user_s_and_the_interface_is_kept_in_the_file(demo: Path) -> None:
    model = Model.load(demo / "onnx" / "fp32" / "model.onnx")
    assert [spec.name for spec in model.inputs] == ["image"]
    assert [spec.name for spec in model.outputs] == ["scores"]
    assert model.source["format"] == "pytorch"
    assert model.history
    assert all(node.name for node in model.nodes())
    assert all(not node.domain for node in model.nodes())


def test_labels_and_client_come_along(folder: Path, config: Any) -> None:
    labels = (folder / "labels.txt").read_text().splitlines()
    assert len(labels) == 1000
    assert config.output[0].label_filename == "labels.txt"
    client = (folder / "client.py").read_text()
    assert "image" in client
    assert NAME in client
    compile(client, "client.py", "exec")


def test_another_run_gives_the_same_bytes_and_a_short_table(demo: Path, tmp_path: Path) -> None:
    env = {"PYTHONHASHSEED": "4711"}
    args = ("run", RECIPE, "--out", "other", "--no-cache", "--no-bench")
    said = modelyard(*args, cwd=tmp_path, env=env)
    assert said.code == 0, said.err
    assert len(said.out.splitlines()) < 60
    assert "report: other/report.html\n" in said.out
    first, second = tree(demo), tree(tmp_path / "other")
    same = [name for name in first if not name.startswith(("report.", "manifest."))]
    assert "onnx/fp32/model.onnx" in same
    assert f"serving/triton/{NAME}/config.pbtxt" in same
    for name in same:
        assert first[name] == second[name], name
    needles = [str(demo.parent), str(Path.home()), str(tmp_path), sys.prefix, "/tmp/"]
    for name, data in (*first.items(), *second.items()):
        for needle in needles:
            assert needle.encode() not in data, (name, needle)
    again = modelyard(*args, cwd=tmp_path)
    assert again.code == 2
    assert "--overwrite" in again.no_traceback().err


def test_the_report_stands_alone(demo: Path) -> None:
    html = (demo / "report.html").read_text()
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", html)
    assert "<svg" in html
    assert "width=device-width" in html


def test_warm_up_data_are_real_samples(folder: Path, config: Any) -> None:
    data = next(iter(config.model_warmup[0].inputs.values()))
    raw = (folder / "warmup" / data.input_data_file).read_bytes()
    image = np.frombuffer(raw, np.float32).reshape(1, 3, 224, 224)
    assert image.min() >= -1.01
    assert image.max() <= 1.01
    assert image.std() > 0.1
    scores = OrtSession(folder / "1" / "model.onnx").run({"image": image})["scores"]
    assert np.isfinite(scores).all()
