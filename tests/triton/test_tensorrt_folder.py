"""Folders whose engine is still to be built, on the real server as they are.

The server's onnxruntime backend is the stand-in: it holds the accelerator's parameters to what the
real one takes, and doesn't exercise them. There is no GPU, so instances of ``KIND_AUTO`` run on the
CPU, as they do on a real server without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as client
from onnx import TensorProto, helper

from converter.ir import Model
from converter.ort import OrtSession
from emitters.serving.triton_config import read_config, write_config
from emitters.tensorrt.engine_script import switching
from emitters.tensorrt.engine_script.lock import read_lock
from tests.serving.engines import (
    batches,
    built_artifact,
    deferred_artifact,
    package_artifact,
    stand_in_plan,
)
from tests.serving.models import adder, make_model
from tests.triton.environment import TritonEnvironment
from tests.triton.server import TritonServer, TritonServerError

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def half_model() -> Model:
    """A typed graph: float16 between casts at its border."""
    weight = np.linspace(-1, 1, 12, dtype=np.float16).reshape(3, 4)
    nodes = [
        helper.make_node("Cast", ["x"], ["half"], to=HALF),
        helper.make_node("MatMul", ["half", "w"], ["product"]),
        helper.make_node("Cast", ["product"], ["y"], to=FLOAT),
    ]
    tensor = helper.make_tensor("w", HALF, [3, 4], weight.tobytes(), raw=True)
    return make_model(nodes, {"x": (FLOAT, ("batch", 3))}, {"y": (FLOAT, ("batch", 4))}, [tensor])


def quantized_model() -> Model:
    """A typed graph: symmetric Q/DQ around a MatMul."""
    weight = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["stored"]),
        helper.make_node("DequantizeLinear", ["stored", "scale", "zero"], ["real"]),
        helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["weight"]),
        helper.make_node("MatMul", ["real", "weight"], ["y"]),
    ]
    initializers = [
        helper.make_tensor("scale", FLOAT, [], [0.05]),
        helper.make_tensor("zero", TensorProto.INT8, [], [0]),
        helper.make_tensor("w", TensorProto.INT8, [3, 4], weight.ravel()),
    ]
    ends = {"x": (FLOAT, ("batch", 3))}, {"y": (FLOAT, ("batch", 4))}
    return make_model(nodes, *ends, initializers)


MODELS: dict[str, tuple[str, Callable[[], Model]]] = {
    "single": ("fp32", adder),
    "half": ("fp16", half_model),
    "quantized": ("int8", quantized_model),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of a folder for each precision, as ``--serve triton`` writes them."""
    path = tmp_path_factory.mktemp("deferred")
    for name, (precision, make) in MODELS.items():
        model = make()
        artifact = deferred_artifact(model, path / f"artifact-{name}", precision, max_batch=4)
        package_artifact(artifact, model, path, name=name, max_batch=4)
    return path / "repository"


@pytest.fixture(scope="module")
def server(folder: Path, triton_environment: TritonEnvironment) -> Iterator[TritonServer]:
    """The real server over them, and over what the tests add."""
    with TritonServer(
        folder, model_control="explicit", log_verbose=1, environment=triton_environment
    ) as running:
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


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("precision_mode", "FP8", "unsupported precision mode 'FP8'"),
        ("trt_fp16_enable", "1", "unknown parameter 'trt_fp16_enable'"),
        ("trt_profile_min_shapes", "x:9x3", "are not in order"),
        ("trt_profile_max_shapes", "z:4x3", "name different inputs"),
    ],
)
def test_the_stand_in_holds_the_accelerator_to_the_real_ones_rules(
    folder: Path, server: TritonServer, key: str, value: str, message: str
) -> None:
    config = read_config(folder / "single" / "config.pbtxt")
    config.name = f"refused-{key}"
    accelerator = config.optimization.execution_accelerators.gpu_execution_accelerator[0]
    accelerator.parameters[key] = value
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


def test_the_server_takes_an_engines_configuration(
    tmp_path: Path, folder: Path, server: TritonServer
) -> None:
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
