"""Packages on a real Triton server: it loads them, warms them up and answers as ONNX Runtime."""

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from converter.ir.model import Model
from converter.protocols.server import Launch, Packaged
from converter.runtime.ort import OrtSession
from emitters.serving.triton.server import TritonServer as TritonPlugin
from tests.acceptance.cli import command, small_cnn
from tests.serving.models import (
    Array,
    MemorySamples,
    adder,
    classifier,
    identity,
    package,
    samples_for,
    text_model,
)  # fmt: skip
from tests.triton.environment import provide_triton_environment
from tests.triton.server import TritonServer, TritonServerError

Serve = Callable[..., Packaged]
LABELS = ("ant", "bee", "cat", "dog")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is packaged into, as ``repository``: the folder is served as it was written."""
    folder = tmp_path_factory.mktemp("live")
    (folder / "repository").mkdir()
    return folder


@pytest.fixture(scope="module")
def server(workspace: Path) -> Iterator[TritonServer]:
    """A server that completes configurations by itself, as Triton does unless told not to."""
    cache = ("--cache-config=local,size=1048576",)
    with TritonServer(workspace / "repository", "explicit", log_verbose=1, auto_complete=True,
                      extra_args=cache) as running:  # fmt: skip
        yield running


@pytest.fixture
def serve(workspace: Path, server: TritonServer) -> Iterator[Serve]:
    """Packages a model and loads it; unloads it in the end."""
    loaded = []

    def package_and_load(model: Model, *args: Any, name: str, **fields: Any) -> Packaged:
        packaged = package(model, workspace, *args, name=name, **fields)
        server.load(packaged.path.name)
        loaded.append(packaged.path.name)
        return packaged

    yield package_and_load
    for name in loaded:
        server.unload(name)


MASK = text_model("""g (bool[batch, 3] c, float[batch, 3] a, float[batch, 3] b) =>
    (float[batch, 3] y) { y = Where(c, a, b) }""")
"""Three inputs of two types."""

TOTALS = text_model("""g (float[rows, 3] x) => (float[rows] each, float all)
    <int64[1] axis = {1}> {
    each = ReduceSum<keepdims = 0>(x, axis) all = ReduceSum<keepdims = 0>(x) }""")
"""One number for each element, and one for all, where the batch is not Triton's."""


def every_type() -> Model:
    """An input and an output of every type; bfloat16 goes apart, as NumPy lacks it."""
    integers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    kinds = ["bool", *integers, "float16", "double", "string"]
    inputs, outputs = (
        ", ".join(f"{kind}[batch, 3] {end}_{kind}" for kind in kinds) for end in ("in", "out")
    )
    nodes = " ".join(f"out_{kind} = Identity(in_{kind})" for kind in kinds)
    return text_model(f"g ({inputs}) => ({outputs}) {{ {nodes} }}")


def odd_names() -> Model:
    model = adder()
    (x,), (y,) = model.graph.graph.inputs, model.graph.graph.outputs
    x.name, y.name = "serving_default/x:0", "a b\N{MICRO SIGN}:0"
    return model


CASES = {
    "float": (adder(), 8), "image": (adder(("batch", 3, 4, 4)), 8),
    "variable": (adder(("batch", "height", "width")), 8), "unbatched": (adder((2, 3)), 0),
    "scalar": (adder(()), 0), "batch-of-scalars": (adder(("batch",)), 8), "totals": (TOTALS, 0),
    "inputs": (MASK, 8), "odd-names": (odd_names(), 8),
    "no-inputs": (text_model("g () => (float y) { y = Constant<value_float = 2.5>() }"), 0),
    "types": (every_type(), 8),
}  # fmt: skip


def expected(packaged: Packaged, feeds: dict[str, Array]) -> list[Array]:
    """What ONNX Runtime answers from the very file that the server runs."""
    answers = list(OrtSession(packaged.path / "1" / "model.onnx").run(feeds).values())
    return [answer.reshape(-1, 1) if answer.ndim < 1 else answer for answer in answers]


