"""The harness itself: a real Triton server, serving tiny models through the stand-in backend."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import psutil
import pytest
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from tests.triton import environment
from tests.triton.environment import TRITON_VERSION, TritonEnvironment
from tests.triton.server import TritonServer, TritonServerError
from tests.triton.tiny import adder, model_bytes, put_model

Array = np.ndarray[Any, Any]
Serve = Callable[..., str]

TENSORS = """
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] } ]
"""
CPU = "instance_group [ { kind: KIND_CPU count: 1 } ]\n"
BACKEND = 'backend: "onnxruntime"\n' + CPU
BATCHED = BACKEND + "max_batch_size: 8\n" + TENSORS
UNBATCHED = BACKEND + "max_batch_size: 0\n" + TENSORS
LOOKUP = BATCHED.replace("FP32", "INT64").replace("[ 3 ]", "[ 1 ]")
SAMPLE = np.array([[1.5, -2.0, 3.0], [4.0, 0.0, 0.25]], dtype=np.float32)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repository")


@pytest.fixture(scope="module")
def server(repository: Path, triton_environment: TritonEnvironment) -> Iterator[TritonServer]:
    """One server for all tests that only load models into it."""
    running = TritonServer(
        repository, model_control="explicit", log_verbose=1, environment=triton_environment
    )
    with running:
        yield running


@pytest.fixture(scope="module")
def client(server: TritonServer) -> Iterator[Any]:
    connection = tritonclient.grpc.InferenceServerClient(server.grpc_url)
    yield connection
    connection.close()


@pytest.fixture
def serve(repository: Path, server: TritonServer, request: pytest.FixtureRequest) -> Serve:
    """Write a model folder under a name of the test's own and load it."""

    def serve_one(
        config: str, *, suffix: str = "", change: tuple[str, str] = ("", ""), **parts: Any
    ) -> str:
        name = re.sub(r"\W+", "_", request.node.name) + suffix
        parts.setdefault("versions", {1: adder()})
        put_model(repository, name, f'name: "{name}"\n{config}'.replace(*change, 1), **parts)
        server.load(name)
        return name

    return serve_one


def lookup() -> bytes:
    """A model that fails while it runs where its input is not 0 or 1."""
    tensor = (TensorProto.INT64, ("batch", 1))
    table = helper.make_tensor("table", TensorProto.INT64, [2], [10, 20])
    node = helper.make_node("Gather", ["table", "x"], ["y"])
    return model_bytes([node], {"x": tensor}, {"y": tensor}, [table])


def infer(client: Any, model: str, x: Array, triton_type: str = "FP32", **options: Any) -> Array:
    """Send `x` by gRPC and return `y`."""
    tensor = tritonclient.grpc.InferInput("x", list(x.shape), triton_type)
    tensor.set_data_from_numpy(x)
    y: Array = client.infer(model, [tensor], **options).as_numpy("y")
    return y


@pytest.mark.parametrize(
    ("field", "value"), [("backend", "onnxruntime"), ("platform", "onnxruntime_onnx")]
)
def test_answers_as_onnx_runtime_does(field: str, value: str, serve: Serve, client: Any) -> None:
    assert client.get_server_metadata().version == TRITON_VERSION
    model = serve(f'{field}: "{value}"\n{CPU}max_batch_size: 8\n{TENSORS}')
    session = onnxruntime.InferenceSession(adder(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": SAMPLE})
    np.testing.assert_array_equal(infer(client, model, SAMPLE), expected)


def test_warm_up_from_a_file_shows_in_the_log(serve: Serve, server: TritonServer) -> None:
    """The file holds one batch element, without the batch dimension, and is sent repeatedly."""
    warm_up = """
    model_warmup [ { name: "sample" batch_size: 2 inputs { key: "x" value {
        data_type: TYPE_INT64 dims: [ 1 ] input_data_file: "sample.bin" } } } ]
    """
    config = LOOKUP + warm_up
    sample = np.array([1], dtype=np.int64).tobytes()
    model = serve(config, versions={1: lookup()}, files={"warmup/sample.bin": sample})
    line = f"model '{model}' instance {model}_0_0 is running warmup sample 'sample' for iteration 1"
    assert line in server.log()
    _wait_until(lambda: f"'{model}' runs 2 requests, batch size 2" in server.log())
    short = {"warmup/sample.bin": sample[:7]}
    with pytest.raises(TritonServerError, match="warmup setting expects 8 bytes"):
        serve(config, suffix="_short", versions={1: lookup()}, files=short)
    with pytest.raises(TritonServerError, match=r"failed to open .*warmup/sample\.bin"):
        serve(config, suffix="_without_file", versions={1: lookup()})


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("latest: { num_versions: 1 }", {"2"}),
        ("all: { }", {"1", "2"}),
        ("specific: { versions: [ 1 ] }", {"1"}),
    ],
)
def test_version_policy_decides_what_is_served(
    policy: str, served: set[str], serve: Serve, client: Any
) -> None:
    versions = {1: adder(increment=1.0), 2: adder(increment=2.0)}
    model = serve(f"{BATCHED}version_policy: {{ {policy} }}", versions=versions)
    for version in versions:
        ready = client.is_model_ready(model, str(version))
        assert ready == (str(version) in served)
        if ready:
            answer = infer(client, model, SAMPLE, model_version=str(version))
            np.testing.assert_array_equal(answer, SAMPLE + version)


