"""What doctor, and errors, say of an ONNX Runtime that another one has overwritten."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from converter.plugins.extras import installed
from tests.acceptance.cli import modelyard, small_cnn

RUNTIME = "onnxruntime-gpu" if installed("onnxruntime-gpu") else "onnxruntime"
OTHER = {"onnxruntime-gpu": "onnxruntime", "onnxruntime": "onnxruntime-gpu"}[RUNTIME]


@pytest.mark.slow
def test_two_runtimes_in_one_folder_and_the_lines_that_mend_it(tmp_path: Path) -> None:
    info = tmp_path / f"{OTHER.replace('-', '_')}-1.20.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {OTHER}\nVersion: 1.20.0\n")
    said = modelyard("doctor", "--json", env={"PYTHONPATH": str(tmp_path)}, code=5)
    (problem,) = said.json["problems"]
    what, remove, install = problem.splitlines()
    assert "onnxruntime and onnxruntime-gpu are both installed" in what
    pip = f"{shlex.quote(sys.executable)} -m pip"
    assert remove == f"{pip} uninstall -y onnxruntime onnxruntime-gpu"
    assert install.endswith(f" --force-reinstall --no-deps {RUNTIME}=={installed(RUNTIME)}")
    dry = f"{install} --dry-run -q"  # pip takes the line as it is printed
    subprocess.run(dry, shell=True, check=True, capture_output=True)


@pytest.mark.slow
def test_a_runtime_of_which_half_is_left(tmp_path: Path) -> None:
    """What uninstalling one of the two leaves of the other."""
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "__init__.py").touch()
    small_cnn(tmp_path / "model.onnx")
    env = {"PYTHONPATH": str(tmp_path)}
    said = modelyard("convert", "model.onnx", cwd=tmp_path, env=env, code=5)
    assert f"{RUNTIME} is missing or damaged" in said.err
    assert f"--force-reinstall --no-deps '{RUNTIME}>=" in said.err
    found = modelyard("doctor", "--json", env=env, code=5)
    assert "missing or damaged" in found.json["problems"][0]
