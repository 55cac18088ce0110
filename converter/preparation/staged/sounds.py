"""Sounds, as a model's inputs."""

from __future__ import annotations

import math
import re
from io import BytesIO
from typing import Any

import numpy as np

from converter.preparation.staged.base import Array, Known, StageError, library_of, one_line

ENCODED = ("WAV PCM_16", "WAV PCM_24", "WAV FLOAT", "FLAC PCM_16")
"""What a model that decodes sounds itself reads as libsndfile does."""

MOST_RATE = 96_000
"""Values a second, all channels together, of the longest sound that is taken."""


def read_sound(
    known: Known, data: Any, name: str, longest: float | None = None
) -> tuple[Array, float]:
    """A sound as float32, one channel at the model's rate, and its seconds.

    Args:
        known: How it is prepared.
        data: A file's bytes or path (WAV, FLAC, OGG, MP3: what libsndfile reads).
        name: What messages call it.
        longest: Seconds that it may have.

    Raises:
        StageError: It can't be read, is empty, or too long.
    """
    soxr = library_of("soxr")
    wave, rate = decoded(data, name, longest)
    mono = wave.mean(axis=1, dtype=np.float32)
    if rate != known["rate"]:
        mono = soxr.resample(mono, rate, known["rate"], quality="HQ")
    if known["normalize"]:  # as Wav2Vec2's feature extractor does
        mono = (mono - mono.mean()) / np.sqrt(mono.var() + 1e-7)
    return np.ascontiguousarray(mono, np.float32), len(wave) / rate


def decoded(data: Any, name: str, longest: float | None = None) -> tuple[Array, int]:
    """A sound as it is; errors are those of :func:`read_sound`.

    Args:
        data: A file's bytes or path.
        name: What messages call it.
        longest: Seconds that it may have; None for any length.

    Returns:
        float32 [samples, channels], and samples a second.
    """
    soundfile = library_of("soundfile")
    try:
        with soundfile.SoundFile(BytesIO(data) if isinstance(data, bytes) else data) as file:
            seconds = file.frames / file.samplerate
            if longest is not None and seconds > longest:
                raise StageError(
                    f"{name} is {seconds:,.0f} seconds long; the limit is {longest:,.0f}",
                    "Cut it first.",
                    413,
                )
            _check_sound(file, name, longest)
            wave = file.read(dtype="float32", always_2d=True)
            if len(wave) < file.frames and file.format != "MP3":  # whose length is a guess
                raise StageError(f"{name} is cut short", "Send all of it.")
    except (soundfile.SoundFileError, TypeError, OSError, ZeroDivisionError) as error:
        raise StageError(f"{name} can't be read as a sound: {one_line(error)}") from error
    if not len(wave):
        raise StageError(f"{name} holds no sound")
    return wave, file.samplerate


def encoded_sound(
    known: Known, data: Any, name: str, longest: float | None = None
) -> tuple[Array, float]:
    """A file's own bytes, for a model that decodes WAV and FLAC itself, at its own rate.

    Args:
        known: How it is prepared: the model's rate.
        data: A file's bytes or path.
        name: What messages call it.
        longest: Seconds that it may have; None for any length.

    Returns:
        uint8 [bytes], and the sound's seconds.

    Raises:
        StageError: As :func:`read_sound`; or it is of another format or rate.
    """
    data = data if isinstance(data, bytes) else data.read_bytes()
    wave, rate = decoded(data, name, longest)
    with library_of("soundfile").SoundFile(BytesIO(data)) as file:
        form, channels = f"{file.format} {file.subtype}", file.channels
    if form not in ENCODED or channels > 2:
        raise StageError(
            f"{name} is {form} of {channels} channels, and the model decodes "
            f"{', '.join(ENCODED)} of at most 2",
            "Save it as one of those.",
        )
    if rate != known["rate"]:
        raise StageError(
            f"{name} has {rate} samples a second, and the model only decodes {known['rate']}",
            "Resample it first, or convert without --ort-extensions.",
        )
    return np.frombuffer(data, np.uint8), len(wave) / rate


def as_wave(wave: Array, rate: int) -> bytes:
    """Samples, [samples, channels], as a WAV file of float32."""
    file = BytesIO()
    library_of("soundfile").write(file, wave, rate, format="WAV", subtype="FLOAT")
    return file.getvalue()


def _check_sound(file: Any, name: str, longest: float | None) -> None:
    """Refuses a sound of more values than so many seconds have, and a WAV file whose header tells
    of more than there is: libsndfile reads what it finds. Pipes write headers that don't know."""
    if longest is not None and file.frames * file.channels > longest * MOST_RATE:
        raise StageError(
            f"{name} holds {file.frames * file.channels:,} values in {file.channels} "
            f"channels; the limit is {longest * MOST_RATE:,.0f}", "Cut it first.", 413,
        )  # fmt: skip
    said = re.search(r"^data : (\d+) \(should be (\d+)\)", file.extra_info, re.MULTILINE)
    told, there = map(int, said.groups()) if said else (0, 0)
    if told > there and not any(end - 0x1000 <= told <= end for end in (2**31 - 1, 2**32 - 1)):
        raise StageError(
            f"{name} is cut short: its header says {told:,} bytes, and {there:,} are there",
            "Send all of it.",
        )


