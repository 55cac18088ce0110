"""``build_engine.py``'s way to the GPU, with stand-ins of driver and library in its own process.

What it calls of the driver's C interface and of TensorRT's is exercised, with their rules; a GPU is
not: on one, this part has not been run yet.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx_ir
import pytest

import tests.tensorrt_session
from converter.ir import Model
from emitters.tensorrt.engine_script.lock import read_lock
from tests.serving.models import classifier
from tests.tensorrt.test_script_parts import deferred_version
from tests.tensorrt_session.conftest import write_plan

STAND_INS = Path(tests.tensorrt_session.__file__).parent
ROOT = STAND_INS.parent.parent

CHILD = """
import sys
from pathlib import Path
import stand_in_library as trt
from emitters.tensorrt.engine_script.lock import read_lock
from emitters.tensorrt.engine_script.refusals import Stopped
from emitters.tensorrt.engine_script.running import Engine, verify

class Log(trt.ILogger):
    kept = []
    def log(self, severity, message):
        self.kept.append(message)

version, plan = map(Path, sys.argv[1:])
try:
    engine = Engine(trt, plan.read_bytes(), Log())
    print(engine.driver.name)
    print("\\n".join(verify(engine, version, read_lock(version))))
except Stopped as refused:
    print("\\n".join(refused.lines()))
    sys.exit(refused.code)
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-in driver, compiled."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to build the stand-in driver with")
    folder = tmp_path_factory.mktemp("driver")
    source, library = str(STAND_INS / "stand_in_driver.c"), str(folder / "libcuda.so.1")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return folder


def run(driver: Path, version: Path, plan: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Loads a plan and verifies it, on the stand-ins."""
    path = os.pathsep.join([str(STAND_INS), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-P", "-c", CHILD, str(version), str(plan)],
        env={**os.environ, "LD_LIBRARY_PATH": str(driver), "PYTHONPATH": path, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def plan_of(model: Model, folder: Path, version: Path) -> Path:
    """The stand-in's plan of a model, with the lock's profiles."""
    return write_plan(folder / "stand-in.plan", model, read_lock(version)["options"]["profiles"])


def test_it_runs_every_profile(driver: Path, tmp_path: Path) -> None:
    version = deferred_version(tmp_path, (1, 1, 4), (2, 8, 16))
    done = run(driver, version, plan_of(classifier(), tmp_path, version))
    assert done.returncode == 0, done.stdout + done.stderr
    name, first, second = done.stdout.splitlines()
    assert name == "stand-in"
    assert first.startswith("profile 0, scores: cosine 1.000000")
    assert second.startswith("profile 1, scores: cosine 1.000000")


def test_another_engine_is_refused(driver: Path, tmp_path: Path) -> None:
    version = deferred_version(tmp_path)
    other = classifier()
    (weight,) = other.graph.graph.initializers.values()
    assert weight.const_value is not None
    weight.const_value = onnx_ir.tensor(-weight.const_value.numpy(), name=weight.name)
    done = run(driver, version, plan_of(other, tmp_path, version))
    assert done.returncode == 4
    assert "profile 0, scores: cosine -1, at least" in done.stdout


def test_what_the_library_does_not_load_is_refused(driver: Path, tmp_path: Path) -> None:
    version = deferred_version(tmp_path)
    (tmp_path / "x.plan").write_bytes(b"none")
    done = run(driver, version, tmp_path / "x.plan")
    assert done.returncode == 3
    assert "magic tag does not match" in done.stdout


@pytest.mark.parametrize(
    ("name", "value", "code", "message"),
    [
        ("STAND_IN_NO_DEVICE", "1", 5, "cuInit gave CUresult 100"),
        ("STAND_IN_MEMORY", "20", 6, "memory is spent: cuMemAlloc_v2"),
    ],
)
def test_a_gpu_that_fails_is_said(
    driver: Path,
    tmp_path: Path,
    name: str,
    value: str,
    code: int,
    message: str,
) -> None:
    version = deferred_version(tmp_path)
    done = run(driver, version, plan_of(classifier(), tmp_path, version), **{name: value})
    assert done.returncode == code, done.stdout + done.stderr
    assert message in done.stdout
