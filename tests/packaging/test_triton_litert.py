"""TFLite files on the real Triton server: its Python backend, and LiteRT in its environment."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from converter.errors import UsageError
from emitters.serving.triton.config import read_config
from emitters.serving.triton.running import LITERT
from emitters.serving.triton.server import TritonServer as TritonPlugin
from emitters.serving.triton.validate import validate_folder
from emitters.tflite.emitter import TfliteEmitter
from tests.acceptance.cli import converted_cnn
from tests.serving.models import adder, make_request, samples_for
from tests.triton import server as triton_server
from tests.triton.environment import TritonEnvironment, provide_triton_environment
from tests.triton.server import TritonServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def environment() -> TritonEnvironment:
    """The server's environment, with LiteRT beside its numpy 1.26."""
    return provide_triton_environment(LITERT)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = "--to tflite --precision fp32,int8 --few-samples --io-dtype int8 --out out"
    folder = tmp_path_factory.mktemp("litert")
    return converted_cnn(folder, f"{options} --serve triton --max-batch 6") / "out"


@pytest.fixture(scope="module")
def server(out: Path, environment: TritonEnvironment) -> Iterator[TritonServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_server, "provide_triton_environment", lambda: environment)
        with TritonServer(out / "serving/triton", log_verbose=1) as running:
            yield running


@pytest.mark.parametrize("name", ["cnn_fp32", "cnn_int8"])
def test_its_answers_are_the_sources(out: Path, server: TritonServer, name: str) -> None:
    package = out / "serving/triton" / name
    config = read_config(package / "config.pbtxt")
    assert (config.backend, config.max_batch_size) == ("python", 6)
    files = {path.name for path in (package / "1").iterdir() if path.is_file()}
    assert files == {"model.tflite", "model.py"}
    line = [sys.executable, "-I", str(package / "selftest.py"), "--url"]
    line.append(f"http://{server.http_url}")
    done = subprocess.run(line, text=True, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert f"'{name}' instance {name}_0_0 is running warmup sample 'batch6_sample1'" in server.log()
    facts = json.loads((package / "modelyard.json").read_text())
    dtype = "int8" if name == "cnn_int8" else "float32"
    assert facts["inputs"][0]["dtype"] == facts["outputs"][0]["dtype"] == dtype


def test_a_batch_is_its_elements(out: Path, server: TritonServer) -> None:
    values = np.load(out.parent / "samples.npz")["image"]
    together = asked(server, values[:5])
    alone = np.concatenate([asked(server, values[n : n + 1]) for n in range(5)])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-6)
    with pytest.raises(urllib.error.HTTPError) as refused:
        asked(server, values[:7])
    assert b"batch" in refused.value.read()


def asked(server: TritonServer, values: np.ndarray) -> np.ndarray:
    shape, data = list(values.shape), values.ravel().tolist()
    entry = {"name": "image", "shape": shape, "datatype": "FP32", "data": data}
    url = f"http://{server.http_url}/v2/models/cnn_fp32/infer"
    body = json.dumps({"inputs": [entry]}).encode()
    with urllib.request.urlopen(url, body, timeout=30) as page:
        (output,) = json.load(page)["outputs"]
    return np.array(output["data"], np.float32).reshape(output["shape"])


def test_what_is_wrong_in_the_folder_is_found(tmp_path: Path) -> None:
    model, request = adder(), make_request()
    artifact = TfliteEmitter().emit(model, tmp_path / "tflite", "fp32", request)
    made = TritonPlugin().package(artifact, model, samples_for(model), request, tmp_path / "r").path
    assert validate_folder(made) == []
    text = (made / "config.pbtxt").read_text()
    (made / "config.pbtxt").write_text(text.replace("dims: [3]", "dims: [4]", 1))
    assert any("dims [-1, 4]" in line for line in validate_folder(made))
    (made / "1" / "model.py").unlink()
    assert any("holds no model.py" in line for line in validate_folder(made))


def test_what_litert_has_no_place_for(tmp_path: Path) -> None:
    for fields in ({"instance_kind": "gpu"}, {"optimization": "basic"}):
        model, request = adder(), make_request(**fields)
        artifact = TfliteEmitter().emit(model, tmp_path / "tflite", "fp32", request)
        with pytest.raises(UsageError, match=next(iter(fields)).replace("_", "-")):
            TritonPlugin().package(artifact, model, samples_for(model), request, tmp_path / "r")
