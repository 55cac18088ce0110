"""The harness itself: a real Triton server, serving tiny models through the stand-in backend."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
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
from tests.triton.tiny import adder, identity, model_bytes, put_model

Array = np.ndarray[Any, Any]

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
def serve(
    repository: Path, server: TritonServer, request: pytest.FixtureRequest
) -> Callable[..., str]:
    """Write a model folder under a name of the test's own and load it."""

    def serve_one(config: str, *, suffix: str = "", **parts: Any) -> str:
        name = re.sub(r"\W+", "_", request.node.name) + suffix
        parts.setdefault("versions", {1: adder()})
        put_model(repository, name, f'name: "{name}"\n{config}', **parts)
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


def infer_by_http(server: TritonServer, model: str, x: Array) -> Array:
    with tritonclient.http.InferenceServerClient(server.http_url) as http_client:
        tensor = tritonclient.http.InferInput("x", list(x.shape), "FP32")
        tensor.set_data_from_numpy(x)
        y: Array = http_client.infer(model, [tensor]).as_numpy("y")
    return y


def test_is_the_real_server(client: Any) -> None:
    assert client.get_server_metadata().version == TRITON_VERSION


@pytest.mark.parametrize(
    ("field", "value"), [("backend", "onnxruntime"), ("platform", "onnxruntime_onnx")]
)
def test_answers_as_onnx_runtime_does(
    field: str, value: str, serve: Callable[..., str], server: TritonServer, client: Any
) -> None:
    model = serve(f'{field}: "{value}"\n{CPU}max_batch_size: 8\n{TENSORS}')
    session = onnxruntime.InferenceSession(adder(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": SAMPLE})
    np.testing.assert_array_equal(infer(client, model, SAMPLE), expected)
    np.testing.assert_array_equal(infer_by_http(server, model, SAMPLE), expected)


def test_warm_up_from_a_file_shows_in_the_log(
    serve: Callable[..., str], server: TritonServer
) -> None:
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
    with pytest.raises(TritonServerError, match="warmup setting expects 8 bytes"):
        short = {"warmup/sample.bin": sample[:7]}
        serve(config, suffix="_short", versions={1: lookup()}, files=short)
    with pytest.raises(TritonServerError, match=r"failed to open .*warmup/sample\.bin"):
        serve(config, suffix="_without_file", versions={1: lookup()})


def test_dynamic_batching_shows_in_the_statistics(serve: Callable[..., str], client: Any) -> None:
    batching = (
        "dynamic_batching { preferred_batch_size: [ 8 ] max_queue_delay_microseconds: 500000 }"
    )
    model = serve(BATCHED + batching)
    answers: dict[int, Array] = {}

    def ask(index: int) -> None:
        answers[index] = infer(client, model, np.full((1, 3), index, dtype=np.float32))

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for index, answer in answers.items():
        np.testing.assert_array_equal(answer, np.full((1, 3), index + 1, dtype=np.float32))
    # The server counts a request only after it has answered it.
    _wait_until(lambda: _statistics(client, model).inference_count == len(answers) == 16)
    statistics = _statistics(client, model)
    assert statistics.execution_count < statistics.inference_count
    assert max(batch.batch_size for batch in statistics.batch_stats) > 1


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("latest: { num_versions: 1 }", {"2"}),
        ("all: { }", {"1", "2"}),
        ("specific: { versions: [ 1 ] }", {"1"}),
    ],
)
def test_version_policy_decides_what_is_served(
    policy: str, served: set[str], serve: Callable[..., str], client: Any
) -> None:
    versions = {1: adder(increment=1.0), 2: adder(increment=2.0)}
    model = serve(f"{BATCHED}version_policy: {{ {policy} }}", versions=versions)
    for version in versions:
        ready = client.is_model_ready(model, str(version))
        assert ready == (str(version) in served)
        if ready:
            answer = infer(client, model, SAMPLE, model_version=str(version))
            np.testing.assert_array_equal(answer, SAMPLE + version)


def test_one_value_per_batch_element_through_reshape(
    serve: Callable[..., str], client: Any
) -> None:
    reshaped = BATCHED.replace("dims: [ 3 ]", "dims: [ 1 ] reshape { shape: [ ] }")
    model = serve(reshaped, versions={1: adder(("batch",))})
    np.testing.assert_array_equal(infer(client, model, SAMPLE[:, :1]), SAMPLE[:, :1] + 1)


def test_scalar_of_an_unbatched_model(serve: Callable[..., str], client: Any) -> None:
    model = serve(UNBATCHED.replace("[ 3 ]", "[ 1 ]"), versions={1: adder(())})
    np.testing.assert_array_equal(infer(client, model, SAMPLE[0, :1]), SAMPLE[0, :1] + 1)


