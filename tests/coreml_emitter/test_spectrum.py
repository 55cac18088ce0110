"""DFT, STFT, their windows, and MelWeightMatrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.coreml_emitter.running import agree, numbers, parsed, refusals, with_weights


@pytest.mark.parametrize("length", [None, 5, 12])
@pytest.mark.parametrize(
    ("parts", "kind"), [(1, "onesided = 1"), (2, "inverse = 0"), (2, "inverse = 1")]
)
def test_dft(parts: int, length: int | None, kind: str) -> None:
    setting = f", int64 n = {{{length}}}" if length else ""
    call = f"DFT<{kind}>(x, {'n' if length else ''}, axis)"
    model = parsed(f"""g (float[b, 9, c, {parts}] x) => (float[b, k, c, 2] y)
        <int64 axis = {{1}}{setting}> {{ y = {call} }}""")
    agree(model, {"x": numbers(2, 9, 3, parts)}, atol=1e-4)


@pytest.mark.parametrize(("size", "fed"), [("60", True), ("l", True), ("l", False)])
def test_stft(size: str, fed: bool) -> None:
    model = parsed(f"""g (float[b, {size}, 1] x, float[16] w) => (float[b, f, k, 2] y)
        <int64 step = {{7}}> {{ y = STFT<onesided = 1>(x, step, w) }}""")
    window = np.hanning(16).astype(np.float32)
    given = {"w": window} if fed else {}
    model = model if fed else with_weights(model, w=window)
    lengths = (60,) if size == "60" else (60, 61, 16)
    agree(model, [{"x": numbers(2, n, 1), **given} for n in lengths], atol=1e-4)


def test_log_mel_spectrogram(tmp_path: Path) -> None:
    """As preprocessing puts it together: window, frames, powers, bands."""
    model = parsed("""g (float[b, l, 1] x) => (float[b, f, 8] y)
        <int64 size = {16}, int64 step = {8}, int64 bands = {8}, int64 rate = {8000},
         float low = {0}, float high = {4000}, float tiny = {0.001}, int64[1] last = {-1}> {
        w = HannWindow(size)
        s = STFT<onesided = 1>(x, step, w)
        q = ReduceSumSquare<keepdims = 0>(s, last)
        m = MelWeightMatrix(bands, size, rate, low, high)
        e = MatMul(q, m)
        t = Add(e, tiny)
        y = Log(t)
    }""")
    agree(model, {"x": numbers(2, 80, 1)}, tmp_path, atol=1e-4)


def test_a_free_axis_is_refused() -> None:
    model = parsed("""g (float[b, n, 1] x) => (float[b, k, 2] y) <int64 axis = {1}> {
        y = DFT(x, , axis) }""")
    assert "along a free axis" in refusals(model)[0].reason
