"""The parts of ``build_engine.py`` that need no GPU, and those that do up to the GPU itself."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from converter.check.metrics import Comparer
from converter.files.digest import file_digest
from emitters.serving.triton.config import read_config
from emitters.serving.triton.server import validate_folder
from emitters.tensorrt.emitter import TensorrtRtxEmitter
from emitters.tensorrt.engine_script import switching
from emitters.tensorrt.engine_script.comparing import Tally, decode
from emitters.tensorrt.engine_script.driver import Driver
from emitters.tensorrt.engine_script.lock import find_model, read_lock
from emitters.tensorrt.engine_script.refusals import DEPENDENCY, Stopped
from emitters.tensorrt.libraries import has_gpu
from tests.serving.engines import deferred_version
from tests.serving.models import classifier, make_request

GATES = {"cosine": 0.999, "scale": 0.0447, "max_abs": None}
PLAN = b"ftrt" + bytes(20) + bytes([10, 7, 0, 23]) + bytes(100)
"""Bytes in the place of a plan, for what happens around it."""


# -- comparing ---------------------------------------------------------------------------


def test_it_compares_as_modelyards_own_check_does() -> None:
    rng = np.random.default_rng(3)
    mine, theirs = Tally("y", "float32"), Comparer()
    for number in range(4):
        expected = rng.normal(size=(1, 50)).astype(np.float32)
        found = expected + rng.normal(scale=0.05, size=(1, 50)).astype(np.float32)
        mine.add(expected.tobytes(), found.tobytes())
        theirs.add({"y": expected}, {"y": found}, str(number))
    (output,) = theirs.result().outputs
    assert mine.cosine == pytest.approx(output.cosine, abs=1e-12)
    assert mine.max_error == pytest.approx(output.max_abs, rel=1e-6)
    assert output.norm_ratio is not None
    assert mine.scale == pytest.approx(abs(output.norm_ratio - 1), abs=1e-12)


@pytest.mark.parametrize(("dtype", "values"), [
    (np.float16, [1.5, -2]),
    (np.float64, [1e300, 2]),
    (np.int64, [-5, 2**60]),
    (np.uint8, [0, 255]),
    (np.bool_, [True, False]),
    (ml_dtypes.bfloat16, [1.5, -384.0]),
])  # fmt: skip
def test_every_type_is_read(dtype: Any, values: Sequence[Any]) -> None:
    array = np.array(values, dtype)
    assert list(decode(array.tobytes(), array.dtype.name)) == values


@pytest.mark.parametrize(("found", "message"), [
    ([1.0, 2.0, -3.0], "cosine"),
    ([2.0, 4.0, 6.0], "norm off by 1, at most"),
    ([1.0, float("nan"), 3.0], "1 NaN or Inf"),
    ([1.0, float("inf"), 3.0], "1 NaN or Inf"),
    ([0.0, 0.0, 0.0], "cosine"),
])  # fmt: skip
def test_each_gate_catches(found: Sequence[float], message: str) -> None:
    tally = Tally("y", "float32")
    tally.add(np.array([1, 2, 3], np.float32).tobytes(), np.array(found, np.float32).tobytes())
    assert any(message in text for text in tally.failures(GATES))


def test_what_is_the_same_passes() -> None:
    tally = Tally("y", "float32")
    odd = np.array([1, np.nan, np.inf, 0], np.float32).tobytes()
    tally.add(odd, odd)
    assert tally.failures(GATES) == []
    exact = Tally("n", "int64")
    exact.add(np.arange(10).tobytes(), np.arange(10).tobytes())
    assert exact.failures(GATES) == []
    exact.add(np.arange(10).tobytes(), (np.arange(10) + 1).tobytes())
    assert exact.failures(GATES) == ["n: 10 of 20 equal, at least 99.90%"]


def test_rounding_of_a_known_range_is_excused() -> None:
    expected, found = (np.array(v, np.float32).tobytes() for v in ([1e-9, 0, 1e-9], [0, 1e-9, 0]))
    for limits in ([0.0, 1.0], None):
        tally = Tally("p", "float32", limits)
        tally.add(expected, found)
        assert bool(tally.failures(GATES)) is (limits is None)


@pytest.fixture
def version(tmp_path: Path) -> Path:
    """One of one profile."""
    return deferred_version(tmp_path)


@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
def test_without_a_gpu_the_driver_says_so() -> None:
    with pytest.raises(Stopped) as caught:
        Driver()
    assert caught.value.code == DEPENDENCY


# -- switching ---------------------------------------------------------------------------


def test_the_folder_turns_to_the_engine(version: Path) -> None:
    done = switching.switch(version, PLAN, read_lock(version))
    assert [line.split()[0] for line in done] == ["wrote", "kept", "1/config.engine.pbtxt", "moved"]
    model = version.parent
    assert read_config(model / "config.pbtxt").platform == "tensorrt_plan"
    assert read_config(model / "config.onnxruntime.pbtxt").backend == "onnxruntime"
    assert (version / "model.plan").read_bytes() == PLAN
    assert not (version / "model.onnx").exists()
    assert (model / "onnx" / "1" / "model.onnx").is_file()
    assert validate_folder(model) == []


def test_it_can_be_done_again(version: Path) -> None:
    lock = read_lock(version)
    switching.switch(version, PLAN, lock)
    kept = file_digest(version.parent / "config.onnxruntime.pbtxt")
    assert find_model(version, lock) == version.parent / "onnx" / "1" / "model.onnx"
    switching.require_folder(version, lock, replace=False)
    assert len(switching.switch(version, PLAN + b"2", lock)) == 1
    assert (version / "model.plan").read_bytes() == PLAN + b"2"
    assert file_digest(version.parent / "config.onnxruntime.pbtxt") == kept


@pytest.mark.parametrize("survived", range(4))
def test_a_kill_between_any_two_steps_leaves_a_servable_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survived: int
) -> None:
    version = deferred_version(tmp_path)
    lock = read_lock(version)
    real, count = switching._rename, 0

    def rename(source: Path, target: Path) -> None:
        nonlocal count
        if count == survived:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        real(source, target)

    monkeypatch.setattr(switching, "_rename", rename)
    child = os.fork()
    if child == 0:
        switching.switch(version, PLAN, lock)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    served = read_config(version.parent / "config.pbtxt").backend
    assert served == ("onnxruntime" if survived < 3 else "tensorrt")
    assert validate_folder(version.parent) == []
    monkeypatch.setattr(switching, "_rename", real)
    switching.require_folder(version, lock, replace=False)
    switching.switch(version, PLAN, lock)
    assert read_config(version.parent / "config.pbtxt").backend == "tensorrt"
    assert (version.parent / "onnx" / "1" / "model.onnx").is_file()
    assert validate_folder(version.parent) == []
    assert not [path for path in version.parent.rglob(".*") if path.is_file()]


def test_two_scripts_do_not_work_in_one_folder(version: Path) -> None:
    with switching.alone(version), pytest.raises(Stopped, match="another build_engine"):
        switching.alone(version).__enter__()
    with switching.alone(version):
        pass


def test_a_real_plan_of_rtx_is_kept_out(version: Path, tmp_path: Path) -> None:
    request = make_request(compute_capabilities=["8.6"])
    artifact = TensorrtRtxEmitter().emit(classifier(), tmp_path / "rtx", "fp32", request)
    before = sorted(path.name for path in version.iterdir())
    with pytest.raises(Stopped, match="TensorRT-RTX"):
        switching.switch(version, artifact.path.read_bytes(), read_lock(version))
    assert sorted(path.name for path in version.iterdir()) == before
