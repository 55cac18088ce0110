"""``selftest.py`` of device packages, run from the folder alone in an environment that has numpy
and the runtime, and nothing of ours."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from converter.protocols.server import Environment
from converter.serving.environments import set_up
from tests.acceptance.cli import command, converted_cnn, small_cnn, tree

pytestmark = pytest.mark.slow

PLAIN = (
    "numpy==2.4.6",
    "onnxruntime==1.31.1",
    "ai-edge-litert==2.3.0",
    "flatbuffers==25.12.19",
)

FOLDERS = ("tflite/fp32", "tflite/int8", "ort/fp32")
BESIDE = {"README.md", "modelyard.json", "selftest.py"}


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter of the plain environment."""
    plain = Environment("plain", PLAIN, 60, dependencies=False)
    return set_up(plain, lambda text: None) / "bin" / "python"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = "--to tflite,ort,coreml --precision fp32,int8 --few-samples --out out"
    return converted_cnn(tmp_path_factory.mktemp("selftest"), options) / "out"


Run = Callable[[Path], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(python: Path, tmp_path: Path) -> Run:
    """Runs a package's test, with no other folder to import from."""

    def run(package: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(python), "-I", str(package / "selftest.py")],
            cwd=tmp_path, text=True, capture_output=True, timeout=120, check=False,
        )  # fmt: skip

    return run


@pytest.fixture(params=FOLDERS)
def package(out: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of a package, which lies alone."""
    return shutil.copytree(out / request.param, tmp_path / "alone")


def test_a_good_package(package: Path, run: Run) -> None:
    assert {path.name for path in package.iterdir()} >= BESIDE
    assert len(list((package / "warmup").iterdir())) == 4
    done = run(package)
    assert done.returncode == 0, done.stderr
    assert "4 samples, against onnxruntime" in done.stdout and done.stdout.endswith("ok\n")


def test_another_weight(package: Path, out: Path, run: Run) -> None:
    """The artifact computes with weights that are the source's but for one layer's sign."""
    facts = json.loads((package / "modelyard.json").read_text())
    if facts["precision"] == "int8":
        shutil.copyfile(_negated(out, "tflite/fp32"), package / facts["artifact"])
    else:
        shutil.copyfile(_negated(out, f"{facts['target']}/fp32"), package / facts["artifact"])
    done = run(package)
    assert done.returncode == 1, done.stdout
    assert "MISSED scores: cosine" in done.stderr


def _negated(out: Path, of: str) -> Path:
    """The file, the last layer's weights with the other sign."""
    model = onnx.load(out.parent / "cnn.onnx")
    (weight,) = (numpy_helper.to_array(i) for i in model.graph.initializer if i.name == "w2")
    (path,) = [p for p in (out / of).iterdir() if p.name in ("model.tflite", "model.ort")]
    data = path.read_bytes()
    assert data.count(weight.tobytes()) == 1
    changed = out.parent / f"{path.name}.changed"
    changed.write_bytes(data.replace(weight.tobytes(), (-weight).tobytes()))
    return changed


def test_another_number_in_what_is_expected(package: Path, run: Run) -> None:
    path = sorted((package / "expected").iterdir())[-1]
    values = np.load(path)
    values[0, 3] += 2 * np.abs(values).max()
    np.save(path, values)
    done = run(package)
    assert done.returncode == 1 and "MISSED scores: " in done.stderr


def test_a_number_too_many_or_none(package: Path, run: Run) -> None:
    for path in (package / "expected").iterdir():
        np.save(path, np.load(path)[:, 1:])
    assert "has shape" in run(package).stderr
    shutil.rmtree(package / "expected")
    assert run(package).returncode == 2


def test_without_a_check_nothing_is_called_right(tmp_path: Path, run: Run) -> None:
    small_cnn(tmp_path / "cnn.onnx")
    command("convert", "cnn.onnx", "--to", "ort", "--no-check", "--no-bench", "--out", "out",
            cwd=tmp_path, code=0)  # fmt: skip
    done = run(tmp_path / "out/ort/fp32")
    assert done.returncode == 2 and "NOTHING WAS COMPARED" in done.stdout, done.stderr


def test_what_is_missing_is_named(out: Path, python: Path, tmp_path: Path) -> None:
    """Of a Python that has nothing, and of one that has numpy alone."""
    script = str(out / "tflite/fp32/selftest.py")
    none = subprocess.run([sys.executable, "-S", script], text=True, capture_output=True)
    assert none.returncode == 2
    assert "pip install numpy ai-edge-litert" in none.stderr
    site = next((python.parent.parent / "lib").glob("*/site-packages"))
    for name in ("numpy", "numpy.libs"):
        (tmp_path / name).symlink_to(site / name)
    line, env = [str(python), "-S", script], {"PYTHONPATH": str(tmp_path)}
    some = subprocess.run(line, text=True, capture_output=True, env=env)
    assert some.returncode == 2
    assert "No module named 'ai_edge_litert'; install what it needs: pip install" in some.stderr


def test_core_ml_is_for_a_mac(out: Path, run: Run) -> None:
    if sys.platform == "darwin":
        pytest.skip("it would run here")
    done = run(out / "coreml/fp32")
    assert done.returncode == 2 and "run this on a Mac" in done.stderr


def test_the_same_bytes_again(out: Path, tmp_path: Path) -> None:
    for name in ("cnn.onnx", "samples.npz"):
        shutil.copyfile(out.parent / name, tmp_path / name)
    command(
        "convert", "cnn.onnx", "--to", "tflite", "--precision", "fp32,int8", "--few-samples",
        "--samples", "samples.npz", "--no-bench", "--out", "out", cwd=tmp_path, code=0,
    )  # fmt: skip
    assert tree(tmp_path / "out/tflite") == tree(out / "tflite")


def test_what_a_mac_writes_is_known(out: Path, tmp_path: Path) -> None:
    """Beside the report, where --overwrite takes it for ours."""
    manifest = json.loads((out / "manifest.json").read_text())
    written = manifest["scripts"]["write"]
    assert {"selftest-coreml-fp32.json", "coreml/fp32/selftest-coreml-fp32.json"} <= set(written)
    readme = (out / "README.md").read_text()
    for folder in (*FOLDERS, "coreml/int8"):
        assert f"python {folder}/selftest.py\n" in readme
