"""A real Triton loads the demo's folder as it is, and answers as the check did."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from converter.ort import OrtSession
from converter.recipe import make_request
from converter.samples import load_samples
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


@pytest.mark.smoke
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
