"""Packages for TensorFlow Serving, read as it reads them, and asked as it is asked.

The server is no package of Python's: tfserving_stand_in.py runs the SavedModel in its place.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from google.protobuf.wrappers_pb2 import Int64Value

from converter.errors import UsageError
from converter.options.recipe import make_request
from emitters.packaging.script.over_http import plain_outputs
from emitters.serving.tfserving.server import TensorFlowServing
from emitters.serving.tfserving.warmup import _masked, prediction_log, records
from tests.acceptance.cli import command, written
from tests.passes.models import text_model

MAKE = """
import sys
import tensorflow as tf

class Net(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(tf.reshape(tf.range(12.0), (4, 3)) / 10)

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "x"),
                                  tf.TensorSpec([None, 4], tf.int32, "less")])
    def __call__(self, x, less):
        rest = x - tf.cast(less, tf.float32)
        return {"y": tf.nn.softmax(rest @ self.weights)}

net = Net()
tf.saved_model.save(net, sys.argv[1], {"serving_default": net.__call__})
"""


def _run(*line: Any, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, line)], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.smoke
def test_a_package_is_read_replayed_and_asked(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow", reason="tensorflow isn't installed")
    if importlib.util.find_spec("tensorflow_serving") is None:
        pytest.skip("tensorflow-serving-api isn't installed")
    _run("-c", MAKE, tmp_path / "net")
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((2, 4)).astype(np.float32)}
    np.savez(tmp_path / "s.npz", **feeds, less=rng.integers(-3, 3, (2, 4)).astype(np.int32))
    line = ["convert", tmp_path / "net", "--to", "savedmodel", "--serve", "tfserving", "--no-bench"]
    line += ["--samples", tmp_path / "s.npz", "--version", "2", "--max-batch", "4"]
    line += ["--queue-delay", "250", "--instances", "3", "--version-label", "canary"]
    line += ["--out", tmp_path / "out"]
    command(*line, code=0)
    report = (tmp_path / "out" / "report.json").read_text()
    assert "was not run" in report
    package = tmp_path / "out" / "serving" / "tfserving" / "net"
    batching = _numbers(package / "batching.config")
    assert batching["max_batch_size"] == 4 and batching["batch_timeout_micros"] == 250
    assert batching["num_batch_threads"] == 3
    stand_in = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("tfserving_stand_in.py"), package],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert (
        stand_in.stdin is not None and stand_in.stdout is not None and stand_in.stderr is not None
    )
    try:
        said = stand_in.stdout.readline()
        assert said, stand_in.stderr.read()
        told = json.loads(said)
        url = f"http://127.0.0.1:{told['http']}"
        assert "ok" in _run("selftest.py", "--url", url, cwd=package)
        assert "y" in _run("client_requests.py", "--url", url, cwd=package)
        asked = _run("client_grpc.py", f"127.0.0.1:{told['grpc']}", cwd=package)
        assert "y float32 (1, 3)" in asked
    finally:
        stand_in.stdin.close()
        stand_in.wait(60)
    assert (told["base"], told["version"], told["labels"]) == ("/models/net", 2, {"canary": 2})
    facts = json.loads((package / "modelyard.json").read_text())
    sample = facts["samples"][0]
    files = {**sample["feeds"], **sample["expected"]}
    first = {key: np.load(package / item["file"]) for key, item in files.items()}
    assert [len(item["inputs"]["x"]) for item in told["warmed"]] == [1, 4]
    for item in told["warmed"]:
        assert item["model"] == "net"
        for key, values in {**item["inputs"], **item["outputs"]}.items():
            np.testing.assert_allclose(values[0], first[key][0], rtol=1e-5, atol=1e-6)


def _numbers(path: Path) -> dict[str, int]:
    """Fields that hold an Int64Value each, by name; protobuf reads each value."""
    fields = (line.split(" ", 1) for line in path.read_text().splitlines())
    return {
        name: text_format.Parse(value.strip().strip("{}"), Int64Value()).value
        for name, value in fields
    }


def test_sums_are_castagnolis() -> None:
    """RFC 3720, B.4: thirty-two zeros, and the numbers to 31."""
    known = {bytes(32): 0x8A9136AA, bytes(range(32)): 0x46DD794E}
    for data, crc in known.items():
        turned = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
        assert int.from_bytes(_masked(data), "little") == turned
    message = prediction_log("net", "serving_default", {"x": ("string", np.array(["a"], object))})
    assert b"serving_default" in message and records([message]).startswith(
        len(message).to_bytes(8, "little")
    )


def test_one_output_comes_without_its_name_and_several_by_theirs() -> None:
    outputs = [{"name": name, "dtype": "float32"} for name in ("y", "z")]
    wire = {"outputs": "outputs"}
    one = plain_outputs({"wire": wire, "outputs": outputs[:1]}, {"outputs": [[1, 2]]})
    assert one["y"].tolist() == [[1, 2]] and one["y"].dtype == np.float32
    two = plain_outputs({"wire": wire, "outputs": outputs}, {"outputs": {"y": [1], "z": [2]}})
    assert [two[name].tolist() for name in ("y", "z")] == [[1], [2]]


def test_what_it_does_not_serve(tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx", "m (float[n] x) => (float[n] y) { y = Neg(x) }")
    line = ("convert", path, "--out", tmp_path / "out", "--serve", "tfserving")
    assert "It serves savedmodel" in command(*line, code=2).err
    model = text_model("m (float[n] x) => (float[n] y) { y = Neg(x) }")
    TensorFlowServing().check(model, make_request({"source": "net"}))
    model.source["signature"] = "scores"
    with pytest.raises(UsageError, match="signature is scores"):
        TensorFlowServing().check(model, make_request({"source": "net"}))