def ask(server: TritonServer, packaged: Packaged, protocol: str, *options: str) -> str:
    """Runs the package's client.py; gives what it prints."""
    url = server.http_url if protocol == "http" else server.grpc_url
    command = [sys.executable, str(packaged.path / "client.py"), "--protocol", protocol]
    line = [*command, "--url", url, *options]
    done = subprocess.run(line, cwd="/", text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("case", CASES)
def test_answers_as_onnx_runtime_does(case: str, serve: Serve, server: TritonServer,
                                      tmp_path: Path) -> None:  # fmt: skip
    model, max_batch = CASES[case]
    samples = samples_for(model)
    for values in next(iter(samples)).feeds.values() if case == "types" else ():
        if values.dtype.kind in "iuf":
            limits = (np.iinfo if values.dtype.kind in "iu" else np.finfo)(values.dtype)
            values[0, :2] = limits.min, limits.max
    if case == "image":
        model.describe("x", layout="NCHW")
    packaged = serve(model, samples, name=case)
    assert packaged.details["max_batch"] == max_batch
    wanted = expected(packaged, next(iter(samples)).feeds)
    for protocol in ("http", "grpc"):
        ask(server, packaged, protocol, "--save", str(tmp_path / protocol))
        for number, answer in enumerate(wanted):
            found = np.load(tmp_path / protocol / f"{number}.npy")
            assert found.size == answer.size
            if found.dtype.kind == "U":
                assert found.ravel().tolist() == answer.ravel().tolist()
            else:
                assert found.dtype == answer.dtype
                np.testing.assert_array_equal(found.ravel(), answer.ravel())


def test_bfloat16(serve: Serve, server: TritonServer) -> None:
    values = np.array([[1.5, -2, 3e38]], ml_dtypes.bfloat16)
    packaged = serve(identity("bfloat16"), MemorySamples([{"x": values}]), name="bfloat16")
    printed = {ask(server, packaged, protocol) for protocol in ("http", "grpc")}
    assert printed == {"y: BF16 [1, 3]\n  1.5 -2.0 3.00405527047391e+38\n"}


def test_warm_up_runs_every_sample_at_every_batch(serve: Serve, server: TritonServer) -> None:
    packaged = serve(adder(), name="warm", warmup=2, preferred_batch=[4], max_batch=6)
    assert packaged.details["warmups"] == [
        f"batch{size}_sample{number}" for size in (1, 4, 6) for number in (1, 2)
    ]
    runs = [f"'warm' runs {size} requests, batch size {size}" for size in (1, 4, 6)]
    deadline = time.monotonic() + 10  # the backend's process hands its lines over when it can
    while any(server.log().count(line) < 2 for line in runs) and time.monotonic() < deadline:
        time.sleep(0.05)
    log = server.log()
    for name in packaged.details["warmups"]:
        assert f"'warm' instance warm_0_0 is running warmup sample '{name}'" in log
    assert [log.count(line) for line in runs] == [2, 2, 2]


def test_the_configuration_is_understood_whole(serve: Serve, server: TritonServer) -> None:
    samples = samples_for(classifier())
    samples.label_names = LABELS
    fields: dict[str, Any] = {"preferred_batch": [2, 4], "queue_delay": 700, "instances": 2}
    fields |= {"optimization": "basic", "parameters": {"enable_mem_arena": "false"}, "threads": 1}
    serve(classifier(), samples, name="whole", max_batch=5, response_cache=True, **fields)
    with tritonclient.grpc.InferenceServerClient(server.grpc_url) as client:
        config = client.get_model_config("whole").config
    assert config.max_batch_size == 5 and config.response_cache.enable
    assert list(config.dynamic_batching.preferred_batch_size) == [2, 4]
    assert config.dynamic_batching.max_queue_delay_microseconds == 700
    assert config.instance_group[0].count == 2
    assert config.optimization.graph.level == -1
    assert config.parameters["intra_op_thread_count"].string_value == "1"
    assert config.output[0].label_filename == "labels.txt"


def test_groups_of_instances(serve: Serve, server: TritonServer) -> None:
    """The server makes every instance of every group."""
    limited = 'kind: KIND_CPU rate_limiter { resources { name: "R" count: 1 } priority: 2 }'
    near = 'kind: KIND_CPU count: 2 host_policy: "near"'
    packaged = serve(adder(), name="groups", instance_groups=[near, limited])
    made = [
        f"TRITONBACKEND_ModelInstanceInitialize: groups_{name} " for name in ("0_0", "0_1", "1_0")
    ]
    assert [server.log().count(line) for line in made] == [1, 1, 1]
    with tritonclient.grpc.InferenceServerClient(server.grpc_url) as client:
        first, second = client.get_model_config("groups").config.instance_group
    assert (first.count, first.host_policy, second.rate_limiter.priority) == (2, "near", 2)
    assert second.rate_limiter.resources[0].name == "R"
    ask(server, packaged, "grpc")


def test_priorities_and_what_waits_too_long(serve: Serve, server: TritonServer) -> None:
    """Level 2 lets nothing wait; level 1, and level 3 by default, do."""
    serve(adder(), name="queues", priority_levels="3", queue_policies=[
        "2=default_timeout_microseconds: 1", "default_timeout_microseconds: 60000000",
    ], queue_delay=200_000, preferred_batch=[8])  # fmt: skip
    tensor = tritonclient.grpc.InferInput("x", [1, 3], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 3), np.float32))
    with tritonclient.grpc.InferenceServerClient(server.grpc_url) as client:
        for level in (0, 1, 3):
            reply = client.infer("queues", [tensor], priority=level)
            assert reply.as_numpy("y").tolist() == [[2, 2, 2]]
        with pytest.raises(InferenceServerException, match="timeout expired"):
            client.infer("queues", [tensor], priority=2)


