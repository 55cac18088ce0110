"""Samples for models of the catalogue whose inputs no package brings: sentences and sounds.

The sounds are made up from a fixed seed, and stand for no recording: they say how close a
converted model is to its source, not how good either is. Runs as ``FILE.py:FUNCTION``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Feeds = dict[str, np.ndarray[Any, Any]]

RATE = 16000
"""Samples a second of the sounds for voice detection."""

_SENTENCES = (
    # Ids of the uncased English BERT vocabulary (30,522 words), [CLS] 101 and [SEP] 102 included.
    # The cat sleeps on the warm roof.
    (101, 1996, 4937, 25126, 2006, 1996, 4010, 4412, 1012, 102),
    # A feline dozes in the sunshine.
    (101, 1037, 10768, 4179, 2079, 11254, 1999, 1996, 9609, 1012, 102),
    # Trains to the coast leave every hour.
    (101, 4499, 2000, 1996, 3023, 2681, 2296, 3178, 1012, 102),
    # How long does the bread have to bake?
    (101, 2129, 2146, 2515, 1996, 7852, 2031, 2000, 8670, 3489, 1029, 102),
    # Yes.
    (101, 2748, 1012, 102),
    # Water boils at a lower temperature high in the mountains.
    (101, 2300, 26077, 2015, 2012, 1037, 2896, 4860, 2152, 1999, 1996, 4020, 1012, 102),
    # She plays the violin better than her teacher ever did.
    (101, 2016, 3248, 1996, 6710, 2488, 2084, 2014, 3836, 2412, 2106, 1012, 102),
)

_PADDED = 16


def sentences() -> Iterator[Feeds]:
    """Seven sentences as they are, and the first padded to 16 tokens.

    ``input_ids``, ``attention_mask``, ``token_type_ids``: int64 (1, tokens).
    """
    for ids in _SENTENCES:
        yield _tokens(ids, len(ids))
    yield _tokens(_SENTENCES[0], _PADDED)


def fixed_sentences() -> Iterator[Feeds]:
    """The sentences, each padded to 16 tokens."""
    for ids in _SENTENCES:
        yield _tokens(ids, _PADDED)


def _tokens(ids: tuple[int, ...], length: int) -> Feeds:
    padding = length - len(ids)
    return {
        "input_ids": np.array([[*ids, *[0] * padding]], np.int64),
        "attention_mask": np.array([[1] * len(ids) + [0] * padding], np.int64),
        "token_type_ids": np.zeros((1, length), np.int64),
    }


def voice() -> Iterator[Feeds]:
    """Eight pieces of sound for silero-vad, 64 samples of context and 512 new ones at 16 kHz.

    ``input`` float32 (1, 576), ``state`` float32 zeros (2, 1, 128), ``sr`` int64 scalar.
    """
    for piece in _pieces():
        yield {"input": piece, "state": _zeros(2, 1, 128), "sr": np.array(RATE, np.int64)}


def voice_16k() -> Iterator[Feeds]:
    """As :func:`voice`, for the models that know one rate only and take no ``sr``."""
    for piece in _pieces():
        yield {"input": piece, "state": _zeros(2, 1, 128)}


def voice_stretch() -> Iterator[Feeds]:
    """Stretches of two and of six pieces: ``input`` (pieces, 576), ``h`` and ``c`` (1, 1, 128)."""
    pieces = list(_pieces())
    for stretch in (pieces[:2], pieces[2:]):
        yield {"input": np.concatenate(stretch), "h": _zeros(1, 1, 128), "c": _zeros(1, 1, 128)}


def _pieces() -> Iterator[np.ndarray[Any, Any]]:
    """Silence, noise, and hummed vowels: harmonics of a pitch under a slow swell."""
    generator = np.random.default_rng(0)
    seconds = np.arange(576) / RATE
    yield _zeros(1, 576)
    yield (generator.standard_normal((1, 576)) * 0.02).astype(np.float32)
    for pitch in (95.0, 120.0, 150.0, 190.0, 230.0, 280.0):
        harmonics = np.arange(1, 20)
        strength = 1 / harmonics * (1 + 2 * np.exp(-(((harmonics * pitch - 700) / 250) ** 2)))
        waves = np.sin(2 * np.pi * pitch * np.outer(harmonics, seconds) + harmonics[:, None])
        sound = strength @ waves * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * seconds))
        noisy = 0.15 * sound + 0.002 * generator.standard_normal(576)
        yield noisy.astype(np.float32)[None]


def notes() -> Iterator[np.ndarray[Any, Any]]:
    """Four windows for basic-pitch, float32 (1, 43844, 1) at 22,050 Hz: a quiet room, a note, a
    chord, a rising scale, all with a recording's floor of noise."""
    generator = np.random.default_rng(0)
    count, rate = 43844, 22050
    seconds = np.arange(count) / rate
    scale = 220.0 * 2 ** (np.floor(seconds * 4) / 12)
    chord = sum(_string(np.full(count, pitch), seconds) for pitch in (261.63, 329.63, 392.0))
    for sound in (
        np.zeros(count),
        _string(np.full(count, 440.0), seconds),
        np.asarray(chord) / 3,
        _string(scale, seconds),
    ):
        noisy = sound + 0.001 * generator.standard_normal(count)
        yield noisy.astype(np.float32).reshape(1, count, 1)


def _string(pitch: np.ndarray[Any, Any], seconds: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A plucked string: harmonics that fade, the high ones sooner; struck twice a second."""
    phase = np.cumsum(pitch) * 2 * np.pi * (seconds[1] - seconds[0])
    since = seconds % 0.5
    waves = [np.sin(n * phase) / n * np.exp(-3 * n * since) for n in range(1, 7)]
    total: np.ndarray[Any, Any] = np.sum(waves, axis=0)
    return 0.4 * total


def _zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)
