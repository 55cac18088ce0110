"""``build_engine.py``'s way to the GPU, with stand-ins of driver and library in its own process.

What it calls of the driver's C interface and of TensorRT's is exercised, with their rules; a GPU is
not: on one, this part has not been run yet.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests.tensorrt_session
from converter.ir.model import Model
from emitters.tensorrt.engine_script.lock import read_lock
from tests.serving.engines import deferred_version, pack
from tests.serving.models import classifier, text_model
from tests.tensorrt.test_engine_script import change_lock
from tests.tensorrt_session.conftest import driver, write_plan  # noqa: F401 - a fixture

STAND_INS = Path(tests.tensorrt_session.__file__).parent

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


EXPAND = "g (float[1] x, int64[1] s) => (float[n] y) { y = Expand(x, s) }"

Run = Callable[..., str]


@pytest.fixture
def run(driver: Path, tmp_path: Path) -> Run:  # noqa: F811
    """Loads a plan, by default the classifier's with the lock's profiles, and verifies it on the
    stand-ins; gives what is said."""

    def running(version: Path, model: Model | bytes | None = None, code: int = 0,
                **env: str) -> str:  # fmt: skip
        plan = tmp_path / "stand-in.plan"
        if isinstance(model, bytes):
            plan.write_bytes(model)
        else:
            write_plan(plan, model or classifier(), read_lock(version)["options"]["profiles"])
        path = os.pathsep.join([str(STAND_INS), str(STAND_INS.parent.parent)])
        done = subprocess.run(
            [sys.executable, "-P", "-c", CHILD, str(version), str(plan)],
            env={**os.environ, "LD_LIBRARY_PATH": str(driver), "PYTHONPATH": path, **env},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return running


def test_it_runs_every_profile(run: Run, tmp_path: Path) -> None:
    name, first, second = run(deferred_version(tmp_path, (1, 1, 4), (2, 8, 16))).splitlines()
    assert name == "stand-in"
    assert first.startswith("profile 0, scores: cosine 1.000000")
    assert second.startswith("profile 1, scores: cosine 1.000000")


@pytest.mark.parametrize(("model", "code", "env", "says"), [
    (classifier(sign=-1), 4, {}, "profile 0, scores: cosine -1, at least"),
    (classifier(5), 4, {}, "scores: shape [-1, 5], locked as ['batch', 4]"),
    (b"none", 3, {}, "magic tag does not match"),
    (None, 5, {"STAND_IN_NO_DEVICE": "1"}, "cuInit gave CUresult 100"),
    (None, 6, {"STAND_IN_MEMORY": "20"}, "memory is full: cuMemAlloc_v2"),
], ids=["weights", "interface", "plan", "device", "memory"])  # fmt: skip
def test_what_fails_is_said(run: Run, tmp_path: Path, model: Any, code: int, env: dict[str, str],
                            says: str) -> None:  # fmt: skip
    assert says in run(deferred_version(tmp_path), model, code, **env)


def test_what_decides_shapes_is_read_on_the_host(run: Run, tmp_path: Path) -> None:
    model = text_model(EXPAND)
    version = pack(tmp_path, model, values={"s": ([1], [3], [5])}).path / "1"
    assert "profile 0, y: cosine 1.000000" in run(version, model)


def test_samples_that_fit_no_profile_or_were_changed(run: Run, tmp_path: Path) -> None:
    version = deferred_version(tmp_path, (1, 1, 4))
    options = read_lock(version)["options"]
    fits, other = options["profiles"][0], {"x": [[1, 7]] * 3}
    change_lock(version, options={**options, "profiles": [fits, other]})
    *_, last = run(version).splitlines()
    assert last == "profile 1: NOT VERIFIED, no locked sample has its shapes"
    change_lock(version, options={**options, "profiles": [other]})
    assert "no locked sample fits a profile" in run(version, code=4)
    change_lock(version, options=options)
    (version / "samples" / "0-out0.bin").write_bytes(bytes(16))
    assert "not the file that was locked" in run(version, code=2)
