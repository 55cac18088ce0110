"""``--to tensorrt --serve triton`` where no GPU is: command, folder, server and script."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as client

from emitters.tensorrt.libraries import has_gpu
from tests.acceptance.cli import modelyard
from tests.triton.server import TritonServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(has_gpu(), reason="there is a GPU: the engine is built at once"),
]

NAME = "ccexam-mnist"


def convert(folder: Path) -> Path:
    """MNIST as int8; the served model's folder."""
    said = modelyard(
        *("convert", f"zoo:{NAME}", "--to", "tensorrt", "--precision", "int8"),
        *("--serve", "triton", "--no-bench", "--out", folder),
    )
    assert said.code == 0, said.err
    return folder / "serving" / "triton" / NAME


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert(tmp_path_factory.mktemp("deferred") / "first")


def array(version: Path, item: dict[str, object]) -> np.ndarray:  # type: ignore[type-arg]
    """A file of the lock's samples."""
    data = np.fromfile(version / str(item["file"]), str(item["dtype"]))
    return data.reshape(item["shape"])  # type: ignore[call-overload, no-any-return]


def test_the_server_gives_what_the_source_gave(model: Path) -> None:
    version = model / "1"
    lock = json.loads((version / "engine.lock.json").read_text())
    assert lock["samples"]["reference"].startswith("torch ")
    with (
        TritonServer(model.parent) as server,
        client.InferenceServerClient(server.http_url) as asking,
    ):
        for sample in lock["samples"]["items"]:
            ((name, fed),) = sample["feeds"].items()
            ((out, expected),) = sample["expected"].items()
            tensor = client.InferInput(name, fed["shape"], "FP32")
            tensor.set_data_from_numpy(array(version, fed))
            found = asking.infer(NAME, [tensor]).as_numpy(out)
            wanted = array(version, expected)
            cosine = np.vdot(found, wanted) / np.linalg.norm(found) / np.linalg.norm(wanted)
            assert cosine > lock["gates"]["cosine"]


def test_there_is_no_engine_and_the_script_reads_what_was_packaged(model: Path) -> None:
    report = json.loads((model.parents[2] / "report.json").read_text())
    (artifact,) = report["artifacts"]
    assert artifact["details"]["engine"] == "deferred"
    assert not list(model.parents[2].rglob("*.plan"))
    line = [sys.executable, str(model / "1" / "build_engine.py"), "--dry-run"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "compare it with torch" in done.stdout


def test_a_second_run_gives_the_same_folder(model: Path, tmp_path: Path) -> None:
    again = convert(tmp_path / "second")
    for path in (item for item in model.rglob("*") if item.is_file()):
        assert (again / path.relative_to(model)).read_bytes() == path.read_bytes(), path.name
