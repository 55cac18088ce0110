"""DFT, STFT and Det, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tflite_emitter.running import agree, numbers, parsed, with_weights


@pytest.mark.parametrize("length", [None, 5, 12])
@pytest.mark.parametrize(
    ("parts", "kind"),
    [(1, "onesided = 1"), (1, "inverse = 0"), (2, "inverse = 0"), (2, "inverse = 1")],
)
def test_dft(tmp_path: Path, parts: int, length: int | None, kind: str) -> None:
    setting = f", int64 n = {{{length}}}" if length else ""
    model = parsed(f"""g (float[2, 9, 3, {parts}] x) => (float[2, K, 3, 2] y)
        <int64 axis = {{1}}{setting}> {{ y = DFT<{kind}>(x, {"n" if length else ""}, axis) }}""")
    agree(model, {"x": numbers(2, 9, 3, parts)}, tmp_path, atol=1e-4)


@pytest.mark.parametrize("size", ["60", "L"])
@pytest.mark.parametrize("fed", [True, False])
def test_stft(tmp_path: Path, size: str, fed: bool) -> None:
    model = parsed(f"""g (float[N, {size}, 1] x, float[16] w) => (float[N, F, K, 2] y)
        <int64 step = {{7}}> {{ y = STFT<onesided = 1>(x, step, w) }}""")
    feeds = {"x": numbers(2, 60, 1), "w": np.hanning(16).astype(np.float32)}
    if not fed:
        model = with_weights(model, w=feeds.pop("w"))
    agree(model, feeds, tmp_path, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_determinants(tmp_path: Path, rows: int) -> None:
    model = parsed(f"g (float[N, 2, {rows}, {rows}] x) => (float[N, 2] y) {{ y = Det(x) }}")
    agree(model, {"x": numbers(3, 2, rows, rows)}, tmp_path)