def framed(known: Known, wave: Array) -> Array:
    """A sound as the model takes it: [windows, length], or [1, samples] without windows.

    Windows start ``before`` samples of silence early, follow one another by ``hop``, and go on
    until ``after`` samples of silence behind the sound are in one.
    """
    length, hop = known["length"], known["hop"]
    if length is None:
        return wave[np.newaxis]
    if hop is None:  # one window: cut, or filled up
        wave = wave[:length]
        return np.pad(wave, (0, length - len(wave)))[np.newaxis]
    total = known["before"] + len(wave) + known["after"]
    count = max(1, math.ceil((total - (length - hop)) / hop))
    whole = np.zeros((count - 1) * hop + length, wave.dtype)
    part = wave[: len(whole) - known["before"]]
    whole[known["before"] : known["before"] + len(part)] = part
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(whole, length)[::hop])


def spectra(known: Known, windows: Array, rate: int) -> Array:
    """Each window's spectrum.

    The formulas are librosa's (``stft``, ``filters.mel``), as its documentation has them.

    Args:
        known: The declared spectrum: ``size`` and ``hop`` in samples, mel bands, logarithm.
        windows: float32 [windows, samples].
        rate: Samples a second.

    Returns:
        float32 [windows, bins, frames]; with ``frames_first``, [windows, frames, bins].

    Raises:
        StageError: A window is too short for a frame.
    """
    size, hop = known["size"], known["hop"]
    if known["center"]:
        if windows.shape[1] <= size // 2:
            raise StageError(f"a sound of {windows.shape[1]} samples is shorter than half a frame")
        windows = np.pad(windows, ((0, 0), (size // 2, size // 2)), mode="reflect")
    if windows.shape[1] < size:
        raise StageError(f"a sound of {windows.shape[1]} samples is shorter than a frame")
    frames = np.lib.stride_tricks.sliding_window_view(windows, size, axis=1)[:, ::hop]
    shaped = frames.astype(np.float64) * frame_window(known)
    found = np.abs(np.fft.rfft(shaped, axis=-1)) ** known["power"]
    if known["drop_last"]:
        found = found[:, :-1]
    if known["mels"] is not None:
        found = found @ mel_bands(known, rate).T
    if known["log"]:
        found = np.log(np.maximum(found, known["floor"])) * LOGS[known["log"]]
    if known["span"] is not None:
        found = np.maximum(found, found.max(axis=(1, 2), keepdims=True) - known["span"])
    found = (found + known["shift"]) * known["gain"]
    return np.asarray(found if known["frames_first"] else found.swapaxes(1, 2), np.float32)


def frame_window(known: Known) -> Array:
    """What a frame's samples are multiplied with."""
    turns = 2 * np.pi * np.arange(known["size"]) / known["size"]
    middle = {"hann": 0.5, "hamming": 0.54, "ones": 1.0}[known["window"]]
    return np.asarray(middle - (1 - middle) * np.cos(turns))


LOGS = {"ln": 1.0, "log10": 1 / math.log(10), "db": 10 / math.log(10)}
"""What a natural logarithm is times, by the names of others."""


def mel_bands(known: Known, rate: int) -> Array:
    """What each bin counts in each band: triangles, [bands, bins]."""
    high = rate / 2 if known["high"] is None else known["high"]
    low, top = (float(_mel(np.array(hz), known["scale"])) for hz in (known["low"], high))
    places = _hertz(np.linspace(low, top, known["mels"] + 2), known["scale"])
    bins = np.linspace(0, rate / 2, known["size"] // 2 + 1)
    rising = (bins - places[:-2, np.newaxis]) / np.diff(places)[:-1, np.newaxis]
    falling = (places[2:, np.newaxis] - bins) / np.diff(places)[1:, np.newaxis]
    bands = np.maximum(0, np.minimum(rising, falling))
    if known["norm"]:
        bands *= (2 / (places[2:] - places[:-2]))[:, np.newaxis]
    return np.asarray(bands)


def _mel(hertz: Array, scale: str) -> Array:
    if scale == "htk":
        return np.asarray(2595 * np.log10(1 + hertz / 700))
    above = 15 + np.log(np.maximum(hertz, 1e-9) / 1000) * 27 / math.log(6.4)
    return np.where(hertz < 1000, hertz * 3 / 200, above)


def _hertz(mel: Array, scale: str) -> Array:
    if scale == "htk":
        return np.asarray(700 * (10 ** (mel / 2595) - 1))
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * math.log(6.4) / 27))
