"""A Core ML package's test on a Mac, with a stand-in for Core ML that computes what was read back
from the package. Core ML itself has not run it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from modelyard.containers.coreml import coremltools
from tests.acceptance.cli import command, written
from tests.coreml_emitter.test_mac import StandIn
from tests.tflite_emitter.running import module_of

pytestmark = pytest.mark.slow

NET = """g (float[batch,3,6,6] image, int64[batch] n, float scale) =>
    (float[batch,3] y, int64[batch] m, float total) <int64[2] shape = {-1, 3}> {
    p = GlobalAveragePool (image) q = Reshape (p, shape) y = Mul (q, scale) m = Add (n, n)
    total = ReduceSum <keepdims = 0> (y) }"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output with a package whose inputs Core ML has otherwise: integers of 64 bits, and a
    scalar."""
    folder = tmp_path_factory.mktemp("coreml")
    written(folder / "net.onnx", NET, 20)
    rng = np.random.default_rng(0)
    for number in range(3):
        np.savez(
            folder / f"s{number}.npz",
            image=rng.standard_normal((1, 3, 6, 6)).astype(np.float32),
            n=rng.integers(0, 9, 1),
            scale=np.float32(2 + number),
        )
    (folder / "samples").mkdir()
    for path in folder.glob("s*.npz"):
        path.rename(folder / "samples" / path.name)
    command("convert", "net.onnx", "--to", "coreml", "--samples", "samples", "--no-bench", "--out",
            "out", cwd=folder, code=0)  # fmt: skip
    return folder / "out"


@pytest.fixture
def selftest(out: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Runs the package's test as on a Mac."""
    module = module_of(out / "coreml/fp32/selftest.py")
    library = coremltools()

    def run() -> int:
        with monkeypatch.context() as mac:
            mac.setattr(sys, "platform", "darwin")
            mac.setattr(library.models, "MLModel", StandIn)
            code: int = module.main(module.Runner(), [])
        return code

    return run


def test_the_result_lies_beside_the_report(out: Path, selftest: Callable[[], int]) -> None:
    assert selftest() == 0
    result = out / "selftest-coreml-fp32.json"
    said = json.loads(result.read_text())
    assert said["ok"] and said["samples"] == 3 and said["misses"] == []
    assert said["runtime"]["name"] == "Core ML" and said["gates"]["cosine"] == 0.9999
    assert str(StandIn.seen).endswith("ALL")
    command("convert", "net.onnx", "--to", "coreml", "--samples", "samples", "--no-bench", "--out",
            "out", "--overwrite", cwd=out.parent, code=0)  # fmt: skip
    assert not result.exists()  # it was taken for ours


def test_what_is_off_is_missed(out: Path, selftest: Callable[[], int]) -> None:
    (path,) = (out / "coreml/fp32/expected").glob("sample2-*-m.npy")
    kept = path.read_bytes()
    np.save(path, np.load(path) + 1)
    try:
        assert selftest() == 1
        said = json.loads((out / "selftest-coreml-fp32.json").read_text())
        assert not said["ok"] and "m: 2 of 3 values equal" in said["misses"][0]
    finally:
        path.write_bytes(kept)
