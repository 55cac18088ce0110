"""A TorchScript file as it is, in TorchServe."""

import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from converter import api
from tests.acceptance.cli import command
from tests.serving.test_triton_as_is import INPUTS, Named, Net, scripted

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scripted(tmp_path_factory.mktemp("script") / "net.pt", Net())


@pytest.fixture(scope="module")
def package(source: Path) -> Path:
    out = source.with_name("out")
    command("convert", source, "--trust-source", "--to", "torchscript", *INPUTS, "--few-samples",
            "--no-bench", "--serve", "torchserve", "--out", out, code=0)  # fmt: skip
    return out / "serving" / "torchserve" / "net"


@pytest.fixture
def core(package: Path, tmp_path: Path) -> ModuleType:
    """The handler core out of the archive."""
    with zipfile.ZipFile(package / "model_store" / "net.mar") as archive:
        archive.extractall(tmp_path)
    spec = importlib.util.spec_from_file_location("inference", tmp_path / "inference.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_core_runs_the_sources_bytes(core: ModuleType, source: Path) -> None:
    folder = Path(str(core.__file__)).parent
    assert (folder / "model.pt").read_bytes() == source.read_bytes()
    facts = json.loads((folder / "model.json").read_text())
    assert facts["arguments"] == {"first": "x", "second": "less"}
    rng = np.random.default_rng(1)
    feeds = [{name: rng.standard_normal((rows, 4), np.float32) for name in ("first", "second")}
             for rows in (1, 3)]  # fmt: skip
    found = core.Model.load(folder).run(feeds)
    module = torch.jit.load(str(source))
    for given, outputs in zip(feeds, found, strict=True):
        expected = module(torch.tensor(given["first"]), torch.tensor(given["second"]))
        for name, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(outputs[name], wanted.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_its_answers_are_the_sources(package: Path) -> None:
    with api.serve(str(package), port=0) as served:
        url = "/".join(served.addresses["json"].split("/")[:3])
        line = [sys.executable, "-I", str(package / "selftest.py"), "--url", url]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_no_request_can_give_is_refused(tmp_path: Path) -> None:
    source = scripted(tmp_path / "named.pt", Named())
    line, out = ("--trust-source", "--to", "torchscript", "--input", "x:batchx4"), tmp_path / "out"
    said = command("convert", source, *line, "--serve", "torchserve", "--out", out, code=3)
    assert "Dict" in said.err and "--to onnx" in said.err
