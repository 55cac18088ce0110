"""A Python that has torch and nothing else: what exports its models is ours, there or here."""

import importlib.metadata
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from converter.errors import DependencyError
from converter.ir.model import Model
from converter.runtime.interpreter import interpreter
from parsers.pytorch.spec import PYTORCH
from tests.acceptance.cli import modelyard
from tests.foreign.environments import bare, claim, snapshot
from tests.foreign.test_torch import NET

TORCH = (
    *("torch", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec", "filelock"),
    "typing_extensions",
)
"""torch and what it needs: without numpy."""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python like ours with links to our torch alone."""
    made = bare(tmp_path / "venv", f"{sys.version_info[0]}.{sys.version_info[1]}")
    packages = next((made.parents[1] / "lib").glob("python*/site-packages"))
    for name in TORCH:
        found = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
            if top not in ("bin", "__pycache__"):
                (packages / top).symlink_to(Path(str(found.locate_file(top))))
    return made


ARGS = ("net.py:Net", "--input", "x:batchx3x8x8", "--no-bench", "--samples", "random:2")


def pytorch_in(python: Path) -> dict[str, Any]:
    """What doctor says of PyTorch in a Python."""
    found = modelyard("doctor", "--python", python, "--json").json["frameworks"]
    return next(item for item in found if item["name"] == "PyTorch")


@pytest.mark.slow
def test_it_is_enough(python: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    net = NET.replace("from user_layers import Scaled", "from torch.nn import Linear as Scaled")
    (project / "net.py").write_text(net)
    env = {"EXPECTED_PREFIX": str(python.parents[1])}
    before = snapshot(python.parents[1])
    said = modelyard("convert", *ARGS, "--python", python, cwd=project, env=env).no_traceback()
    assert said.code == 0, said.err
    assert snapshot(python.parents[1]) == before
    versions = json.loads((project / "build/net/manifest.json").read_text())["versions"]
    assert versions["onnxscript (source)"] == importlib.metadata.version("onnxscript")
    shown = pytorch_in(python)
    assert (shown["state"], shown["missing"]) == ("works", [])
    assert shown["packages"]["numpy"] == f"{importlib.metadata.version('numpy')} (ours)"


def test_where_ours_would_not_go_with_what_is_there(python: Path, tmp_path: Path) -> None:
    """An old protobuf there, which the onnx that would go along can't use."""
    claim(next((python.parents[1] / "lib").glob("python*/site-packages")), "protobuf", "3.20")
    (tmp_path / "net.py").write_text("")
    said = modelyard("convert", *ARGS, "--python", python, "--json", cwd=tmp_path)
    assert said.no_traceback().code == 5
    assert said.json["hint"] == f"{python} -m pip install onnxscript"


TWO = """
import importlib.util
import torch

assert not any(importlib.util.find_spec(name) for name in ("numpy", "onnx", "onnxscript"))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(11, 8)
        self.lstm = torch.nn.LSTM(8, 8, batch_first=True)
        self.head = torch.nn.Linear(12, 5)

    def forward(self, ids, features):
        read = self.lstm(self.words(ids))[0]
        scores = self.head(torch.cat([read.mean(1), features], 1))
        return {"y": scores, "best": scores.argmax(1)}
"""
TWO_ARGS = (
    *("net.py:Net", "--input", "ids:int64:batchxlength", "--input", "features:batchx4"),
    *("--dim", "length=6", "--no-bench", "--samples", "random:3"),
)


@pytest.mark.slow
def test_it_is_enough_in_another_version(torch_alone_python: Path, tmp_path: Path) -> None:
    """Traced there, translated here, and held against what the model gives there."""
    (tmp_path / "net.py").write_text(TWO)
    before = snapshot(torch_alone_python.parents[1])
    args = (*TWO_ARGS, "--output", "scores", "--output", "best", "--python", torch_alone_python)
    said = modelyard("convert", *args, cwd=tmp_path).no_traceback()
    assert said.code == 0, said.err
    assert snapshot(torch_alone_python.parents[1]) == before
    report = json.loads((tmp_path / "build/net/report.json").read_text())
    assert report["verdict"] == "passed"
    assert "(Python 3.13." in report["source"]["framework"]
    versions = json.loads((tmp_path / "build/net/manifest.json").read_text())["versions"]
    assert versions["translating torch (source)"] == importlib.metadata.version("torch")
    model = Model.load(tmp_path / "build/net/onnx/fp32/model.onnx")
    shapes = {spec.name: spec.shape for spec in (*model.inputs, *model.outputs)}
    ends = {"ids": ("batch", "length"), "features": ("batch", 4)}
    assert shapes == {**ends, "scores": ("batch", 5), "best": ("batch",)}
    assert list(shapes) == ["ids", "features", "scores", "best"]
    assert {"words", "lstm", "head"} <= {node.name for node in model.graph.graph}
    shown = pytorch_in(torch_alone_python)
    assert (shown["state"], shown["missing"]) == ("works", [])
    onnxscript = importlib.metadata.version("onnxscript")
    assert shown["packages"]["onnxscript"] == f"{onnxscript} (ours)"


@pytest.mark.slow
def test_what_only_torchscript_exports_says_what_it_needs(torch_alone_python: Path,
                                                          tmp_path: Path) -> None:  # fmt: skip
    deciding = TWO.replace("return {", "if scores.sum() > 0: scores = -scores\n        return {")
    (tmp_path / "net.py").write_text(deciding)
    said = modelyard("convert", *TWO_ARGS, "--python", torch_alone_python, "--json", cwd=tmp_path)
    assert said.no_traceback().code == 5
    assert "torch.export can't trace the model" in said.json["message"]
    assert said.json["hint"] == f"{torch_alone_python} -m pip install onnxscript"


@pytest.mark.slow
def test_a_program_that_our_torch_cannot_read(torch_alone_python: Path, tmp_path: Path) -> None:
    """One with an operator of the user's own, as of any package that is not here."""
    own = 'torch.library.define("mine::twice", "(Tensor x) -> Tensor")\n'
    own += 'torch.library.impl("mine::twice", "CompositeExplicitAutograd", lambda x: 2 * x)\n'
    own += 'torch.library.register_fake("mine::twice", lambda x: torch.empty_like(x))\n'
    net = TWO.replace("class", f"{own}class", 1)
    net = net.replace('"y": scores', '"y": torch.ops.mine.twice(scores)')
    (tmp_path / "net.py").write_text(net)
    said = modelyard("convert", *TWO_ARGS, "--python", torch_alone_python, "--json", cwd=tmp_path)
    assert said.no_traceback().code == 5
    ours = importlib.metadata.version("torch")
    assert f"torch {ours} here can't read the program that torch 2.13.0" in said.json["message"]
    assert said.json["hint"] == f"{torch_alone_python} -m pip install onnxscript"


def test_without_torch_here_it_says_what_is_needed(
    bare_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(tmp_path / "packages", "torch", "2.99")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    assert interpreter(str(bare_python)).translated["torch"] == importlib.metadata.version("torch")
    assert PYTORCH.lends is not None
    without = replace(PYTORCH.lends, translating=("torch-that-is-not-here",))
    monkeypatch.setattr("converter.runtime.interpreter.lent", lambda: [without])
    os.utime(tmp_path / "packages", ns=(0, 0))  # it is asked anew
    with pytest.raises(DependencyError) as error:
        interpreter(str(bare_python)).require(PYTORCH.needs, "reading a PyTorch model", "torch")
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert f"which is Python 3.12: ours go along into {ours} only" in error.value.message
    assert error.value.hint == f"'{bare_python}' -m pip install onnxscript"
