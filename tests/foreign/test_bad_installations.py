"""Frameworks that hang, crash or fail while they are imported in the user's Python."""

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.acceptance.cli import COMMAND, modelyard
from tests.foreign.environments import claim

ARGS = ("net.py:Net", "--input", "x:batchx3", "--no-bench", "--out", "out")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text("import torch\n")
    for name in ("torch", "onnxscript"):
        claim(tmp_path / "packages", name, "99.0")
    return tmp_path


def torch_is(project: Path, text: str) -> dict[str, str]:
    """Makes importing torch do this; the variables with which it is found."""
    (project / "packages" / "torch.py").write_text(text)
    return {"PYTHONPATH": str(project / "packages"), "MODELYARD_CACHE": str(project / "cache")}


@pytest.mark.parametrize(("text", "code", "message"), [
    ("import ctypes\nctypes.string_at(0)\n", 6, "the PyTorch process was killed by SIGSEGV"),
    ("raise OSError('libcudart.so.99: cannot open shared object file')", 5, "libcudart.so.99"),
], ids=["crash", "error"])  # fmt: skip
def test_an_import_that_fails(project: Path, bare_python: Path, text: str, code: int,
                              message: str) -> None:  # fmt: skip
    env = torch_is(project, text)
    said = modelyard("convert", *ARGS, "--python", bare_python, "--json", cwd=project, env=env)
    assert said.no_traceback().code == code
    assert message in said.json["message"]
    if code == 6:
        assert said.json["message"] == message
        assert any("packages/torch.py" in line for line in said.json["details"])
    else:
        assert said.json["hint"] == f"'{bare_python}' -m pip install --force-reinstall torch"
        assert not (project / "out").exists()


def test_ctrl_c_while_an_import_hangs(project: Path, bare_python: Path) -> None:
    text = "import pathlib, time\npathlib.Path('hanging').touch()\ntime.sleep(100)\n"
    env = {**os.environ, **torch_is(project, text)}
    command = [str(COMMAND), "convert", *ARGS, "--python", str(bare_python)]
    with subprocess.Popen(command, cwd=project, env=env, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not (project / "hanging").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert time.monotonic() - start < 20
    assert b"Traceback" not in err
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive
    assert not [item for item in project.iterdir() if "staging" in item.name]
