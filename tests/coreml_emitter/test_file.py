"""The package itself: the same bytes every time, its manifest, what it says of itself."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.errors import UnsupportedError, UsageError
from converter.ir.model import Model
from emitters.coreml.declared import read_description
from emitters.coreml.emitter import SWIFT, CoremlEmitter
from emitters.coreml.interface import KEY
from modelyard.containers.coreml import coremltools
from tests.coreml_emitter import running
from tests.coreml_emitter.running import agree, emitted, kinds, opened, refusals, request
from tests.operators.cases import numbers, parsed, with_weights

NET = """
g (float[batch, 3, 8, 8] x, float[4, 3, 3, 3] w, float[5, 256] v) => (float[batch, 5] scores) {
    c = Conv<pads = [1, 1, 1, 1]>(x, w)
    r = Relu(c)
    f = Flatten(r)
    scores = Gemm<transB = 1>(f, v)
}
"""


def net() -> Model:
    """A small classifier."""
    model = with_weights(parsed(NET), w=numbers(4, 3, 3, 3), v=numbers(5, 256, seed=1))
    model.source = {"class": "Net", "framework": "onnxruntime 1.31.1", "license": "Apache-2.0"}
    return model


def contents(package: Path) -> dict[str, bytes]:
    """All files by their place."""
    files = sorted(file for file in package.rglob("*") if file.is_file())
    return {file.relative_to(package).as_posix(): file.read_bytes() for file in files}


_AGAIN = """
import sys
from pathlib import Path
from tests.coreml_emitter.running import emitted
from tests.coreml_emitter.test_file import net
emitted(net(), Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_the_same_bytes_from_run_to_run(tmp_path: Path) -> None:
    """In one process, over what was there; and in another with other hashes."""
    first = contents(emitted(net(), tmp_path / "a"))
    assert contents(emitted(net(), tmp_path / "a")) == first
    root = Path(__file__).resolve().parents[2]
    env = {"PYTHONHASHSEED": "7", "PYTHONPATH": str(root), "PATH": ""}
    subprocess.run([sys.executable, "-c", _AGAIN, str(tmp_path / "b")], check=True, env=env)
    assert contents(tmp_path / "b" / "model.mlpackage") == first


def test_manifest_names_the_model_and_its_weights(tmp_path: Path) -> None:
    """As coremltools' library writes and reads it; without weights there is no folder of them."""
    path = emitted(net(), tmp_path)
    manifest = json.loads((path / "Manifest.json").read_text())
    items = manifest["itemInfoEntries"]
    assert items[manifest["rootModelIdentifier"]]["path"] == "com.apple.CoreML/model.mlmodel"
    assert {item["name"] for item in items.values()} == {"model.mlmodel", "weights"}
    model = coremltools().models.MLModel(str(path), skip_model_load=True)
    assert model.get_spec().specificationVersion == 8  # iOS 17
    path = emitted(parsed("g (float[2] x) => (float[2] y) { y = Relu(x) }"), tmp_path)
    assert set(contents(path)) == {"Manifest.json", "Data/com.apple.CoreML/model.mlmodel"}
    assert len(json.loads((path / "Manifest.json").read_text())["itemInfoEntries"]) == 1


def test_an_output_costs_no_operation(tmp_path: Path) -> None:
    """The last operation is called as the output is; an input given back needs one."""
    assert "identity" not in kinds(emitted(net(), tmp_path / "net"))
    model = parsed("g (float[2] x) => (float[2] a, float[2] b) { a = Relu(x) b = Identity(x) }")
    found = agree(model, {"x": np.array([-1, 2], np.float32)}, tmp_path / "two")
    assert found["b"].tolist() == [-1, 2]


def test_metadata(tmp_path: Path) -> None:
    """What was given, else what the source says; the user's own besides."""
    given: dict[str, Any] = {
        "description": "Tells shapes apart", "author": "A. Author", "model_version": "2.1",
        "metadata": {"team": "vision"}, "compute_units": "cpu-and-ne",
    }  # fmt: skip
    told = read_description(emitted(net(), tmp_path, **given))
    metadata = told.metadata
    assert (metadata.shortDescription, metadata.author) == ("Tells shapes apart", "A. Author")
    assert (metadata.license, metadata.versionString) == ("Apache-2.0", "2.1")
    own = dict(metadata.userDefined)
    assert own["team"] == "vision"
    assert own["modelyard.compute_units"] == "cpu-and-ne"
    assert "date" not in " ".join(own)
    assert told.input[0].shortDescription == "float32[batch, 3, 8, 8]; batch 1 to 8"
    assert json.loads(own[KEY])["inputs"][0]["of"] == "x"


def test_the_artifact_says_what_it_is(tmp_path: Path) -> None:
    """Its files without the folder, the target, the compute units."""
    artifact = CoremlEmitter().emit(net(), tmp_path, "fp32", request(16, compute_units="cpu-only"))
    assert artifact.details["coreml_target"] == "iOS16"
    assert artifact.details["compute_units"] == "cpu-only"
    assert all(file.is_file() for file in artifact.files)
    assert artifact.files[-1].name == SWIFT


def test_swift_has_this_models_names(tmp_path: Path) -> None:
    """Types, arguments, keys, sizes and compute units."""
    text = """
    g (int64[batch, tokens] input_ids, float[2] class) => (float[batch, tokens] y, float[2] z) {
        y = Cast<to = 1>(input_ids)
        z = Relu(class)
    }
    """
    emitted(parsed(text), tmp_path, name="my net", compute_units="cpu-and-gpu")
    swift = (tmp_path / SWIFT).read_text()
    assert "final class MyNet {" in swift
    assert "configuration.computeUnits = .cpuAndGPU" in swift
    arguments = "inputIds: MLMultiArray, classValue: MLMultiArray"
    assert f"callAsFunction({arguments}) throws -> (y: MLMultiArray, z: MLMultiArray)" in swift
    assert '"input_ids": MLFeatureValue(multiArray: inputIds),' in swift
    assert "inputIds: int32[batch, tokens]; batch 1 to 8, tokens 1 to 4096" in swift
    assert swift.count("{") == swift.count("}")


# -- targets -----------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "version"), [(15, 6), (16, 7), (17, 8), (18, 9), (26, 10)])
def test_every_target(target: int, version: int, tmp_path: Path) -> None:
    """The format's version is the target's, and the program the same."""
    agree(net(), {"x": numbers(2, 3, 8, 8)}, tmp_path, target=target)
    model = coremltools().models.MLModel(str(tmp_path / "model.mlpackage"), skip_model_load=True)
    assert model.get_spec().specificationVersion == version


def test_refusals_come_all_at_once(tmp_path: Path) -> None:
    """Inputs, outputs and nodes; nothing is written then."""
    model = parsed("""
        g (double[2] x, float[1, 1, 1, 1, 1, n] y) => (double[2] a, float[1, 1, 1, 1, 1, n] b)
        { a = Identity(x) b = Relu(y) }""")
    found = {item.node or item.op: item.reason for item in refusals(model)}
    assert set(found) >= {"x", "y", "a", "b"}
    assert all(reason.startswith("Core ML has no") for reason in found.values())
    with pytest.raises(UnsupportedError):
        CoremlEmitter().emit(model, tmp_path, "fp32", request())
    assert not (tmp_path / "model.mlpackage").exists()


# -- reading it back ---------------------------------------------------------------------


def test_int64_beyond_32_bits_is_refused(tmp_path: Path) -> None:
    path = emitted(parsed("g (int64[2] x) => (int64[2] y) { y = Neg(x) }"), tmp_path)
    assert running.run_package(path, {"x": np.array([1, -2])})["y"].tolist() == [-1, 2]
    with pytest.raises(UsageError, match="32 bits"):
        running.run_package(path, {"x": np.array([2**40, 0])})


def test_scalars_booleans_and_names(tmp_path: Path) -> None:
    """Core ML has none of the three; who opens the package doesn't notice."""
    model = parsed("g (bool[2] a, float s) => (bool[2] b, float t) { b = Not(a) t = Neg(s) }")
    for value, name in zip(model.graph.graph.inputs, ("in/a:0", "1s"), strict=True):
        value.name = name
    feeds = {"in/a:0": np.array([True, False]), "1s": np.array(3, np.float32)}
    assert agree(model, feeds, tmp_path)["t"].shape == ()
    described = read_description(tmp_path / "model.mlpackage")
    assert [feature.name for feature in described.input] == ["in_a_0", "_1s"]


def test_the_runtime_says_that_core_ml_has_not_run(tmp_path: Path) -> None:
    with opened(emitted(net(), tmp_path)) as session:
        runtime = session.runtime
    assert runtime["stands_for"] == "model.mlpackage"
    assert "Neural Engine" in runtime["not_run"]
    assert "needs a Mac" in runtime["not_run"]


def test_what_overflows_in_float16_does(tmp_path: Path) -> None:
    """ONNX Runtime alone would compute it in float32, and find nothing wrong."""
    model = parsed("""g (float[2] x, float16[2] c, float16[2] d) => (float[2] y)
        { half = Cast<to = 10>(x) large = Mul(half, c)
          back = Mul(large, d) y = Cast<to = 1>(back) }""")
    model = with_weights(model, c=np.full(2, 512, np.float16), d=np.full(2, 1 / 512, np.float16))
    path = emitted(model, tmp_path, precision="fp16")
    found = running.run_package(path, {"x": np.array([1.0, 500.0], np.float32)})
    assert found["y"].tolist() == [1.0, np.inf]
    with opened(path, "fp16") as session:
        assert "every 16-bit tensor rounded" in session.runtime["runs"]
