"""TorchScript files and SavedModels in Triton as they are.

TorchScript runs on the real server, by the backend of ours in Python; SavedModels in TensorFlow.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from google.protobuf import text_format

from emitters.serving.triton.config import read_config
from emitters.serving.triton.running import TORCH
from emitters.serving.triton.validate import validate_folder
from tests.acceptance.cli import command
from tests.triton import server as triton_server
from tests.triton.environment import provide_triton_environment
from tests.triton.server import TritonServer

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
    config = read_config(repository / "swapped" / "config.pbtxt")
    config.name, config.output[1].name = "swapped", "OUTPUT__2"
    # Triton's core can hang, or crash, where a model's warm-up fails as soon as it is there.
    del config.model_warmup[:]
    text = text_format.MessageToString(config)
    (repository / "swapped" / "config.pbtxt").write_text(text)
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
    server.load("swapped")
    with pytest.raises(urllib.error.HTTPError) as refused:
        asked(server, {name: np.ones((1, 4), np.float32) for name in ("x", "less")}, "swapped")
    assert "output index" in refused.value.read().decode()
    package = shutil.copytree(out / "serving/triton/net", tmp_path / "net")
    config = package / "config.pbtxt"
    config.write_text(config.read_text().replace("OUTPUT__1", "OUTPUT__2"))
    assert any("places aren't 0 to 1" in line for line in validate_folder(package))
    (package / "1" / "model.pt").write_bytes(b"PK")
    assert any("no TorchScript file" in line for line in validate_folder(package))


def asked(server: TritonServer, feeds: dict[str, Any], model: str = "net") -> dict[str, Any]:
    inputs = [
        {"name": name, "shape": list(array.shape), "datatype": "FP32",
         "data": array.ravel().tolist()}
        for name, array in feeds.items()
    ]  # fmt: skip
    url = f"http://{server.http_url}/v2/models/{model}/infer"
    with urllib.request.urlopen(url, json.dumps({"inputs": inputs}).encode(), timeout=30) as page:
        outputs = json.load(page)["outputs"]
    return {item["name"]: np.reshape(item["data"], item["shape"]) for item in outputs}
