"""A user's own files that are called like packages of ours, in the folder and on PYTHONPATH."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.cli import COMMAND, modelyard, small_cnn

OURS = ("converter", "emitters", "parsers", "recipes", "zoo")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a user's with modules of our names, some of them packages."""
    for name in OURS[:3]:
        (tmp_path / f"{name}.py").write_text(f'raise SystemExit("another {name}")')
    for name in OURS[3:]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f'raise SystemExit("another {name}")')
    small_cnn(tmp_path / "model.onnx")
    (tmp_path / "data.py").write_text(
        "import numpy as np\n"
        "def samples():\n"
        "    for seed in range(3):\n"
        "        yield {'image': np.random.default_rng(seed).random((3, 16, 16), np.float32)}\n"
        "def score(outputs, label):\n"
        "    return float(outputs['scores'].sum())\n"
    )
    return tmp_path


ARGS = ("model.onnx", "--samples", "data.py:samples", "--to", "onnx,tflite", "--no-bench")


@pytest.mark.slow
def test_commands_convert(folder: Path) -> None:
    """The installed commands, and ``python -m``."""
    env = {"PYTHONPATH": str(folder)}
    modelyard("convert", *ARGS, cwd=folder, env=env, code=0)
    assert (folder / "build/model/tflite/fp32/model.tflite").is_file()
    assert "efficientnet-lite0" in modelyard("zoo", "list", cwd=folder, env=env).out
    module = (sys.executable, "-m", "modelyard", "convert", "model.onnx", "--no-bench", "--out=m")
    for line in (module, (COMMAND.with_name("mmconvert"), "--help")):
        done = subprocess.run(
            line, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_a_script_converts_and_imports_its_own_later_or_is_told(folder: Path) -> None:
    (folder / "converter.py").write_text("MINE = 1")
    after = "import modelyard\nimport converter\nassert converter.MINE\n"
    call = 'modelyard.convert("model.onnx", bench=False)\n'
    (folder / "without.py").write_text("import modelyard\n" + call)
    (folder / "with.py").write_text(after + call)
    fine, told = (
        subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True)
        for name in ("without.py", "with.py")
    )
    assert fine.returncode == 0, fine.stderr
    assert "ImportError: modelyard has a package called 'converter'" in told.stderr
    assert f"loaded already, from {folder.resolve() / 'converter.py'}" in told.stderr
