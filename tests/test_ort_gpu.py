"""ONNX Runtime's GPU providers, as far as they can be tried without a GPU."""

import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from converter.errors import DependencyError, MachineError, ModelError
from converter.runtime import ort_gpu
from converter.runtime.ort import OrtSession, _failed, require_providers
from tests.gpu.small import convolution

no_gpu = pytest.mark.skipif(
    shutil.which("nvidia-smi") is not None, reason="for machines without a GPU"
)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing goes into the user's cache."""
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path / "cache"))


def _session() -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    ort_gpu.record_assignment(options)
    model = OrtSession._open  # the same way in as the tool's
    return model(convolution().graph, options, [ort_gpu.CPU])


def test_each_provider_leaves_nodes_to_the_next_and_they_are_counted() -> None:
    chain = [ort_gpu.TENSORRT, ort_gpu.CUDA, ort_gpu.CPU]
    for first, provider in enumerate(chain):
        assert ort_gpu.with_fallbacks([provider]) == chain[first:]
    assert ort_gpu.nodes_by_provider(_session()) == {"CPU": 2}
    runtime = OrtSession(convolution().graph).runtime
    assert "nodes" not in runtime
    assert "tf32" not in runtime


@pytest.mark.parametrize("concurrency", [1, 2])
def test_times_on_bound_memory(concurrency: int) -> None:
    values = {"x": onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((2, 3, 16, 16), np.float32))}
    timing = ort_gpu.time_on_device(_session(), values, ["y"], 4, concurrency, device="cpu")
    assert len(timing.ns) == 4 * concurrency
    assert max(timing.ns) <= timing.total_ns


def test_engines_are_kept_in_our_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path))
    assert ort_gpu.settings(ort_gpu.CUDA) == {"use_tf32": "0"}
    found = ort_gpu.settings(ort_gpu.TENSORRT)
    assert found["trt_engine_cache_path"] == str(tmp_path / "onnxruntime-tensorrt")
    assert (tmp_path / "onnxruntime-tensorrt").is_dir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path / "file"))
    assert ort_gpu.settings(ort_gpu.TENSORRT) == {}


@no_gpu
@pytest.mark.parametrize("provider", ["cuda", "tensorrt"])
def test_a_provider_that_does_not_start(provider: str) -> None:
    with pytest.raises(DependencyError, match="did not start"):
        require_providers([provider])


@no_gpu
def test_a_broken_model_is_not_the_provider_s_fault(tmp_path: Path) -> None:
    broken = tmp_path / "model.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(ModelError, match="refuses the model"):
        OrtSession(broken, providers=["tensorrt"])


def test_spent_memory_is_the_machine_s() -> None:
    arena = RuntimeError("BFCArena: Failed to allocate memory for requested buffer of size 9")
    assert isinstance(_failed(arena), MachineError)
    assert isinstance(_failed(RuntimeError("CUDA failure 2: out of memory")), MachineError)
    assert isinstance(_failed(RuntimeError("Invalid input shape")), ModelError)