def test_unbatched_model_has_the_whole_shape_in_its_config(serve: Serve, client: Any) -> None:
    model = serve(UNBATCHED.replace("[ 3 ]", "[ 2, 3 ]"), versions={1: adder((2, 3))})
    np.testing.assert_array_equal(infer(client, model, SAMPLE), SAMPLE + 1)
    with pytest.raises(InferenceServerException, match="unexpected shape for input 'x'"):
        infer(client, model, SAMPLE[:1])


INPUT, OUTPUT = TENSORS.strip().splitlines()
SETTINGS = """
parameters { key: "intra_op_thread_count" value { string_value: "%s" } }
optimization { graph { level: 1 } }
"""


OPEN = adder(("batch", "width"))
REFUSED: dict[str, tuple[str, str, str, str, bytes]] = {
    "input-dim": (INPUT, "[ 3 ]", "[ 4 ]", "tensor 'x'.*specifies", adder()),
    "output-dim": (OUTPUT, "[ 3 ]", "[ 4 ]", "tensor 'y'.*specifies", adder()),
    "input-opened": (INPUT, "[ 3 ]", "[ -1 ]", "tensor 'x'.*specifies", adder()),
    "output-opened": (OUTPUT, "[ 3 ]", "[ -1 ]", "tensor 'y'.*specifies", adder()),
    "output-narrowed": (OUTPUT, "", "", "tensor 'y'", OPEN),
    "input-rank": (INPUT, "[ 3 ]", "[ 3, 1 ]", "expects 2 dimensions", adder()),
    "input-type": (INPUT, "FP32", "FP16", "provides TYPE_FP32", adder()),
    "output-type": (OUTPUT, "FP32", "INT32", "TYPE_FP32", adder()),
    "input-name": (INPUT, '"x"', '"z"', "allowed inputs are: x", adder()),
    "output-name": (OUTPUT, '"y"', '"z"', "outputs are: y", adder()),
    "count": (INPUT, INPUT, INPUT + INPUT.replace('"x"', '"z"'), "expects 2 inputs", adder()),
    "model-name": ('name: "', '"', '"not_', "directory name must equal", adder()),
    "gpu": ("kind: KIND_CPU", "CPU", "GPU", "GPU", adder()),
    "field-name": ("max_batch_size", "max", "maximum", "no field named", adder()),
    "backend": ('"onnxruntime"', "onnxruntime", "tensorrt", "unable to find backend", adder()),
    "parameter": (OUTPUT, OUTPUT, OUTPUT + SETTINGS % "one", "must be a whole number", adder()),
    "first-dimension": (INPUT, "", "", "first dimension must be -1", adder((8, 3))),
}
"""A line of the configuration, what is replaced in it and by what, the reason, and the model."""


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_configurations_are_refused(case: str, serve: Serve) -> None:
    line, old, new, reason, model = REFUSED[case]
    with pytest.raises(TritonServerError, match=reason):
        serve(BATCHED, versions={1: model}, change=(line, line.replace(old, new, 1)))


