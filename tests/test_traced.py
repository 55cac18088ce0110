"""Files that came by TorchScript: when they are refused, and what can't be judged."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from converter.errors import UnsupportedError
from parsers.pytorch.traced import require_same

HEAD = '<ir_version: 9, opset_import: ["" : 20]>'
BEST = "g (float[24] x) => (float[4] scores, int64[4] labels) <int64[1] k = {4}> {"
BEST += " scores, labels = TopK (x, k) }"
ABS = "g (float[24] x) => (float[24] y) { y = Abs (x) }"


def tried(folder: Path, x: np.ndarray, text: str = BEST, **outputs: Any) -> int:
    """How many inputs tell that the file of a text gives what the model itself gave of ``x``."""
    onnx.save(onnx.parser.parse_model(f"{HEAD} {text}"), folder / "net.onnx")
    np.savez(folder / "feeds.npz", x=x)
    np.savez(folder / "outputs.npz", **outputs)
    probe = {side: str(folder / f"{side}.npz") for side in ("feeds", "outputs")}
    return require_same(folder / "net.onnx", [{"what": "it", **probe}], lambda feeds, seed: outputs)


def best(folder: Path, x: np.ndarray, labels: list[int]) -> int:
    """The best four of ``x``, of which the model itself took those at ``labels``."""
    return tried(folder, x, scores=x[labels], labels=np.array(labels))


def test_which_of_equal_scores_are_the_best_is_not_judged(tmp_path: Path) -> None:
    x = np.ones(24, np.float32)
    assert best(tmp_path, x, [0, 1, 2, 3]) == 1
    with pytest.raises(UnsupportedError, match="none of 1 inputs can show it"):
        best(tmp_path, x, [23, 22, 21, 20])


def test_numbers_are_the_same_to_a_thousandth(tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 24, dtype=np.float32)
    assert tried(tmp_path, x, ABS, y=np.abs(x) + np.float32(5e-4)) == 1
    with pytest.raises(UnsupportedError, match="doesn't compute the same as the model for it"):
        tried(tmp_path, x, ABS, y=np.abs(x) + np.float32(5e-3))


def test_other_rows_of_other_scores_are_refused(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 24, dtype=np.float32)
    assert best(tmp_path, x, [23, 22, 21, 20]) == 1
    with pytest.raises(UnsupportedError, match="doesn't compute the same as the model for it"):
        best(tmp_path, x, [0, 1, 2, 3])
    with pytest.raises(UnsupportedError):
        best(tmp_path, np.r_[np.ones(4), np.zeros(20)].astype(np.float32), [4, 5, 6, 7])
