"""TensorFlow models through the whole pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

from converter import api
from zoo.packages import fetch_package_file, fetch_package_folder

pytestmark = pytest.mark.slow

_FOLDER = "basic_pitch/saved_models/icassp_2022"


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> api.Converted:
    """basic-pitch out of its SavedModel, which Keras 2 wrote with an optimizer."""
    folder = fetch_package_folder(
        "basic-pitch",
        "0.4.0",
        f"{_FOLDER}/nmp",
        "b74344cd0c58261dae0cd52050d85ab6f901a5e219f27046ab4640673bba1046",
    )
    out = tmp_path_factory.mktemp("out") / "nmp"
    return api.convert(str(folder), out=str(out), bench_seconds=0.2, threads=1, samples="random:2")


def test_names_order_and_layout_are_the_signature_s(converted: api.Converted) -> None:
    report = converted.as_dict()["report"]
    source = report["source"]
    assert report["verdict"] == "passed"
    assert source["format"] == "tensorflow"
    assert source["parameters"] > 16_000
    assert source["inputs"][0]["type"] == "float32[batch, 43844, 1]"
    assert [item["name"] for item in source["outputs"]] == ["contour", "note", "onset"]


def test_it_agrees_with_the_authors_onnx(converted: api.Converted) -> None:
    path = fetch_package_file(
        "basic-pitch",
        "0.4.0",
        f"{_FOLDER}/nmp.onnx",
        "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
    )
    theirs = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (model,) = converted.out.rglob("*.onnx")
    ours = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    x = (np.random.default_rng(0).standard_normal((1, 43844, 1)) / 4).astype(np.float32)
    expected: list[Any] = theirs.run(
        [f"StatefulPartitionedCall:{index}" for index in range(3)],
        {"serving_default_input_2:0": x},
    )
    for name, array in zip(("contour", "note", "onset"), expected, strict=True):
        (out,) = ours.run([name], {"input_2": x})
        np.testing.assert_allclose(out, array, atol=1e-5)


def test_latency_is_measured_with_the_threads_asked_for(converted: api.Converted) -> None:
    points = converted.as_dict()["report"]["artifacts"][0]["latency"]
    (source,) = [point for point in points if point["role"] == "source"]
    assert source["name"].startswith("tensorflow 2")
    assert source["threads"] == 1
