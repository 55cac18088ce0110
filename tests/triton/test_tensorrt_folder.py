"""Folders whose engine is still to be built, on the real server as they are.

The server's onnxruntime backend is the stand-in: it holds the accelerator's parameters to what the
real one takes, and doesn't exercise them. There is no GPU, so instances of ``KIND_AUTO`` run on the
CPU, as they do on a real server without one.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as client

from converter.ir.model import Model
from converter.runtime.ort import OrtSession
from emitters.serving.triton.config import read_config, write_config
from emitters.tensorrt.engine_script import switching
from emitters.tensorrt.engine_script.lock import read_lock
from emitters.tensorrt.libraries import has_gpu
from tests.acceptance.cli import command
from tests.serving.engines import (
    batches,
    built_artifact,
    deferred_artifact,
    package_artifact,
    stand_in_plan,
)  # fmt: skip
from tests.serving.models import adder, text_model
from tests.triton.server import TritonServer, TritonServerError

ENDS = "g (float[batch, 3] x) => (float[batch, 4] y)"
HALF = f"{ENDS} {{ h = Cast<to = 10>(x) p = MatMul(h, w) y = Cast<to = 1>(p) }}"
QUANTIZED = f"""{ENDS} <float scale = {{0.05}}, int8 zero = {{0}}> {{
    stored = QuantizeLinear(x, scale, zero) real = DequantizeLinear(stored, scale, zero)
    weight = DequantizeLinear(w, scale, zero) y = MatMul(real, weight) }}"""
WEIGHT = np.linspace(-6, 5, 12).reshape(3, 4)
MODELS: dict[str, tuple[str, Model]] = {
    "single": ("fp32", adder()), "half": ("fp16", text_model(HALF, w=WEIGHT.astype(np.float16))),
    "quantized": ("int8", text_model(QUANTIZED, w=WEIGHT.astype(np.int8))),
}  # fmt: skip
"""Typed graphs: float16 between casts at its border, symmetric Q/DQ around a MatMul."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of a folder for each precision, as ``--serve triton`` writes them."""
    path = tmp_path_factory.mktemp("deferred")
    for name, (precision, model) in MODELS.items():
        artifact = deferred_artifact(model, path / f"artifact-{name}", precision, max_batch=4)
        package_artifact(artifact, model, path, name=name, max_batch=4)
    return path / "repository"


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[TritonServer]:
    """The real server over them, and over what the tests add."""
    with TritonServer(folder, "explicit", log_verbose=1) as running:
        for name in MODELS:
            running.load(name)
        yield running


@pytest.mark.parametrize("name", MODELS)
def test_the_folder_is_served_as_it_is(server: TritonServer, folder: Path, name: str) -> None:
    data = np.random.default_rng(5).normal(size=(3, 3)).astype(np.float32)
    tensor = client.InferInput("x", [3, 3], "FP32").set_data_from_numpy(data)
    with client.InferenceServerClient(server.http_url) as asking:
        config = asking.get_model_config(name)
        found = asking.infer(name, [tensor]).as_numpy("y")
    session = OrtSession(folder / name / "1" / "model.onnx")
    np.testing.assert_allclose(found, session.run({"x": data})["y"], rtol=1e-5, atol=1e-6)
    (accelerator,) = config["optimization"]["execution_accelerators"]["gpu_execution_accelerator"]
    precision = {"single": "FP32", "half": "FP16", "quantized": "INT8"}[name]
    assert accelerator["parameters"]["precision_mode"] == precision
    assert [group["kind"] for group in config["instance_group"]] == ["KIND_CPU"]


def test_every_profiles_warm_up_ran(server: TritonServer) -> None:
    for name in MODELS:
        for size in (1, 4):
            line = f"instance {name}_0_0 is running warmup sample 'profile0_batch{size}_sample1'"
            assert f"'{name}' {line}" in server.log()


