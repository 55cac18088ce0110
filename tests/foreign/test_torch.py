"""A PyTorch model read in the user's own environment, which holds nothing of ours."""

import json
import subprocess
from pathlib import Path

import pytest

from converter.ir.model import Model
from tests.acceptance.cli import Said, modelyard
from tests.foreign.environments import snapshot

ROOT = Path(__file__).resolve().parents[2]

# Refuses to be built anywhere but in that environment, or where anything of ours is in reach.
NET = """
import importlib.util
import os
import sys

import torch
from user_layers import Scaled  # found through the user's own PYTHONPATH

assert sys.prefix == os.environ["EXPECTED_PREFIX"], sys.prefix
for name in ("converter", "parsers", "onnxruntime", "rich", "pydantic"):
    assert importlib.util.find_spec(name) is None, (name, sys.path)
assert not {"VIRTUAL_ENV", "PYTHONHOME"} & set(os.environ)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.head = Scaled(8, 5)

    def forward(self, x):
        return self.head(self.conv(x).relu().mean((2, 3)))
"""
LAYERS = """
import torch

class Scaled(torch.nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's folder, with a file in it that stands in the way of the standard library's."""
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers" / "user_layers.py").write_text(LAYERS)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "net.py").write_text(NET)
    (tmp_path / "model" / "json.py").write_text("raise ImportError('the wrong json')")
    return tmp_path


def convert(project: Path, python: Path | str, *args: str | Path) -> Said:
    prefix = python if Path(python).is_dir() else Path(python).parents[1]
    env = {"EXPECTED_PREFIX": str(prefix), "PYTHONPATH": f"{ROOT}:{project / 'layers'}"}
    env |= {"VIRTUAL_ENV": str(ROOT / ".venv"), "MODELYARD_CACHE": str(project / "cache")}
    given = ["net.py:Net", "--input", "x:batchx3x8x8", "--no-bench", "--samples", "random:2"]
    given += ["--out", str(project / "out"), "--overwrite", "--python", str(python)]
    return modelyard("convert", *given, *args, cwd=project / "model", env=env)


@pytest.mark.slow
def test_it_is_read_there_and_nothing_is_left_there(project: Path, torch_python: Path) -> None:
    environment = torch_python.parents[1]
    before = snapshot(environment), snapshot(project / "model"), snapshot(project / "layers")
    weights = project / "net.pth"
    program = "import json, sys; sys.path.append('.'); import torch, net; "
    program += f"torch.save(net.Net().state_dict(), {str(weights)!r})"
    line = [torch_python, "-B", "-P", "-c", program]
    env = {"EXPECTED_PREFIX": str(environment), "PYTHONPATH": str(project / "layers")}
    subprocess.run(line, cwd=project / "model", env=env, check=True, timeout=120)
    said = convert(project, torch_python, "--weights", weights).no_traceback()
    assert said.code == 0, said.err
    after = snapshot(environment), snapshot(project / "model"), snapshot(project / "layers")
    assert after == before

    report = json.loads((project / "out/report.json").read_text())
    assert report["verdict"] == "passed"
    assert report["source"]["framework"] == "torch 2.13.0+cpu (Python 3.11.7)"
    versions = json.loads((project / "out/manifest.json").read_text())["versions"]
    assert versions["torch (source)"] == "2.13.0+cpu"
    assert versions["python (source)"] == "3.11.7"
    assert "torch" not in versions  # ours took no part
    source = Model.load(project / "out/onnx/fp32/model.onnx").source
    assert (source["python"], source["weights"]) == ("3.11.7", "file")
    for name in ("report.json", "report.html", "manifest.json"):
        assert str(environment) not in (project / "out" / name).read_text()

    again = convert(project, environment, "--weights", weights, "--json")  # by its folder
    assert again.code == 0, again.err
    steps = {step["step"]: step for step in again.json["report"]["timings"]}
    assert steps["simplify"]["cached"] and not steps["parse"]["cached"]  # code is read anew


@pytest.mark.slow
def test_a_package_that_the_users_code_lacks_is_named(project: Path, torch_python: Path) -> None:
    (project / "model" / "net.py").write_text("import torch, cv2")
    said = convert(project, torch_python, "--json").no_traceback()
    assert said.code == 5
    assert said.json["hint"] == f"{torch_python} -m pip install opencv-python-headless"


def test_all_that_is_missing_is_said_before_anything_starts(project: Path,
                                                            bare_python: Path) -> None:  # fmt: skip
    said = convert(project, bare_python, "--json").no_traceback()
    assert said.code == 5
    assert "torch" in said.json["message"] and "onnxscript" in said.json["message"]
    assert said.json["hint"] == f"'{bare_python}' -m pip install torch onnxscript"
    assert not (project / "out").exists()