def test_reshape_of_a_batched_model(serve: Callable[..., str], client: Any) -> None:
    reshaped = BATCHED.replace("dims: [ 3 ]", "dims: [ 3 ] reshape { shape: [ 1, 3, 1 ] }")
    model = serve(reshaped, versions={1: adder(("batch", 1, 3, 1))})
    np.testing.assert_array_equal(infer(client, model, SAMPLE), SAMPLE + 1)


def test_unbatched_model_has_the_whole_shape_in_its_config(
    serve: Callable[..., str], client: Any
) -> None:
    model = serve(UNBATCHED.replace("[ 3 ]", "[ 2, 3 ]"), versions={1: adder((2, 3))})
    np.testing.assert_array_equal(infer(client, model, SAMPLE), SAMPLE + 1)
    with pytest.raises(InferenceServerException, match="unexpected shape for input 'x'"):
        infer(client, model, SAMPLE[:1])


@pytest.mark.parametrize(
    ("config_type", "element_type", "values"),
    [
        ("FP16", TensorProto.FLOAT16, np.array([[1.5, -2, 65504]], dtype=np.float16)),
        ("FP64", TensorProto.DOUBLE, np.array([[1.5, -2, 1e300]], dtype=np.float64)),
        ("BOOL", TensorProto.BOOL, np.array([[True, False, True]])),
        ("INT8", TensorProto.INT8, np.array([[1, -128, 127]], dtype=np.int8)),
        ("INT64", TensorProto.INT64, np.array([[1, -2, 2**62]], dtype=np.int64)),
        ("UINT8", TensorProto.UINT8, np.array([[1, 0, 255]], dtype=np.uint8)),
        ("STRING", TensorProto.STRING, np.array([[b"a", "b\u00e9".encode(), b""]], dtype=object)),
    ],
)
def test_data_types_pass_unharmed(
    config_type: str,
    element_type: int,
    values: Array,
    serve: Callable[..., str],
    client: Any,
) -> None:
    config = BATCHED.replace("FP32", config_type)
    model = serve(config, versions={1: identity(element_type)})
    triton_type = "BYTES" if config_type == "STRING" else config_type
    answer = infer(client, model, values, triton_type)
    assert answer.dtype == values.dtype
    np.testing.assert_array_equal(answer, values)


def test_bfloat16_passes_unharmed(serve: Callable[..., str], client: Any) -> None:
    tensor = (TensorProto.BFLOAT16, ("batch", 3))
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["wide"], ["y"], to=TensorProto.BFLOAT16),
    ]
    versions = {1: model_bytes(nodes, {"x": tensor}, {"y": tensor})}
    model = serve(BATCHED.replace("FP32", "BF16"), versions=versions)
    values = SAMPLE.astype(ml_dtypes.bfloat16)
    answer = infer(client, model, values, "BF16").astype(np.float32)
    np.testing.assert_array_equal(answer, SAMPLE)


def test_ensemble_over_the_stand_in(serve: Callable[..., str], client: Any) -> None:
    steps = [serve(BATCHED, suffix=f"_{i}", versions={1: adder(increment=i)}) for i in (1, 2)]
    first, second = steps
    model = serve(
        f"""platform: "ensemble" max_batch_size: 8 {TENSORS} ensemble_scheduling {{ step [
        {{ model_name: "{first}" model_version: -1
           input_map {{ key: "x" value: "x" }} output_map {{ key: "y" value: "between" }} }},
        {{ model_name: "{second}" model_version: -1
           input_map {{ key: "x" value: "between" }} output_map {{ key: "y" value: "y" }} }}
        ] }}""",
        versions={1: b""},
    )
    np.testing.assert_array_equal(infer(client, model, SAMPLE), SAMPLE + 3)


INPUT, OUTPUT = TENSORS.strip().splitlines()