@pytest.mark.parametrize(("key", "value", "message"), [
    ("precision_mode", "FP8", "unsupported precision mode 'FP8'"),
    ("trt_fp16_enable", "1", "unknown parameter 'trt_fp16_enable'"),
    ("trt_profile_min_shapes", "x:9x3", "are not in order"),
    ("trt_profile_max_shapes", "z:4x3", "name different inputs"),
])  # fmt: skip
def test_the_stand_in_holds_the_accelerator_to_the_real_ones_rules(
    folder: Path, server: TritonServer, key: str, value: str, message: str
) -> None:
    config = read_config(folder / "single" / "config.pbtxt")
    config.name = f"refused-{key}"
    config.optimization.execution_accelerators.gpu_execution_accelerator[0].parameters[key] = value
    del config.model_warmup[:]
    version = folder / config.name / "1"
    version.mkdir(parents=True)
    (version / "model.onnx").write_bytes((folder / "single/1/model.onnx").read_bytes())
    (version.parent / "config.pbtxt").write_text(write_config(config))
    with pytest.raises(TritonServerError, match=message):
        server.load(config.name)


def test_a_folder_halfway_to_its_engine_is_served(
    tmp_path: Path, folder: Path, server: TritonServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is in its place and the old configuration set aside; the new one isn't there yet."""
    model = adder()
    artifact = deferred_artifact(model, tmp_path)
    version = package_artifact(artifact, model, folder.parent, name="halfway").path / "1"
    real, names = switching._rename, list[str]()

    def rename(source: Path, target: Path) -> None:
        names.append(target.name)
        if target.name == "config.pbtxt":
            raise InterruptedError
        real(source, target)

    monkeypatch.setattr(switching, "_rename", rename)
    plan = stand_in_plan(tmp_path / "stand-in").read_bytes()
    with pytest.raises(InterruptedError):
        switching.switch(version, plan, read_lock(version))
    assert names == ["model.plan", "config.onnxruntime.pbtxt", "config.pbtxt"]
    server.load("halfway")
    data = np.ones((2, 3), np.float32)
    tensor = client.InferInput("x", [2, 3], "FP32").set_data_from_numpy(data)
    with client.InferenceServerClient(server.http_url) as asking:
        found = asking.infer("halfway", [tensor]).as_numpy("y")
    np.testing.assert_array_equal(found, data + data)


def test_the_server_takes_an_engines_configuration(tmp_path: Path, folder: Path,
                                                   server: TritonServer) -> None:  # fmt: skip
    """Inputs, outputs and batching pass; then the core misses the tensorrt backend. It looks at
    instance groups and their profiles only after that.
    """
    model = adder()
    artifact = built_artifact(model, tmp_path, shapes=batches((1, 1, 4), (4, 8, 16)))
    path = package_artifact(artifact, model, folder.parent, name="engine").path / "config.pbtxt"
    with pytest.raises(TritonServerError, match="backend library for backend 'tensorrt'"):
        server.load("engine")
    config = read_config(path)
    config.input[0].dims[0] = 0
    path.write_text(write_config(config))
    with pytest.raises(TritonServerError) as caught:
        server.load("engine")
    assert "backend library" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.skipif(has_gpu(), reason="there is a GPU: the engine is built at once")
def test_the_server_gives_what_a_real_source_gave(tmp_path: Path) -> None:
    """Of what the command makes; the folder's script reads what was packaged."""
    line = ("convert", "zoo:ccexam-mnist", "--to", "tensorrt", "--precision", "int8", "--serve")
    report = command(*line, "triton", "--no-bench", "--out", tmp_path, "--json", code=0).json
    (artifact,) = report["report"]["artifacts"]
    assert artifact["details"]["engine"] == "deferred" and not list(tmp_path.rglob("*.plan"))
    version = tmp_path / "serving" / "triton" / "ccexam-mnist" / "1"
    script = [sys.executable, str(version / "build_engine.py"), "--dry-run"]
    dry = subprocess.run(script, capture_output=True, text=True, timeout=60, check=True)
    assert "compare it with torch" in dry.stdout
    lock = read_lock(version)
    assert lock["samples"]["reference"].startswith("torch ")
    with (
        TritonServer(version.parents[1]) as server,
        client.InferenceServerClient(server.http_url) as asking,
    ):
        for sample in lock["samples"]["items"]:
            ((name, fed),) = sample["feeds"].items()
            ((out, expected),) = sample["expected"].items()
            given, wanted = (
                np.fromfile(version / item["file"], item["dtype"]).reshape(item["shape"])
                for item in (fed, expected)
            )
            tensor = client.InferInput(name, fed["shape"], "FP32").set_data_from_numpy(given)
            found = asking.infer("ccexam-mnist", [tensor]).as_numpy(out)
            cosine = np.vdot(found, wanted) / np.linalg.norm(found) / np.linalg.norm(wanted)
            assert cosine > lock["gates"]["cosine"]
