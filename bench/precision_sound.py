"""Sounds for ``bench.precision``, made from fixed seeds: speech-like streams, and music.

They stand for no recording. What they have of one is what precision depends on: loud and quiet
stretches, harmonics over a floor of noise, and for a stream a state that goes from frame to frame.
Sets that are judged have other seeds than those that models are calibrated on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from converter.runtime.ort import OrtSession
from zoo.packages import fetch_package_file

Array = np.ndarray[Any, Any]

RATES = {16000: (512, 64), 8000: (256, 32)}
"""Silero's frames by samples a second: new samples, and those kept from the frame before."""

_SILERO = (
    "silero-vad",
    "6.2.3",
    "silero_vad/data/silero_vad.onnx",
    "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
)

_WINDOW, _MUSIC_RATE = 43844, 22050


# -- speech ------------------------------------------------------------------------------


def calibration_speech(folder: Path, rates: tuple[int, ...] = (16000, 8000)) -> Path:
    """Frames of 2 streams at each rate, with silero's state."""
    return _frames(folder / "calibration-speech", (1, 2), rates)


def judged_speech(folder: Path, rates: tuple[int, ...] = (16000, 8000)) -> Path:
    """Frames of 2 other streams at each rate, and a silent one."""
    return _frames(folder / "judged-speech", (101, 102), rates)


def speech(rate: int, seconds: float, seed: int) -> Array:
    """A stream like speech: vowels of three formants over a gliding pitch, hisses and pauses, in a
    room's noise.

    Args:
        rate: Samples a second.
        seconds: How long it is.
        seed: What it is made from.

    Returns:
        [samples], float32, between -1 and 1.
    """
    rng = np.random.default_rng(seed)
    sound = np.zeros(int(rate * seconds))
    start = 0
    while start < sound.size:
        length = int(rate * rng.uniform(0.12, 0.35))
        part = sound[start : start + length]
        swell = np.sqrt(np.sin(np.pi * (np.arange(part.size) + 0.5) / length))
        kind = rng.random()
        if kind < 0.65:
            part += swell * rng.uniform(0.05, 0.3) * _vowel(part.size, rate, rng)
        elif kind < 0.85:
            part += swell * rng.uniform(0.01, 0.06) * np.diff(rng.standard_normal(part.size + 1))
        start += length + int(rate * (rng.uniform(0.0, 0.6) if rng.random() < 0.3 else 0.0))
    room = rng.uniform(0.0005, 0.01) * rng.standard_normal(sound.size)
    return np.clip(sound + room, -1, 1).astype(np.float32)


def _vowel(count: int, rate: int, rng: np.random.Generator) -> Array:
    glide = 1 + 0.1 * np.sin(2 * np.pi * rng.uniform(2, 5) * np.arange(count) / rate)
    pitch = rng.uniform(90, 260)
    phase = 2 * np.pi * np.cumsum(pitch * glide) / rate
    formants = ((300, 800, 90, 1.0), (900, 2200, 130, 0.5), (2300, 3200, 200, 0.25))
    peaks = [(rng.uniform(low, high), width, height) for low, high, width, height in formants]
    sound = np.zeros(count)
    for number in range(1, min(40, int(rate / 2.2 / pitch))):
        near = [h * np.exp(-0.5 * ((number * pitch - at) / w) ** 2) for at, w, h in peaks]
        wave = np.sin(number * phase + rng.uniform(0, 2 * np.pi))
        sound += (sum(near) + 0.02) / np.sqrt(number) * wave
    return sound


def stream(rate: int, sound: Array, session: OrtSession) -> Iterator[dict[str, Array]]:
    """Silero's inputs frame by frame, the state as the model leaves it.

    Args:
        rate: 16000 or 8000.
        sound: float32 (samples,).
        session: The float model, with ``input``, ``state`` and ``sr``.
    """
    new, kept = RATES[rate]
    state, before = np.zeros((2, 1, 128), np.float32), np.zeros(kept, np.float32)
    for start in range(0, sound.size - new + 1, new):
        frame = np.concatenate([before, sound[start : start + new]])
        feeds = {"input": frame[None], "state": state, "sr": np.array(rate, np.int64)}
        yield feeds
        state, before = session.run(feeds)["stateN"], frame[-kept:]


def _frames(folder: Path, seeds: tuple[int, ...], rates: tuple[int, ...]) -> Path:
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    session = OrtSession(fetch_package_file(*_SILERO))
    for rate in rates:
        for seed in seeds:
            for number, feeds in enumerate(stream(rate, speech(rate, 2.0, seed), session)):
                np.savez(folder / f"{rate}-{seed:03}-{number:03}.npz", **feeds)
    session.close()
    return folder


# -- music -------------------------------------------------------------------------------


def calibration_music(folder: Path) -> Path:
    """8 windows of music for basic-pitch."""
    return _windows(folder / "calibration-music.npz", range(8))


def judged_music(folder: Path) -> Path:
    """6 other windows."""
    return _windows(folder / "judged-music.npz", range(100, 106))


def music(seed: int) -> Array:
    """Float32 (43844, 1) at 22,050 Hz: notes of several voices, each with harmonics that fade, the
    high ones sooner, over a recording's floor of noise."""
    rng = np.random.default_rng(seed)
    seconds = np.arange(_WINDOW) / _MUSIC_RATE
    sound = np.zeros(_WINDOW)
    for _ in range(int(rng.integers(3, 9))):
        start, pitch = rng.uniform(0, 1.8), 55.0 * 2 ** (rng.integers(0, 48) / 12)
        since = np.maximum(seconds - start, 0)
        attack = np.minimum(since / 0.01, 1)
        for number in range(1, 9):
            if number * pitch < _MUSIC_RATE / 2.2:
                fade = np.exp(-rng.uniform(1, 3) * number * since)
                sound += (
                    attack
                    * fade
                    * rng.uniform(0.3, 1)
                    / number
                    * np.sin(2 * np.pi * number * pitch * seconds + rng.uniform(0, 2 * np.pi))
                )
    sound *= rng.uniform(0.1, 0.6) / max(float(np.abs(sound).max()), 1e-9)
    floor = rng.uniform(0.0005, 0.003) * rng.standard_normal(_WINDOW)
    return (sound + floor).astype(np.float32)[:, None]


def _windows(path: Path, seeds: range) -> Path:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, input_2=np.stack([music(seed) for seed in seeds]))
    return path
