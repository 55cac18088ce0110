"""Packages on their real servers, each in an environment of its own: answers under the gates,
requests that come together in one batch, and bad ones that spoil nothing."""

import ast
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tritonclient.grpc import InferenceServerClient, InferInput
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from converter import api, plugins
from converter.commands.serve import Served
from converter.serving import environments
from converter.serving.observed import Observed
from converter.serving.ports import free
from emitters.serving.torchserve.server import TorchServer
from tests.acceptance.cli import command
from tests.serving.probes import HOST, Early, assert_probes_answer, watched
from tests.serving.test_python_package import SERVERS, TWO, package

pytestmark = pytest.mark.slow

TFLITE = "litserve"
"""The server that runs the TFLite file; the others have the ONNX file."""

DELAY = 200_000
"""Microseconds that a request waits for others: on a busy machine, they take long to come."""

GOOD: dict[str, Any] = {"x": [[1.0, 2.0, 3.0]], "ids": [[4, 5]]}

LARGE = 70 << 20
"""Bytes: more than TorchServe takes. The others take any number, and find out what it is."""

BAD: dict[str, tuple[Any, str]] = {
    "name": ({"z": GOOD["x"], "ids": GOOD["ids"]}, "missing: x"),
    "type": ({**GOOD, "x": [["a", "b", "c"]]}, "x "),
    "shape": ({**GOOD, "x": [1.0, 2.0, 3.0]}, r"x has the shape [3]"),
    "batch": ({"x": GOOD["x"] * 99, "ids": GOOD["ids"] * 99}, "the largest batch is 8"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every server's package of one model."""
    folder = tmp_path_factory.mktemp("live")
    TWO.save(folder / "two.onnx")
    rng = np.random.default_rng(1)
    x, ids = rng.normal(size=(4, 3)).astype(np.float32), rng.integers(0, 9, (4, 2))
    np.savez(folder / "data.npz", x=x, ids=ids)
    others = ",".join(name for name in SERVERS if name != TFLITE)
    for servers, target in ((others, "onnx"), (TFLITE, "tflite")):
        command("convert", "two.onnx", "--samples", "data.npz", "--to", target, "--serve", servers,
                "--queue-delay", DELAY, "--no-bench", "--out", target, cwd=folder,
                code=0)  # fmt: skip
    return folder


@pytest.fixture(scope="module", params=SERVERS)
def started(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[Served, Early]]:
    """A server, and what was seen while it started."""
    target = "tflite" if request.param == TFLITE else "onnx"
    package = folder / target / "serving" / request.param / "two"
    first = free(HOST, 8)
    with (
        watched(package, request.param, first, lambda address: ask_at(address, GOOD)) as early,
        api.serve(str(package), port=first) as running,
    ):
        yield running, early.result(60)


@pytest.fixture(scope="module")
def served(started: tuple[Served, Early]) -> Served:
    return started[0]


def ask(served: Served, request: Any, **headers: str) -> tuple[int, Any]:
    """The status and the answer of a request in the server's own form."""
    return ask_at(served.addresses.get("json") or served.addresses["v2"], request, **headers)


def ask_at(address: str, request: Any, **headers: str) -> tuple[int, Any]:
    """The same at a model's address."""
    body = request
    if "/v2/models/" in address:
        address = f"{address}/infer"
        body = request if isinstance(request, bytes) else {"inputs": v2(request)}
    return post(address, body if isinstance(body, bytes) else json.dumps(body).encode(), **headers)


def post(address: str, data: bytes, **headers: str) -> tuple[int, Any]:
    """The status and the answer."""
    place = urlsplit(address)
    with closing(HTTPConnection(place.netloc, timeout=60)) as connection:
        with suppress(ConnectionError):  # where a server answers before it has read everything
            sent = {"Content-Type": "application/json", **headers}
            connection.request("POST", place.path, data, sent)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def v2(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Inputs as the inference protocol has them."""
    types = {"ids": "INT64"}
    arrays = {name: np.array(values) for name, values in request.items()}
    return [
        {"name": name, "datatype": types.get(name, "FP32"), "shape": list(array.shape),
         "data": array.ravel().tolist()}
        for name, array in arrays.items()
    ]  # fmt: skip


def outputs(answer: str) -> dict[str, Any]:
    """The outputs of an answer by name: nested lists, or the protocol's flat ones."""
    found = json.loads(answer)
    listed = found.get("outputs")
    return {i["name"]: i["data"] for i in listed} if isinstance(listed, list) else found


def test_answers_are_under_the_gates(served: Served, folder: Path) -> None:
    """Over HTTP and gRPC, as the check has it; by the package's own self-test and client too."""
    source, samples = str(folder / "two.onnx"), str(folder / "data.npz")
    for protocol, known in (("json", "json"), ("v2", "v2-json"), ("grpc", None)):
        if protocol in served.addresses:
            address = served.addresses[protocol]
            found = api.check_server(source, address, protocol=known, samples=samples)
            assert found.verdict == "passed", protocol
    web = served.addresses.get("json") or served.addresses["v2"]
    asked = dict.fromkeys(("selftest.py", "client_requests.py"), "/".join(web.split("/")[:3]))
    if "grpc" in served.addresses:
        asked["client_grpc.py"] = served.addresses["grpc"].split("/")[2]
    for script, url in asked.items():
        line = [sys.executable, str(served.folder / script), "--url", url]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, (script, done.stderr, done.stdout)


def test_probes_are_answered_and_none_too_early(started: tuple[Served, Early]) -> None:
    """What a cluster asks; at the first answer to readiness, the model was loaded."""
    served, early = started
    assert_probes_answer(served)
    assert early.loaded
    status, answer = early.answer
    assert status == 200 and np.ravel(outputs(answer)["y"]).tolist() == [2.0, 4.0, 6.0]


def test_the_environment_is_the_lock(served: Served) -> None:
    """Nothing is installed at a version that the package doesn't name."""
    home = environments.place(plugins.load("servers", served.server).environment(served.folder))
    program = (
        "import importlib.metadata as m; print([(d.name, d.version) for d in m.distributions()])"
    )
    line = [str(home / "bin" / "python"), "-I", "-c", program]  # without the folder that we are in
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    lines = (served.folder / "requirements.lock").read_text().splitlines()[1:]
    pins = dict(line.split("==") for line in lines)
    for name, version in ast.literal_eval(said):
        name = re.sub(r"[-_.]+", "-", name).lower()
        if name in pins or name not in ("pip", "setuptools"):  # what every environment has
            assert pins.get(name) == version.partition("+")[0], name


def test_requests_that_come_together_are_one_batch(served: Served) -> None:
    """The model's own output tells how large the batch was. A bad request among them is told what
    is wrong with it, and the others get their answers."""
    bad, message = BAD["shape"]
    numbers = range(24)
    requests = [
        bad if n % 8 == 7 else {"x": [[n, n + 1.0, n + 2.0]], "ids": [[n, n]]} for n in numbers
    ]
    with ThreadPoolExecutor(len(requests)) as pool:
        answers = list(pool.map(lambda item: ask(served, item), requests))
    rows = []
    for number, (status, answer) in zip(numbers, answers, strict=True):
        if number % 8 == 7:
            assert status in (400, 422) and message in answer
            continue
        assert status == 200, answer
        found = outputs(answer)
        assert np.ravel(found["y"]).tolist() == [2.0 * (number + n) for n in range(3)]
        assert np.ravel(found["same"]).tolist() == [number, number]
        rows += found["rows"]
    assert 2 < max(rows) <= 8, rows


def test_bad_requests(served: Served) -> None:
    """A clear error each, in the client's own terms, and it goes on serving."""
    wrong: dict[str, tuple[Any, str]] = {**BAD, "json": (b"{nope", "JSON")}
    if "v2" in served.addresses:
        x, ids = v2(GOOD)
        wrong["type"] = json.dumps({"inputs": [{**x, "datatype": "FP64"}, ids]}).encode(), "float64"
    for name, (request, message) in wrong.items():
        status, answer = ask(served, request)
        assert status in (400, 422) and message in answer, (name, status, answer)
        assert_serves(served)


def hostile(served: Served) -> dict[str, bytes]:
    """Bodies that say what no model takes, in ways that parsers let through."""
    bodies = {"null": b"null", "true": b"true", "NaN": b'"NaN"', "deep": b"[" * 100_000}
    for name, value in (("a null", None), ("a bool", True), ("a text", "NaN"), ("large", 10**40)):
        values = [value, 1.0, 2.0]
        plain: Any = {**GOOD, "x": [values]}
        if "v2" in served.addresses:
            x, ids = v2(GOOD)
            plain = {"inputs": [{**x, "data": values}, ids]}
        bodies[name] = json.dumps(plain).encode()
    if "v2" in served.addresses:
        for shape in ([-1, 3], [1, -3], [1 << 31, 3], [1 << 40, 1 << 40], [1, 4], [-1, -3]):
            body = {"inputs": [{**x, "shape": shape}, ids]}
            bodies[f"shape {shape}"] = json.dumps(body).encode()
    return bodies


def test_hostile_requests(served: Served) -> None:
    """Each is the client's mistake, told in few words; and it goes on serving."""
    for name, body in hostile(served).items():
        status, answer = ask(served, body)
        assert 400 <= status < 500 and 10 < len(answer) < 1000, (name, status, answer)
        assert_serves(served)


def test_a_bomb_of_gzip_s(served: Served) -> None:
    """200 kB that are 200 MB: refused, and memory is where it was."""
    watched = Observed(served.running.pid)
    before = watched.resident()
    status, answer = ask(
        served, gzip.compress(b" " * 200_000_000, 1), **{"Content-Encoding": "gzip"}
    )
    assert 400 <= status < 500 and 10 < len(answer) < 1000, (status, answer)
    assert status == 413 or served.server != "mlserver"  # which is the one that unpacks
    assert watched.resident() < before + 150e6
    assert_serves(served)


def test_what_gzip_packs_is_taken_where_a_server_unpacks(served: Served) -> None:
    good: Any = {"inputs": v2(GOOD)} if "v2" in served.addresses else GOOD
    body = json.dumps(good).encode()
    packed = gzip.compress(body[:9]) + gzip.compress(body[9:])
    unpacks = served.server == "mlserver"
    for data, known in ((packed, 200 if unpacks else 400), (packed[:-9], 400)):
        assert ask(served, data, **{"Content-Encoding": "gzip"})[0] in (known, known + 22)
    assert not unpacks or ask(served, body, **{"Content-Encoding": "gzip"})[0] == 400


def test_no_client_unloads_the_model(served: Served) -> None:
    if "v2" not in served.addresses:
        return
    place = served.addresses["v2"].split("/v2/")[0]
    for action in ("unload", "load"):
        status, answer = post(f"{place}/v2/repository/models/two/{action}", b"")
        assert status in (400, 403) and "off here" in answer, answer
    with InferenceServerClient(served.addresses["grpc"].split("/")[2]) as client:
        for refused in (client.unload_model, client.load_model):
            with pytest.raises(InferenceServerException, match="off here"):
                refused("two")
        assert client.is_model_ready("two")
    assert_serves(served)


def test_an_oversize_request(served: Served) -> None:
    """It is refused in few words, and neither the server nor who asks next suffers."""
    text = "a" * LARGE
    request: Any = {**GOOD, "x": [[text]]}
    if "v2" in served.addresses:
        x, ids = v2(GOOD)
        request = json.dumps({"inputs": [{**x, "data": [text]}, ids]}).encode()
    status, answer = ask(served, request)
    assert status in (400, 413, 422) and len(answer) < 1000, (status, answer[:1000])
    assert status == 413 or "x " in answer or "maximum" in answer, answer  # 413 says it by itself
    assert_serves(served)


def assert_serves(served: Served) -> None:
    """A good request is answered."""
    status, answer = ask(served, GOOD)
    assert status == 200 and np.ravel(outputs(answer)["y"]).tolist() == [2.0, 4.0, 6.0]


def test_grpc(served: Served) -> None:
    if "grpc" in served.addresses:
        _v2_grpc(served.addresses["grpc"].split("/")[2])
    elif served.server == "torchserve":
        _torchserve_grpc(served)


def test_ray_s_own_schema(tmp_path: Path) -> None:
    """With autoscaling, which no test starts."""
    made = package("rayserve", TWO, tmp_path, max_instances=3, replica_cpus=0.5).path
    home = environments.set_up(plugins.load("servers", "rayserve").environment(made), print)
    program = """if True:
        import sys, yaml
        from ray.serve.config import AutoscalingConfig
        from ray.serve.schema import ServeDeploySchema
        config = yaml.safe_load(open(sys.argv[1]))
        deployment = ServeDeploySchema.model_validate(config).applications[0].deployments[0]
        scaling = AutoscalingConfig(**deployment.autoscaling_config)
        print(scaling.min_replicas, scaling.max_replicas, deployment.ray_actor_options.num_cpus)
        try:
            ServeDeploySchema.model_validate({"applications": [{"name": "x"}]})
        except ValueError:
            print("refuses")"""
    line = [str(home / "bin" / "python"), "-c", program, str(made / "serve.yaml")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["1", "3", "0.5", "refuses"], done.stderr


def _v2_grpc(place: str) -> None:
    """The inference protocol: good requests, and a bad one after each."""
    good = {"x": np.ones((2, 3), np.float32), "ids": np.ones((2, 2), np.int64)}
    bad: dict[str, dict[str, Any]] = {
        "missing: x": {"z": good["x"], "ids": good["ids"]},
        "x holds float64 values": {**good, "x": np.ones((2, 3))},
        r"ids has the shape \[2, 3\]": {**good, "ids": np.ones((2, 3), np.int64)},
        "the largest batch is 8": {
            "x": np.ones((9, 3), np.float32),
            "ids": np.ones((9, 2), np.int64),
        },
    }
    with InferenceServerClient(place) as client:
        for message, arrays in bad.items():
            with pytest.raises(InferenceServerException, match=message):
                client.infer("two", _inputs(arrays))
            answer = client.infer("two", _inputs(good))
            np.testing.assert_array_equal(answer.as_numpy("y"), 2)
        bomb = {**good, "x": np.zeros((2, 12_500_000), np.float32)}  # 100 kB, and 100 MB unpacked
        with pytest.raises(InferenceServerException, match=r"larger than max|RESOURCE_EXHAUSTED"):
            client.infer("two", _inputs(bomb), compression_algorithm="gzip")
        client.infer("two", _inputs(good))
    with grpc.insecure_channel(place) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError):
            infer(b"no message", timeout=60)


def _inputs(arrays: dict[str, Any]) -> list[InferInput]:
    made = []
    for name, array in arrays.items():
        made.append(InferInput(name, array.shape, np_to_triton_dtype(array.dtype)))
        made[-1].set_data_from_numpy(array)
    return made


def _torchserve_grpc(served: Served) -> None:
    """Its own service, ``inference.proto``: a model's name, and bytes by name."""
    http = int(served.addresses["json"].split("/")[2].rsplit(":")[1])
    place = f"127.0.0.1:{http + list(TorchServer.ports).index('grpc')}"
    request, answer = _torchserve_messages()
    with grpc.insecure_channel(place) as channel:
        method = "/org.pytorch.serve.grpc.inference.InferenceAPIsService/Predictions"
        call: Callable[..., Any] = channel.unary_unary(
            method, request.SerializeToString, answer.FromString
        )
        sent = request(model_name="two", input={"data": json.dumps(GOOD).encode()})
        found = json.loads(call(sent, timeout=60).prediction)
    assert found["y"] == [[2.0, 4.0, 6.0]]


def _torchserve_messages() -> tuple[Any, Any]:
    """Its messages, of which the wheel has no .proto file."""
    file = descriptor_pb2.FileDescriptorProto(name="inference.proto", syntax="proto3")
    request = file.message_type.add(name="PredictionsRequest")
    request.field.add(name="model_name", number=1, type=9, label=1)
    entry = request.nested_type.add(name="InputEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=12, label=1)
    request.field.add(
        name="input", number=3, type=11, label=3, type_name=".PredictionsRequest.InputEntry"
    )
    file.message_type.add(name="PredictionResponse").field.add(
        name="prediction", number=1, type=12, label=1
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("PredictionsRequest", "PredictionResponse")
    found = [message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names]
    return found[0], found[1]
