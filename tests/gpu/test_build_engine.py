"""``build_engine.py`` on a GPU: what it builds is compared with the locked samples, and served."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from emitters.serving.triton.server import validate_folder
from emitters.tensorrt.engine_script.building import build_plan, make_log
from emitters.tensorrt.engine_script.lock import read_lock
from emitters.tensorrt.engine_script.running import Engine, verify
from tests.serving.engines import deferred_version


def test_what_it_builds_verifies(target: str, tmp_path: Path) -> None:
    trt = importlib.import_module(target.replace("-", "_"))
    version = deferred_version(tmp_path, (1, 1, 4), (2, 8, 16))
    lock, log = read_lock(version), make_log(trt, verbose=False)
    plan = build_plan(trt, version / "model.onnx", lock, log=log)
    lines = verify(Engine(trt, plan, log), version, lock)
    assert [line.split(",")[0] for line in lines] == ["profile 0", "profile 1"]


def test_the_script_turns_the_folder_to_its_engine(target: str, tmp_path: Path) -> None:
    if target != "tensorrt":
        pytest.skip("Triton loads engines of TensorRT only, and it isn't here")
    version = deferred_version(tmp_path)
    command = [sys.executable, str(version / "build_engine.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "profile 0, scores: cosine 1.0" in done.stdout
    assert (version / "model.plan").is_file()
    assert validate_folder(version.parent) == []
