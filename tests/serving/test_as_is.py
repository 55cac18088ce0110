"""TorchScript files and SavedModels as they are: packages for Triton, without a server."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from converter.errors import DependencyError
from converter.options.recipe import make_request
from converter.protocols.emitter import Artifact
from emitters.as_is.emitter import TorchScriptEmitter
from emitters.serving.triton.config import read_config
from emitters.serving.triton.server import TritonServer as TritonPlugin
from emitters.serving.triton.validate import validate_folder
from tests.acceptance.cli import command, small_cnn
from tests.serving.test_triton_as_is import INPUTS, QUICK, Named, Net, scripted, sha256

pytestmark = pytest.mark.slow


def test_the_copy_is_what_is_run(tmp_path: Path) -> None:
    """Another module in the copy's place gives other numbers."""
    source, other = scripted(tmp_path / "a.pt", Net()), scripted(tmp_path / "b.pt", Net(), 1)
    interface = {
        "inputs": [["first", "float32", ["batch", 4]], ["second", "float32", ["batch", 4]]],
        "outputs": [["p", "float32", ["batch", 3]], ["q", "float32", ["batch", 3]]],
    }
    request = make_request({"source": str(source), "trust_source": True})
    feeds = {name: np.ones((2, 4), np.float32) * at for at, name in enumerate(("second", "first"))}
    for path in (source, other):
        made = Artifact("torchscript", "fp32", path, [path], {"interface": interface})
        session = TorchScriptEmitter().open(made, request)
        found = session.run(feeds)
        session.close()
        given = [torch.from_numpy(feeds[name]) for name in ("first", "second")]
        for array, wanted in zip(found.values(), torch.jit.load(str(path))(*given), strict=True):
            np.testing.assert_allclose(array, wanted.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_what_is_refused(tmp_path: Path) -> None:
    small_cnn(tmp_path / "cnn.onnx")
    net, named = scripted(tmp_path / "net.pt", Net()), scripted(tmp_path / "named.pt", Named())
    to = ("--to", "torchscript", "--out", str(tmp_path / "out"), "--no-bench")
    said = command("convert", str(tmp_path / "cnn.onnx"), *to, code=2)
    assert "cnn.onnx isn't a TorchScript file" in said.err
    said = command(
        "convert", str(net), "--trust-source", *INPUTS, *to, "--precision", "fp16", code=2
    )
    assert "torchscript has no fp16" in said.err
    said = command("convert", str(net), *INPUTS, *to, code=3)
    assert "--trust-source" in said.err
    fixed = ("--input", "first:1x4", "--input", "second:1x4", "--fix")
    fixed = ("--trust-source", *fixed, "second=[[1, 1, 1, 1]]")
    said = command("convert", str(net), *fixed, *to, code=3)
    assert "the file takes it, and here it is fixed" in said.err
    more = ("--trust-source", "--input", "x:batchx4", "--serve", "triton")
    said = command("convert", str(named), *more, *to, code=3)
    assert "a tensor or a tuple of tensors" in said.err
    assert not (tmp_path / "out").exists()


SAVED = """
import sys, tensorflow as tf
module = tf.Module()
module.w = tf.Variable(tf.reshape(tf.range(12.0), (4, 3)))
spec = tf.TensorSpec((None, 4), tf.float32, name="x")
score = tf.function(lambda x: {"scores": tf.nn.softmax(x @ module.w)}, input_signature=[spec])
double = tf.function(lambda x: {"twice": x * 2}, input_signature=[spec])
tf.saved_model.save(module, sys.argv[1], signatures={"score": score, "double": double})
"""


def test_a_saved_model(tmp_path: Path) -> None:
    source, out = tmp_path / "scorer", tmp_path / "out"
    subprocess.run([sys.executable, "-c", SAVED, str(source)], check=True, capture_output=True)
    to = ("--signature", "score", "--to", "savedmodel", "--out", str(out), *QUICK)
    said = command("convert", str(source), *to, "--input", "other:batchx4", code=3)
    assert "the signature's inputs are x" in said.err
    command("convert", str(source), *to, code=0)
    package = out / "serving/triton/scorer"
    copy = package / "1" / "model.savedmodel"
    files = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert {path.relative_to(copy) for path in copy.rglob("*") if path.is_file()} == files
    assert all(sha256(source / name) == sha256(copy / name) for name in files)
    config = read_config(package / "config.pbtxt")
    assert (config.backend, config.platform) == ("tensorflow", "tensorflow_savedmodel")
    assert config.parameters["TF_SIGNATURE_DEF"].string_value == "score"
    assert "TF_GRAPH_TAG" not in config.parameters and config.max_batch_size == 8
    assert [(item.name, list(item.dims)) for item in config.input] == [("x", [4])]
    assert [(item.name, list(item.dims)) for item in config.output] == [("scores", [3])]
    facts = json.loads((package / "modelyard.json").read_text())
    assert facts["reference"].startswith("tensorflow ") and list((package / "expected").iterdir())
    assert validate_folder(package) == []
    with pytest.raises(DependencyError, match="no TensorFlow"):
        TritonPlugin().environment(package)
    (copy / "saved_model.pb").unlink()
    assert any("no SavedModel" in line for line in validate_folder(package))
