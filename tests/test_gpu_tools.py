"""What carries the GPU tests to another machine, and what writes their page."""

import io
import tarfile
from importlib.metadata import Distribution
from pathlib import Path

import numpy as np
import pytest

from bench import gpu, gpu_page
from bench.gpu_install import register
from bench.gpu_models import SUBJECTS, Subject
from bench.gpu_prepare import pack
from converter.runtime.ort import OrtSession
from tests.gpu.small import convolution


def test_parts_are_the_folder(tmp_path: Path) -> None:
    contents = {"wheels/a.whl": bytes(range(256)) * 40, "SHA256SUMS": b"none\n", "cache/e": b""}
    for name, data in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    parts = sorted(pack(tmp_path, [tmp_path / name for name in contents], 4096).iterdir())
    assert [part.name for part in parts[:2]] == ["gpu.tar.000", "gpu.tar.001"]
    assert all(part.stat().st_size == 4096 for part in parts[:-1])
    joined = io.BytesIO(b"".join(part.read_bytes() for part in parts))
    with tarfile.open(fileobj=joined) as archive:
        found = {item.name: archive.extractfile(item).read() for item in archive}  # type: ignore[union-attr]
    assert found == contents


def test_this_checkout_is_registered(tmp_path: Path) -> None:
    register(tmp_path)
    found = Distribution.at(next(tmp_path.glob("modelyard-*.dist-info")))
    assert found.metadata["Name"] == "modelyard"
    names = {item.name for item in found.entry_points if item.group == "modelyard.emitters"}
    assert {"onnx", "tensorrt", "tensorrt-rtx"} <= names
    assert any(needed.startswith("onnx-ir") for needed in found.requires or ())


class _Pictures(Subject):
    def feeds(self, batch: int) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
        return {"x": np.zeros((batch, 3, 16, 16), np.float32)}


def test_what_is_measured_is_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions that really run, one that can't be opened, and one that fails at a batch."""
    monkeypatch.setattr(gpu, "ROUND_SECONDS", 0.01)
    monkeypatch.setattr(gpu, "WARM_SECONDS", 0.01)

    def absent() -> OrtSession:
        raise RuntimeError("no such\ndevice | here")

    def opened() -> OrtSession:
        return OrtSession(convolution().graph)

    eager = gpu.Competitor("PyTorch eager fp32", opened, events=False)
    engines = [("engine fp32, CUDA graph", opened), ("engine int8", absent)]
    all_of_them = [eager, *(gpu.Competitor(*engine) for engine in engines)]
    monkeypatch.setattr(gpu, "competitors", lambda subject: all_of_them)
    monkeypatch.setattr(gpu, "accuracy", lambda subject: [{"artifact": "engine", "error": "none"}])
    found = gpu.measure(_Pictures("A convolution", "zoo:none"))
    assert len(found["figures"]) == 2 * len(gpu.BATCHES)
    assert found["figures"][0]["device_ms"] is None
    assert 0 < found["figures"][1]["device_ms"] <= found["figures"][1]["high_ms"]
    assert found["absent"] == {"engine int8": "no such device | here"}
    text = gpu_page.page({**gpu.machine(), "models": {"none": found}}, {"none": "A convolution"})
    assert "## A convolution" in text
    assert "- Not run: engine int8: no such device / here" in text
    assert "| engine | **none**: none | - |" in text
    assert "not run on a GPU yet" not in text
    found["figures"] = [item for item in found["figures"] if "engine" not in item["competitor"]]
    again = gpu_page.page({**gpu.machine(), "models": {"none": found}}, {"none": "A convolution"})
    assert "## Engines have not run on a GPU yet" in again
    ratio = next(line for line in text.splitlines() if line.startswith("| PyTorch eager fp32"))
    assert "| x1.00 |" in ratio


def test_no_page_is_written_of_nothing() -> None:
    titles = {name: subject.title for name, subject in SUBJECTS.items()}
    with pytest.raises(SystemExit, match="nothing was measured"):
        gpu_page.write({}, titles)


def test_inputs_to_time() -> None:
    for subject in SUBJECTS.values():
        feeds = subject.feeds(3)
        assert all(array.shape[0] == 3 for array in feeds.values())
        again = subject.feeds(3)
        assert all(np.array_equal(feeds[name], again[name]) for name in feeds)
