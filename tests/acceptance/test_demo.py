"""The main job: EfficientNet-Lite0 from PyTorch to a checked Triton folder, which a real Triton
loads as it is, to answer as the check did."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

from converter.ir.model import Model
from converter.options.recipe import make_request
from converter.runtime.ort import OrtSession
from converter.samples import load_samples
from tests.acceptance.cli import modelyard, tree
from tests.acceptance.conftest import ROOT
from tests.triton.server import TritonServer
from zoo import catalogue

pytestmark = pytest.mark.slow
NAME = "efficientnet-lite0"
RECIPE = ROOT / "recipes" / "efficientnet-lite0-triton.yaml"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of the demo's recipe, made from a cold cache of steps."""
    folder = tmp_path_factory.mktemp("demo")
    modelyard("run", RECIPE, "--out", folder / "demo", "--no-cache", cwd=folder, code=0)
    return folder / "demo"


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


def test_another_run_gives_the_same_bytes_and_a_short_table(demo: Path, tmp_path: Path) -> None:
    env = {"PYTHONHASHSEED": "4711"}
    args = ("run", RECIPE, "--out", "other", "--no-cache", "--no-bench")
    said = modelyard(*args, cwd=tmp_path, env=env, code=0)
    assert len(said.out.splitlines()) < 60 and "report: other/report.html\n" in said.out
    first, second = tree(demo), tree(tmp_path / "other")
    same = {name for name in first if not name.startswith(("report.", "manifest."))}
    files = ("config.pbtxt", "labels.txt", "client.py")
    assert same > {"onnx/fp32/model.onnx", *(f"serving/triton/{NAME}/{file}" for file in files)}
    for name in same:
        assert first[name] == second[name], name
    needles = [str(demo.parent), str(Path.home()), str(tmp_path), sys.prefix, "/tmp/"]
    for name, data in (*first.items(), *second.items()):
        for needle in needles:
            assert needle.encode() not in data, (name, needle)
    again = modelyard(*args, cwd=tmp_path, code=2)
    assert "--overwrite" in again.no_traceback().err


# -- the server ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(demo: Path) -> Iterator[TritonServer]:
    with TritonServer(demo / "serving" / "triton", log_verbose=1) as running:
        yield running


def test_the_warm_up_is_in_its_log(server: TritonServer) -> None:
    lines = [line for line in server.log().splitlines() if "warmup sample" in line and NAME in line]
    assert len(lines) >= 2
    assert "error" not in " ".join(lines).lower()


@pytest.mark.smoke
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_answers_are_the_check_s(server: TritonServer, demo: Path, protocol: str) -> None:
    """Those of the package's own client, too."""
    url = {"http": server.http_url, "grpc": server.grpc_url}[protocol]
    module = {"http": tritonclient.http, "grpc": tritonclient.grpc}[protocol]
    session = OrtSession(demo / "onnx" / "fp32" / "model.onnx")
    source = f"zoo:{NAME}"
    request = make_request({"source": source, **catalogue.resolve(source)})
    samples = load_samples(request, session.inputs, {})
    images = np.concatenate([sample.feeds["image"] for sample in samples])[:8]
    expected = session.run({"image": images})["scores"]
    with module.InferenceServerClient(url) as client:
        for size in (1, 2, 8):
            sent = module.InferInput("image", [size, *images.shape[1:]], "FP32")
            sent.set_data_from_numpy(images[:size])
            answer = client.infer(NAME, [sent]).as_numpy("scores")
            np.testing.assert_allclose(answer, expected[:size], rtol=1e-3, atol=1e-4)
    own = demo / "serving" / "triton" / NAME / "client.py"
    line = [sys.executable, own, "--url", url, "--protocol", protocol]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "scores" in done.stdout
    photo = Path(str(request.samples)) / next(iter(samples)).name
    line = [sys.executable, own, "--url", url, "--protocol", protocol, photo]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert re.search(r"^  10\.3\d+  67\.\d%  243  Bullmastiff$", done.stdout, re.M), done.stderr
