"""TorchScript files and SavedModels in Triton as they are.

TorchScript runs on the real server, by the backend of ours in Python; SavedModels in TensorFlow.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from converter.errors import DependencyError
from converter.options.recipe import make_request
from converter.plugins import Artifact
from emitters.as_is.emitter import TorchScriptEmitter
from emitters.serving.triton.config import read_config
from emitters.serving.triton.running import TORCH
from emitters.serving.triton.server import TritonServer as TritonPlugin
from emitters.serving.triton.validate import validate_folder
from tests.acceptance.cli import command, small_cnn
from tests.triton import server as triton_server
from tests.triton.environment import provide_triton_environment
from tests.triton.server import TritonServer, TritonServerError

pytestmark = pytest.mark.slow


class Net(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked
    """Two inputs, of which only the order tells which is which; two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(
        self, x: torch.Tensor, less: torch.Tensor, by: float = 2.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.linear(x - less)
        return torch.softmax(y, 1), y * by


class Named(torch.nn.Module):  # type: ignore[misc]
    """Outputs by name, which the pytorch backend refuses."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"twice": 2 * x}


def scripted(path: Path, module: torch.nn.Module, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    torch.jit.script(module.eval()).save(str(path))
    return path


INPUTS = ("--input", "first:batchx4", "--input", "second:batchx4")
QUICK = ("--few-samples", "--no-bench", "--serve", "triton")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("as-is")
    source = scripted(folder / "net.pt", Net())
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal((6, 4), np.float32) for name in ("first", "second")}
    np.savez(folder / "samples.npz", **arrays)
    asked = (*INPUTS, "--samples", str(folder / "samples.npz"), "--max-batch", "6", *QUICK)
    command("convert", str(source), "--trust-source", "--to", "torchscript", *asked,
            "--out", str(folder / "out"), code=0)  # fmt: skip
    return folder / "out"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_package_holds_the_sources_bytes(out: Path) -> None:
    source, package = out.parent / "net.pt", out / "serving/triton/net"
    report = json.loads((out / "report.json").read_text())
    (artifact,) = report["artifacts"]
    assert (artifact["target"], artifact["precision"]) == ("torchscript", "fp32")
    assert artifact["sha256"] == sha256(source)
    assert sha256(package / "1" / "model.pt") == sha256(source)
    config = read_config(package / "config.pbtxt")
    assert (config.backend, config.platform) == ("pytorch", "pytorch_libtorch")
    assert [(item.name, list(item.dims)) for item in config.input] == [("x", [4]), ("less", [4])]
    names = [(item.name, list(item.dims)) for item in config.output]
    assert names == [("OUTPUT__0", [3]), ("OUTPUT__1", [3])]
    assert validate_folder(package) == []


@pytest.fixture(scope="module")
def server(out: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """A server that has PyTorch, over the package and one that names an output wrongly."""
    environment = provide_triton_environment(*TORCH)
    repository = tmp_path_factory.mktemp("repository")
    shutil.copytree(out / "serving/triton/net", repository / "net")
    shutil.copytree(out / "serving/triton/net", repository / "swapped")
    config = repository / "swapped" / "config.pbtxt"
    text = config.read_text().replace('name: "net"', 'name: "swapped"')
    config.write_text(text.replace("OUTPUT__1", "OUTPUT__2"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_server, "provide_triton_environment", lambda: environment)
        with TritonServer(repository, "explicit", log_verbose=1) as running:
            running.load("net")
            yield running


def test_it_is_served(out: Path, server: TritonServer) -> None:
    package = out / "serving/triton/net"
    line = [sys.executable, "-I", str(package / "selftest.py"), "--url"]
    line.append(f"http://{server.http_url}")
    done = subprocess.run(line, text=True, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pytorch backend in Python: 'net' version 1 runs model.pt on PyTorch" in server.log()
    assert "instance net_0_0 is running warmup sample 'batch6_sample1'" in server.log()


def test_a_batch_is_what_torch_gives(out: Path, server: TritonServer) -> None:
    module = torch.jit.load(str(out.parent / "net.pt"))
    feeds = dict(np.load(out.parent / "samples.npz"))
    given = [torch.from_numpy(feeds[name]) for name in ("first", "second")]
    wanted = [output.detach().numpy() for output in module(*given)]
    found = asked(server, {"less": feeds["second"], "x": feeds["first"]})
    np.testing.assert_allclose(found["OUTPUT__0"], wanted[0], atol=1e-6)
    np.testing.assert_allclose(found["OUTPUT__1"], wanted[1], rtol=1e-5, atol=1e-5)


def test_a_place_that_is_not_there_is_found(
    out: Path, server: TritonServer, tmp_path: Path
) -> None:
    with pytest.raises(TritonServerError, match="output index"):
        server.load("swapped")
    package = shutil.copytree(out / "serving/triton/net", tmp_path / "net")
    config = package / "config.pbtxt"
    config.write_text(config.read_text().replace("OUTPUT__1", "OUTPUT__2"))
    assert any("places aren't 0 to 1" in line for line in validate_folder(package))
    (package / "1" / "model.pt").write_bytes(b"PK")
    assert any("no TorchScript file" in line for line in validate_folder(package))


def asked(server: TritonServer, feeds: dict[str, Any]) -> dict[str, Any]:
    inputs = [
        {"name": name, "shape": list(array.shape), "datatype": "FP32",
         "data": array.ravel().tolist()}
        for name, array in feeds.items()
    ]  # fmt: skip
    url = f"http://{server.http_url}/v2/models/net/infer"
    with urllib.request.urlopen(url, json.dumps({"inputs": inputs}).encode(), timeout=30) as page:
        outputs = json.load(page)["outputs"]
    return {item["name"]: np.reshape(item["data"], item["shape"]) for item in outputs}


def test_the_copy_is_what_is_run(tmp_path: Path) -> None:
    """Another module in the copy's place gives other numbers."""
    source, other = scripted(tmp_path / "a.pt", Net()), scripted(tmp_path / "b.pt", Net(), 1)
    interface = {
        "inputs": [["first", "float32", ["batch", 4]], ["second", "float32", ["batch", 4]]],
        "outputs": [["p", "float32", ["batch", 3]], ["q", "float32", ["batch", 3]]],
    }
    request = make_request({"source": str(source), "trust_source": True})
    feeds = {name: np.ones((2, 4), np.float32) * at for at, name in enumerate(("second", "first"))}
    for path in (source, other):
        made = Artifact("torchscript", "fp32", path, [path], {"interface": interface})
        session = TorchScriptEmitter().open(made, request)
        found = session.run(feeds)
        session.close()
        given = [torch.from_numpy(feeds[name]) for name in ("first", "second")]
        for array, wanted in zip(found.values(), torch.jit.load(str(path))(*given), strict=True):
            np.testing.assert_allclose(array, wanted.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_what_is_refused(tmp_path: Path) -> None:
    small_cnn(tmp_path / "cnn.onnx")
    net, named = scripted(tmp_path / "net.pt", Net()), scripted(tmp_path / "named.pt", Named())
    to = ("--to", "torchscript", "--out", str(tmp_path / "out"), "--no-bench")
    said = command("convert", str(tmp_path / "cnn.onnx"), *to, code=2)
    assert "cnn.onnx is no TorchScript file" in said.err
    said = command(
        "convert", str(net), "--trust-source", *INPUTS, *to, "--precision", "fp16", code=2
    )
    assert "torchscript has no fp16" in said.err
    said = command("convert", str(net), *INPUTS, *to, code=3)
    assert "--trust-source" in said.err
    fixed = ("--input", "first:1x4", "--input", "second:1x4", "--fix")
    fixed = ("--trust-source", *fixed, "second=[[1, 1, 1, 1]]")
    said = command("convert", str(net), *fixed, *to, code=3)
    assert "the file takes it, and here it is fixed" in said.err
    more = ("--trust-source", "--input", "x:batchx4", "--serve", "triton")
    said = command("convert", str(named), *more, *to, code=3)
    assert "a tensor or a tuple of tensors" in said.err
    assert not (tmp_path / "out").exists()


SAVED = """
import sys, tensorflow as tf
module = tf.Module()
module.w = tf.Variable(tf.reshape(tf.range(12.0), (4, 3)))
spec = tf.TensorSpec((None, 4), tf.float32, name="x")
score = tf.function(lambda x: {"scores": tf.nn.softmax(x @ module.w)}, input_signature=[spec])
double = tf.function(lambda x: {"twice": x * 2}, input_signature=[spec])
tf.saved_model.save(module, sys.argv[1], signatures={"score": score, "double": double})
"""


def test_a_saved_model(tmp_path: Path) -> None:
    source, out = tmp_path / "scorer", tmp_path / "out"
    subprocess.run([sys.executable, "-c", SAVED, str(source)], check=True, capture_output=True)
    to = ("--signature", "score", "--to", "savedmodel", "--out", str(out), *QUICK)
    said = command("convert", str(source), *to, "--input", "other:batchx4", code=3)
    assert "the signature's inputs are x" in said.err
    command("convert", str(source), *to, code=0)
    package = out / "serving/triton/scorer"
    copy = package / "1" / "model.savedmodel"
    files = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert {path.relative_to(copy) for path in copy.rglob("*") if path.is_file()} == files
    assert all(sha256(source / name) == sha256(copy / name) for name in files)
    config = read_config(package / "config.pbtxt")
    assert (config.backend, config.platform) == ("tensorflow", "tensorflow_savedmodel")
    assert config.parameters["TF_SIGNATURE_DEF"].string_value == "score"
    assert "TF_GRAPH_TAG" not in config.parameters and config.max_batch_size == 8
    assert [(item.name, list(item.dims)) for item in config.input] == [("x", [4])]
    assert [(item.name, list(item.dims)) for item in config.output] == [("scores", [3])]
    facts = json.loads((package / "modelyard.json").read_text())
    assert facts["reference"].startswith("tensorflow ") and list((package / "expected").iterdir())
    assert validate_folder(package) == []
    with pytest.raises(DependencyError, match="no TensorFlow"):
        TritonPlugin().environment(package)
    (copy / "saved_model.pb").unlink()
    assert any("no SavedModel" in line for line in validate_folder(package))