def test_labels_in_the_client_and_in_the_server(serve: Serve, server: TritonServer,
                                                tmp_path: Path) -> None:  # fmt: skip
    samples = samples_for(classifier())
    samples.label_names = LABELS
    packaged = serve(classifier(), samples, name="labels")
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    given = ("--input", f"x={tmp_path / 'x.npy'}", "--top", "2")
    assert ask(server, packaged, "grpc", *given) == (
        "scores: FP32 [1, 4]\n  score, what a softmax makes of it, class\n"
        "  21  95.0%  3  dog\n  18  4.7%  2  cat\n"
    )
    twice = ask(server, packaged, "http", "--batch", "2", "--top", "1")
    assert twice.startswith("scores: FP32 [2, 4]\n") and twice.count("  3  dog\n") == 2
    with tritonclient.grpc.InferenceServerClient(server.grpc_url) as client:
        tensor = tritonclient.grpc.InferInput("x", [1, 3], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 3), np.float32))
        output = tritonclient.grpc.InferRequestedOutput("scores", class_count=1)
        reply = client.infer("labels", [tensor], outputs=[output]).as_numpy("scores")
    assert reply.tolist() == [[b"21.000000:3:dog"]]


@pytest.mark.parametrize(("options", "message"), [
    (("--input", "z=x.npy"), "--input z=x.npy: it is NAME=FILE.npy, and the inputs are x"),
    (("--input", "x=missing.npy"), "missing.npy: [Errno 2]"),
    (("--batch", "9"), "the largest batch of refuses is 8"),
    (("--model-version", "7"), "version 7"),
])  # fmt: skip
def test_the_client_says_what_is_wrong(options: tuple[str, ...], message: str, serve: Serve,
                                       server: TritonServer) -> None:  # fmt: skip
    shutil.rmtree(server.repository / "refuses", ignore_errors=True)
    packaged = serve(adder(), name="refuses")
    with pytest.raises(AssertionError) as caught:
        ask(server, packaged, "grpc", *options)
    assert message in str(caught.value) and "Traceback" not in str(caught.value)


def test_the_curl_line_of_the_readme(serve: Serve, server: TritonServer) -> None:
    readme = (serve(MASK, name="curl").path / "README.md").read_text()
    (line,) = re.findall(r"^curl \S+/infer -d '(.*)'$", readme, re.M)
    url = f"http://{server.http_url}/v2/models/curl/infer"
    with urllib.request.urlopen(url, data=line.encode(), timeout=10) as page:
        (output,) = json.load(page)["outputs"]
    assert (output["name"], output["shape"], output["data"]) == ("y", [1, 3], [0.0, 0.0, 0.0])


@pytest.mark.parametrize(("policy", "served"), [
    ("latest:1", ["3"]),
    ("latest:2", ["2", "3"]),
    ("all", ["1", "2", "3"]),
    ("specific:1,3", ["1", "3"]),
])  # fmt: skip
def test_version_policies(policy: str, served: list[str], workspace: Path, server: TritonServer,
                          tmp_path: Path) -> None:  # fmt: skip
    name = re.sub(r"\W", "-", policy)
    for number in range(3):
        packaged = package(adder(), tmp_path / str(number), name=name, version_policy=policy)
        TritonPlugin().publish(packaged, workspace / "repository")
    server.load(name)
    with tritonclient.http.InferenceServerClient(server.http_url) as client:
        assert sorted(client.get_model_metadata(name)["versions"]) == served
    server.unload(name)


