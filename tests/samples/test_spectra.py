"""Spectra against the extractors of transformers, whose models take them."""

from __future__ import annotations

import numpy as np
import pytest

from converter.preparation.answers import Keypoints, Masks
from converter.preparation.inputs import Spectrum
from converter.preparation.staged.base import Seen
from converter.preparation.staged.masks import keypoints, masks, pixel_classes
from converter.preparation.staged.sounds import spectra

RNG = np.random.default_rng(0)
WHISPER = Spectrum(size=400, hop=160, mels=80, high=8000, log="log10", span=8, shift=4, gain=0.25,
                   drop_last=True)  # fmt: skip


def test_whisper_s_spectrum() -> None:
    from transformers import WhisperFeatureExtractor

    wave = RNG.standard_normal(16000).astype(np.float32) / 8
    wave[4000:6000] = 0
    whole = np.zeros((1, 480000), np.float32)
    whole[0, :16000] = wave
    wanted = WhisperFeatureExtractor()(wave, sampling_rate=16000, return_tensors="np")
    found = spectra(WHISPER.model_dump(), whole, 16000)
    np.testing.assert_allclose(found, wanted["input_features"], atol=2e-4)


@pytest.mark.parametrize(("scale", "norm"), [("slaney", True), ("htk", False)])
def test_bands_are_those_of_transformers(scale: str, norm: bool) -> None:
    from transformers.audio_utils import mel_filter_bank, spectrogram, window_function

    wave = RNG.standard_normal(5000)
    bands = mel_filter_bank(257, 40, 20, 7000, 16000, "slaney" if norm else None, scale)
    wanted = spectrogram(wave, window_function(512, "hann"), 512, 128, center=False, power=1.0,
                         mel_filters=bands, log_mel="dB", mel_floor=1e-5)  # fmt: skip
    known = Spectrum(
        size=512,
        hop=128,
        center=False,
        power=1,
        mels=40,
        low=20,
        high=7000,
        scale=scale,
        norm=norm,
        log="db",
        floor=1e-5,
    )  # type: ignore[arg-type]
    found = spectra(known.model_dump(), wave[None].astype(np.float32), 16000)[0]
    amplitude = 2 * found  # theirs is of amplitudes: 20 log10
    np.testing.assert_allclose(amplitude, wanted, atol=2e-3)


def test_points_and_masks_are_the_picture_s_own() -> None:
    """40 x 20 became 32 x 16 in the middle of 32 x 32."""
    feeds = {"x": np.zeros((1, 3, 32, 32), np.float32)}
    seen = Seen((40, 20), (0.8, 0.8), (0, 8), feeds=feeds)
    known = Keypoints(output="y", names=("eye", "ear"), relative=True, order="yx", threshold=0.5)
    found = np.array([[[0.5, 0.25, 0.9], [0.75, 1.0, 0.4]]], np.float32)
    told = keypoints(known.model_dump(), {"y": found}, seen)["keypoints"]
    assert told == [{"name": "eye", "x": 10.0, "y": 10.0, "score": pytest.approx(0.9)}]
    classes = np.zeros((1, 2, 8, 8), np.float32)
    classes[:, 1, :, 4:] = 1  # the right half
    whole = pixel_classes(Masks(output="y").model_dump(), classes, seen)
    assert whole.shape == (20, 40) and whole[:, :20].max() == 0 and whole[:, 20:].min() == 1
    told = masks(Masks(output="y", labels=("sky", "sea")).model_dump(), {"y": classes}, seen)
    assert [(i["label"], i["share"]) for i in told["masks"]["classes"]] == [
        ("sky", 0.5),
        ("sea", 0.5),
    ]
