"""A real Triton loads the demo's folder as it is, and answers as the check did."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from converter.ort import OrtSession
from converter.recipe import make_request
from converter.samples import load_samples
from emitters.serving.triton_config import build_config, read_config, write_config
from tests.acceptance.test_demo import NAME
from tests.triton.fixtures import triton_environment  # noqa: F401 - a fixture
from tests.triton.server import TritonServer
from zoo import catalogue

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(
    demo: Path,
    triton_environment: Any,  # noqa: F811
) -> Iterator[TritonServer]:
    repository = demo / "serving" / "triton"
    with TritonServer(repository, log_verbose=1, environment=triton_environment) as running:
        yield running


@pytest.fixture(scope="module")
def images(demo: Path) -> np.ndarray:
    session = OrtSession(demo / "onnx" / "fp32" / "model.onnx")
    fields = {"source": "zoo:efficientnet-lite0", **catalogue.resolve("zoo:efficientnet-lite0")}
    samples = load_samples(make_request(fields), session.inputs, {})
    return np.concatenate([sample.feeds["image"] for sample in samples])


@pytest.fixture(scope="module")
def expected(demo: Path, images: np.ndarray) -> np.ndarray:
    return OrtSession(demo / "onnx" / "fp32" / "model.onnx").run({"image": images})["scores"]


def ask(client: Any, module: Any, image: np.ndarray) -> np.ndarray:
    sent = module.InferInput("image", list(image.shape), "FP32")
    sent.set_data_from_numpy(image)
    answer = client.infer(NAME, [sent]).as_numpy("scores")
    assert answer is not None
    return answer


def test_the_warm_up_is_in_its_log(server: TritonServer) -> None:
    lines = [line for line in server.log().splitlines() if "warmup sample" in line and NAME in line]
    assert len(lines) >= 2
    assert "error" not in " ".join(lines).lower()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_answers_are_the_check_s(
    server: TritonServer, images: np.ndarray, expected: np.ndarray, protocol: str
) -> None:
    module = {"http": http_client, "grpc": grpc_client}[protocol]
    url = {"http": server.http_url, "grpc": server.grpc_url}[protocol]
    with module.InferenceServerClient(url) as client:
        metadata = client.get_model_metadata(
            NAME, **({"as_json": True} if protocol == "grpc" else {})
        )
        assert metadata["inputs"][0]["name"] == "image"
        for size in (1, 2, 8):
            answer = ask(client, module, images[:size])
            np.testing.assert_allclose(answer, expected[:size], rtol=1e-3, atol=1e-4)


def test_batching_shows_in_the_statistics(server: TritonServer, images: np.ndarray) -> None:
    with http_client.InferenceServerClient(server.http_url, concurrency=8) as client:
        before = client.get_inference_statistics(NAME)["model_stats"][0]
        with ThreadPoolExecutor(8) as pool:
            urls = [(server.grpc_url, images[i % 20][None]) for i in range(32)]
            list(pool.map(_ask_once, urls))
        after = client.get_inference_statistics(NAME)["model_stats"][0]
    inferences = after["inference_count"] - before["inference_count"]
    executions = after["execution_count"] - before["execution_count"]
    assert inferences == 32
    assert executions < inferences
    assert any(item["batch_size"] > 1 for item in after["batch_stats"])


def _ask_once(work: tuple[str, np.ndarray]) -> None:
    with grpc_client.InferenceServerClient(work[0]) as client:
        ask(client, grpc_client, work[1])


def test_a_batch_above_the_largest_is_refused(server: TritonServer, images: np.ndarray) -> None:
    with (
        http_client.InferenceServerClient(server.http_url) as client,
        pytest.raises(Exception, match="batch-size must be <= 8"),
    ):
        ask(client, http_client, images[:9])


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_its_own_client_gives_the_right_class(
    server: TritonServer, demo: Path, protocol: str
) -> None:
    url = {"http": server.http_url, "grpc": server.grpc_url}[protocol]
    folder = demo / "serving" / "triton" / NAME
    done = subprocess.run(
        [sys.executable, folder / "client.py", "--url", url, "--protocol", protocol],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "scores" in done.stdout


@pytest.mark.parametrize(
    ("policy", "serves"),
    [("latest:1", ["2"]), ("latest:2", ["1", "2"]), ("all", ["1", "2"]), ("specific:1", ["1"])],
)
def test_versions_and_their_policies(
    demo: Path,
    tmp_path: Path,
    triton_environment: Any,  # noqa: F811
    policy: str,
    serves: list[str],
) -> None:
    repository = tmp_path / "repository"
    shutil.copytree(demo / "serving" / "triton", repository)
    folder = repository / NAME
    shutil.copytree(folder / "1", folder / "2")
    config = read_config(folder / "config.pbtxt")
    request = make_request({"source": "x", "version_policy": policy})
    wanted = build_config(NAME, (), (), 8, request)
    config.version_policy.CopyFrom(wanted.version_policy)
    (folder / "config.pbtxt").write_text(write_config(config))
    with (
        TritonServer(repository, environment=triton_environment) as running,
        http_client.InferenceServerClient(running.http_url) as client,
    ):
        ready = [v for v in ("1", "2", "3") if client.is_model_ready(NAME, v)]
    assert ready == serves