@pytest.mark.slow
def test_precisions_as_versions_of_one_name(tmp_path: Path) -> None:
    small_cnn(tmp_path / "net.onnx")
    command("convert", "net.onnx", "--precision", "fp32,fp16", "--serve", "triton", "--one-name",
            "--version-policy", "all", "--repository", "models", "--no-bench", "--out", "out",
            "--samples", "random:8", "--few-samples", cwd=tmp_path)  # fmt: skip
    models, out, kinds = tmp_path / "models" / "net", tmp_path / "out", ("fp32", "fp16")
    packages = [out / "serving" / "triton" / kind / "net" for kind in kinds]
    for version, kind, made in zip("12", kinds, packages, strict=True):
        data = (out / "onnx" / kind / "model.onnx").read_bytes()
        assert (made / "1" / "model.onnx").read_bytes() == data
        assert (models / version / "model.onnx").read_bytes() == data
    with TritonServer(models.parent) as server:
        assert server.log().count("'net' version ") == 2
        for made, version in zip(packages, "12", strict=True):
            line = [sys.executable, str(made / "client.py"), "--url", server.http_url,
                    "--protocol", "http", "--model-version", version]  # fmt: skip
            assert subprocess.run(line, timeout=60, check=False).returncode == 0


@pytest.mark.slow
def test_publishing_into_a_polled_repository(tmp_path: Path) -> None:
    """The running version stays as it is, the new one appears, and no poll sees half of it."""
    repository = tmp_path / "around" / "models"
    repository.mkdir(parents=True)
    with TritonServer(repository, "poll", 1, ("--repository-poll-secs=1",)) as server:
        for number in (1, 2):
            packaged = package(adder(), tmp_path / str(number), name="polled", version_policy="all")
            TritonPlugin().publish(packaged, repository)
            wait_for_version(server, str(number))
        log = server.log()
        answers = [ask(server, packaged, "http", "--model-version", str(n)) for n in (1, 2)]
    assert answers[0] == answers[1]
    assert log.count("'polled' version 1 runs") == 1 and log.count("'polled' version 2 runs") == 1
    assert "Poll failed" not in log and "ignore version directory" not in log


def wait_for_version(server: TritonServer, version: str) -> None:
    deadline = time.monotonic() + 20
    with tritonclient.http.InferenceServerClient(server.http_url) as client:
        while not client.is_model_ready("polled", version):
            assert time.monotonic() < deadline, server.log()
            time.sleep(0.05)


def test_without_samples_nothing_is_warmed_up(serve: Serve, server: TritonServer) -> None:
    packaged = serve(adder(), MemorySamples(), name="cold")
    assert ask(server, packaged, "grpc") == "y: FP32 [1, 3]\n  0.0 0.0 0.0\n"
    assert "'cold' instance cold_0_0 is running warmup" not in server.log()


@pytest.mark.slow
def test_the_rate_limiter_holds_instances_back(tmp_path: Path) -> None:
    """An instance that wants more of a resource than there is keeps its model from loading."""
    limiter = 'rate_limiter { resources { name: "R" count: 1 } priority: 2 }'
    packaged = package(adder(), tmp_path, instance_groups=[f"kind: KIND_CPU count: 2 {limiter}"])
    flags = ("--rate-limit=execution_count", "--rate-limit-resource=R:1")
    with TritonServer(packaged.path.parent, extra_args=flags) as server:
        for _ in range(3):
            assert ask(server, packaged, "grpc").startswith("y: FP32 [1, 3]\n")
    short = (flags[0], "--rate-limit-resource=R:0")
    with pytest.raises(TritonServerError, match="resource"), TritonServer(
        packaged.path.parent, extra_args=short
    ):  # fmt: skip
        pass
    root = provide_triton_environment().root
    (tmp_path / "scratch").mkdir()
    launch = Launch(packaged.path, root, tmp_path / "scratch", "127.0.0.1", {})
    assert flags[0] in TritonPlugin().command(launch).line