def test_what_the_session_takes(serve: Serve) -> None:
    """Parameters and the level of optimization; of inputs narrower dims than the model's."""
    serve(BATCHED + SETTINGS % 1)
    opened = BATCHED.replace(OUTPUT, OUTPUT.replace("[ 3 ]", "[ -1 ]"))
    serve(opened, suffix="_narrowed", versions={1: OPEN})


def test_a_failing_run_is_reported_to_its_request_only(serve: Serve, client: Any) -> None:
    model = serve(LOOKUP, versions={1: lookup()})
    with pytest.raises(InferenceServerException, match="out of data bounds"):
        infer(client, model, np.array([[7]], dtype=np.int64), "INT64")
    answer = infer(client, model, np.array([[1]], dtype=np.int64), "INT64")
    np.testing.assert_array_equal(answer, [[20]])


def test_every_instance_has_a_process_of_its_own(serve: Serve, server: TritonServer) -> None:
    before = len(psutil.Process(server.pid).children())
    serve(BATCHED.replace("count: 1", "count: 3"))
    assert len(psutil.Process(server.pid).children()) == before + 3


def test_a_model_that_does_not_load_ends_the_start_with_the_log(
    tmp_path: Path, triton_environment: TritonEnvironment
) -> None:
    put_model(tmp_path, "broken", BATCHED, {1: b"not a model"})
    server = TritonServer(tmp_path, environment=triton_environment)
    with pytest.raises(TritonServerError, match="INVALID_PROTOBUF"):
        server.start()
    with pytest.raises(TritonServerError, match="not running"):
        _ = server.pid


def test_listens_on_the_loopback_interface_only(server: TritonServer) -> None:
    listening = [
        connection.laddr
        for connection in psutil.Process(server.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert len({address.port for address in listening}) == 3


def test_stop_leaves_nothing_behind(tmp_path: Path, triton_environment: TritonEnvironment) -> None:
    put_model(tmp_path, "add", BATCHED, {1: adder()})
    with TritonServer(tmp_path, environment=triton_environment) as server:
        process = psutil.Process(server.pid)
        family = [process, *process.children(recursive=True)]
        traces = _traces(server)
        assert len(family) == 2
        assert all(trace.exists() for trace in traces)
    server.stop()
    assert not any(member.is_running() for member in family)
    assert not any(trace.exists() for trace in traces)
    assert "Started HTTPService" in server.log()


def test_a_killed_test_process_leaves_nothing_behind(
    tmp_path: Path, triton_environment: TritonEnvironment
) -> None:
    put_model(tmp_path, "add", BATCHED, {1: adder()})
    script = """
import sys, threading
from pathlib import Path
from tests.triton.server import TritonServer
from tests.triton.test_harness import _traces
server = TritonServer(Path(sys.argv[1]))
thread = threading.Thread(target=server.start)
thread.start()
thread.join()
print(server.pid, *_traces(server), sep="\\n", flush=True)
threading.Event().wait()
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=Path(__file__).resolve().parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    try:
        process = psutil.Process(int(owner.stdout.readline()))
        family = [process, *process.children(recursive=True)]
        traces = [Path(owner.stdout.readline().strip()) for _ in range(2)]
        assert all(trace.exists() for trace in traces)
    finally:
        os.kill(owner.pid, signal.SIGKILL)
        owner.stdout.close()
        owner.wait()
    _, alive = psutil.wait_procs(family, timeout=15)
    assert not alive
    _wait_until(lambda: not any(trace.exists() for trace in traces))


def test_environment_is_built_once_and_after_a_killed_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "triton-0"
    leftover = tmp_path / "triton-0.partial-killed"
    (leftover / "lib").mkdir(parents=True)
    steps: list[list[str]] = []

    def run(command: list[str], _: Path) -> None:
        steps.append(command)
        time.sleep(0.1)

    monkeypatch.setattr(environment, "_run", run)
    monkeypatch.setattr(environment, "_check_install", lambda _: None)
    threads = [threading.Thread(target=environment._provide, args=(folder,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(steps) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["triton-0", "triton-0.lock"]


def _traces(server: TritonServer) -> list[Path]:
    """What a server leaves in the file system while it runs: its folder and its shared memory."""
    assert server._folder is not None
    (region,) = Path("/dev/shm").glob(f"{server._shm_prefix}*")
    return [server._folder, region]


def _wait_until(condition: Callable[[], bool], timeout_s: float = 15.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
