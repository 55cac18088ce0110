"""One more method of calibration, where nobody named one and the default's artifact misses."""

from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.cli import tree, typed, written

CONVERT = "convert m.onnx --samples s.npz --precision int8 --no-bench"


@pytest.fixture
def peaked(tmp_path: Path) -> Path:
    """A folder with a model and samples, of which one has a peak: so rare that the least squared
    error cuts it off, so high that this sample is another one without it."""
    images = np.random.default_rng(0).standard_normal((16, 1, 256, 256)).astype(np.float32)
    images[3, 0, 100, 100] = 75.0
    np.savez(tmp_path / "s.npz", x=images)
    written(
        tmp_path / "m.onnx",
        "m (float[batch, 1, h, w] x) => (float[batch, 1, h, w] y) { y = Conv(x, w) }",
        w=np.full((1, 1, 1, 1), 0.7, np.float32),
    )
    return tmp_path


def test_minmax_is_taken_where_the_default_misses(peaked: Path) -> None:
    found = typed(f"{CONVERT} --json --out auto", peaked).json["report"]
    (artifact,) = found["artifacts"]
    (line,) = [text for text in artifact["decisions"] if text.startswith("calibrated by ")]
    assert line.startswith("calibrated by minmax; by mse, the default: cosine 0.98")
    assert " (limit 0.99, missed); by minmax: cosine 0.99" in line
    assert f"onnx int8: {line}" in [alert["text"] for alert in found["alerts"]]
    typed(f"{CONVERT} --calibration minmax --out named", peaked)
    assert tree(peaked / "auto" / "onnx") == tree(peaked / "named" / "onnx")


def test_a_method_that_was_named_is_never_replaced(peaked: Path) -> None:
    said = typed(f"{CONVERT} --calibration mse --out out", peaked, code=4)
    assert "cosine: 0.98" in said.err and "minmax" not in said.err


def test_of_two_that_miss_the_closer_stays_and_both_are_told(peaked: Path) -> None:
    said = typed(f"{CONVERT} --max-abs-error 0.001 --out out", peaked, code=4)
    assert "onnx int8: calibrated by minmax; by mse, the default: cosine 0.98" in said.err
    images = np.random.default_rng(1).uniform(-1, 1, (16, 1, 64, 64)).astype(np.float32)
    np.savez(peaked / "s.npz", x=images)  # no method cuts anything off
    said = typed(f"{CONVERT} --max-abs-error 0.0001 --out out", peaked, code=4)
    assert "onnx int8: calibrated by mse; by mse, the default: max-abs-error" in said.err