@pytest.mark.parametrize(
    ("wrong", "right", "reason"),
    [
        pytest.param(
            INPUT, INPUT.replace("[ 3 ]", "[ 4 ]"), "tensor 'x'.*specifies", id="input-dim"
        ),
        pytest.param(
            OUTPUT, OUTPUT.replace("[ 3 ]", "[ 4 ]"), "tensor 'y'.*specifies", id="output-dim"
        ),
        pytest.param(
            INPUT, INPUT.replace("[ 3 ]", "[ -1 ]"), "tensor 'x'.*specifies", id="input-opened"
        ),
        pytest.param(
            OUTPUT, OUTPUT.replace("[ 3 ]", "[ -1 ]"), "tensor 'y'.*specifies", id="output-opened"
        ),
        pytest.param(
            INPUT, INPUT.replace("[ 3 ]", "[ 3, 1 ]"), "expects 2 dimensions", id="input-rank"
        ),
        pytest.param(INPUT, INPUT.replace("FP32", "FP16"), "provides TYPE_FP32", id="input-type"),
        pytest.param(OUTPUT, OUTPUT.replace("FP32", "INT32"), "TYPE_FP32", id="output-type"),
        pytest.param(INPUT, INPUT.replace('"x"', '"z"'), "allowed inputs are: x", id="input-name"),
        pytest.param(OUTPUT, OUTPUT.replace('"y"', '"z"'), "outputs are: y", id="output-name"),
        pytest.param(INPUT, INPUT + INPUT.replace('"x"', '"z"'), "expects 2 inputs", id="count"),
        pytest.param('name: "', 'name: "not_', "directory name must equal", id="model-name"),
        pytest.param("kind: KIND_CPU", "kind: KIND_GPU", "GPU", id="gpu"),
        pytest.param("max_batch_size", "maximum_batch", "no field named", id="field-name"),
        pytest.param('"onnxruntime"', '"tensorrt"', "unable to find backend library", id="backend"),
    ],
)
def test_wrong_configurations_are_refused(
    wrong: str, right: str, reason: str, repository: Path, server: TritonServer, request: Any
) -> None:
    name = f"refused_{request.node.callspec.id}"
    config = f'name: "{name}"\n{BATCHED}'
    put_model(repository, name, config.replace(wrong, right, 1), {1: adder()})
    with pytest.raises(TritonServerError, match=reason):
        server.load(name)


def test_batching_needs_an_open_first_dimension(serve: Callable[..., str]) -> None:
    with pytest.raises(TritonServerError, match="first dimension must be -1"):
        serve(BATCHED, versions={1: adder((8, 3))})


def test_outputs_are_compared_exactly_but_inputs_may_be_narrowed(serve: Callable[..., str]) -> None:
    open_model = {1: adder(("batch", "width"))}
    serve(BATCHED.replace(OUTPUT, OUTPUT.replace("[ 3 ]", "[ -1 ]")), versions=open_model)
    with pytest.raises(TritonServerError, match="tensor 'y'"):
        serve(BATCHED, suffix="_output", versions=open_model)


def test_a_failing_run_is_reported_to_its_request_only(
    serve: Callable[..., str], client: Any
) -> None:
    model = serve(LOOKUP, versions={1: lookup()})
    with pytest.raises(InferenceServerException, match="out of data bounds"):
        infer(client, model, np.array([[7]], dtype=np.int64), "INT64")
    answer = infer(client, model, np.array([[1]], dtype=np.int64), "INT64")
    np.testing.assert_array_equal(answer, [[20]])


def test_parameters_and_optimization_reach_the_session(serve: Callable[..., str]) -> None:
    settings = """
    parameters { key: "intra_op_thread_count" value { string_value: "%s" } }
    optimization { graph { level: 1 } }
    """
    serve(BATCHED + settings % 1)
    with pytest.raises(TritonServerError, match="must be a whole number"):
        serve(BATCHED + settings % "one", suffix="_wrong")


def test_every_instance_has_a_process_of_its_own(
    serve: Callable[..., str], server: TritonServer
) -> None:
    before = len(psutil.Process(server.pid).children())
    serve(BATCHED.replace("count: 1", "count: 3"))
    assert len(psutil.Process(server.pid).children()) == before + 3


def test_response_cache_answers_again(
    tmp_path: Path, triton_environment: TritonEnvironment
) -> None:
    put_model(tmp_path, "cached", BATCHED + "response_cache { enable: true }", {1: adder()})
    arguments = ("--cache-config=local,size=1048576",)
    with TritonServer(tmp_path, extra_args=arguments, environment=triton_environment) as server:
        with tritonclient.grpc.InferenceServerClient(server.grpc_url) as client:
            for _ in range(2):
                np.testing.assert_array_equal(infer(client, "cached", SAMPLE), SAMPLE + 1)
            statistics = _statistics(client, "cached")
        with urllib.request.urlopen(server.metrics_url, timeout=10) as page:
            metrics = page.read().decode()
    assert statistics.inference_stats.cache_hit.count == 1
    assert 'nv_cache_num_hits_per_model{model="cached",version="1"} 1' in metrics


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


def _statistics(client: Any, model: str) -> Any:
    (statistics,) = client.get_inference_statistics(model).model_stats
    return statistics


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
