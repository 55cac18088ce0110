"""Sounds as samples, and as what a loaded model is asked about; held against the packages' own
code on the same files."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr

import modelyard
from tests.acceptance.cli import typed, written
from zoo import catalogue
from zoo.packages import fetch_package_file

SILERO = ("silero-vad", "6.2.3", "silero_vad/utils_vad.py",
          "15d0f6b3ef9590e22ca2f146e1436f6901da356cb552d3183df4100862b333cb")  # fmt: skip
PITCH = ("basic-pitch", "0.4.0", "basic_pitch/inference.py",
         "b2dd343a318b85ee91c6d660eae2f48d7e39a8678d82575ab606c1c3617a6269")  # fmt: skip


def hummed(seconds: float, rate: int) -> np.ndarray[Any, Any]:
    """A vowel, hummed and still by turns, float32."""
    t = np.arange(int(seconds * rate)) / rate
    voice = sum(np.sin(2 * np.pi * 140 * n * t) / n for n in range(1, 15))
    noise = np.random.default_rng(0).standard_normal(len(t))
    swell = (t % 1 < 0.6) * (0.6 + 0.4 * np.sin(2 * np.pi * 5 * t))
    return (0.2 * voice * swell + 0.003 * noise).astype(np.float32)


def test_silero_takes_a_48_khz_stereo_wav(tmp_path: Path) -> None:
    """The zoo declares it: what is told is what the package's own code says of the sound."""
    import torch

    wave = hummed(3.1, 48000)
    stereo = np.stack([wave, wave * 0.5], 1)
    (tmp_path / "sounds").mkdir()
    soundfile.write(tmp_path / "sounds/a.wav", stereo, 48000, subtype="FLOAT")
    soundfile.write(tmp_path / "sounds/b.flac", wave[:48000], 48000)
    typed("convert zoo:silero-vad-sequence --samples sounds --no-bench --out out", tmp_path)
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["samples"]["origin"] == "2 sounds of sounds/"
    spec = importlib.util.spec_from_file_location("utils_vad", fetch_package_file(*SILERO))
    assert spec and spec.loader
    package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    own = package.OnnxWrapper(str(catalogue.fetch("silero-vad")["model"]))
    mono = soxr.resample(stereo.mean(axis=1), 48000, 16000, quality="HQ")
    right = own.audio_forward(torch.from_numpy(mono), 16000)[0].numpy()
    with modelyard.load(tmp_path / "out") as net:
        told = net(tmp_path / "sounds/a.wav").told["speech"]
    assert told["rate"] == 31.25 and right.max() > 0.3 > right.min()
    np.testing.assert_allclose(told["values"], right, atol=1e-4)


@pytest.mark.slow
def test_basic_pitch_takes_a_song(tmp_path: Path) -> None:
    """Windows, and what is cut off where they overlap, as the package's own functions have it."""
    wave = hummed(3.0, 22050)
    soundfile.write(tmp_path / "song.wav", wave, 22050, subtype="FLOAT")
    typed("convert zoo:basic-pitch-onnx --samples song.wav --no-bench --out out", tmp_path)
    of_package: dict[str, Any] = {"np": np, "AUDIO_N_SAMPLES": 43844, "AUDIO_SAMPLE_RATE": 22050,
                                  "ANNOTATIONS_FPS": 22050 // 256}  # fmt: skip
    code = ast.parse(fetch_package_file(*PITCH).read_text())
    wanted = ("window_audio_file", "unwrap_output")
    for node in code.body:
        if isinstance(node, ast.FunctionDef) and node.name in wanted:
            node.returns, node.decorator_list = None, []
            for argument in node.args.args:
                argument.annotation = None
            exec(compile(ast.Module([node], []), "inference.py", "exec"), of_package)
    padded = np.concatenate([np.zeros(3840, np.float32), wave])
    windows = [window for window, _ in of_package["window_audio_file"](padded, 36164)]
    with modelyard.load(tmp_path / "out") as net:
        answer = net(tmp_path / "song.wav")
        parts = [net(window[np.newaxis]) for window in windows]
    for name in ("note", "onset", "contour"):
        whole = np.concatenate([part[name] for part in parts])
        right = of_package["unwrap_output"](whole, len(wave), 30)
        values = np.array(answer.told[name]["values"])
        assert len(values) == len(right) == 3 * 86
        np.testing.assert_allclose(values, right, atol=1e-5)
    assert np.array(answer.told["note"]["values"]).max() > 0.3
    samples = json.loads((tmp_path / "out/manifest.json").read_text())["samples"]
    assert samples["count"] == 2  # its windows: the batch is free


LEVEL = """g (float[batch, 1, 8] x, float[1] bias) => (float[batch] y) {
    m = ReduceMean<keepdims = 0, axes = [1, 2]>(x) y = Add(m, bias) }"""
RECIPE = """
source: m.onnx
bench: false
samples: sounds
out: out
"""
BIAS = "{kind: constant, input: bias, shape: [1], value: 2}"
DECLARED = f"prepare: [{{kind: sound, rate: 16000, hop: 8}}, {BIAS}]\n"


@pytest.fixture
def sounds(tmp_path: Path) -> Path:
    written(tmp_path / "m.onnx", LEVEL)
    (tmp_path / "sounds/loud").mkdir(parents=True)
    (tmp_path / "sounds/soft").mkdir()
    soundfile.write(tmp_path / "sounds/loud/1.wav", hummed(0.01, 16000), 16000)
    soundfile.write(tmp_path / "sounds/soft/2.wav", hummed(0.01, 16000) / 9, 16000)
    (tmp_path / "sounds/loud/bad.wav").write_bytes(b"RIFF and no more")
    return tmp_path


@pytest.mark.parametrize(("said", "told"), [
    ("", "nothing says how a sound becomes the model's input"),
    ("prepare: {kind: sound, rate: 16000, input: x}", "leaves bias without a value"),
    (DECLARED, "bad.wav can't be read as a sound"),
    (DECLARED + "samples-pattern: '*.png'", "holds no images, no sounds and no .npz"),
])  # fmt: skip
def test_sounds_that_are_no_samples(sounds: Path, said: str, told: str) -> None:
    (sounds / "r.yaml").write_text(RECIPE + said)
    assert told in " ".join(typed("run r.yaml", sounds, code=2).err.split())
    assert not (sounds / "out").exists()


@pytest.mark.parametrize("batch", ["batch", "1"])
def test_a_sound_s_windows_are_samples_with_its_label(sounds: Path, batch: str) -> None:
    """The shape says how long a window is and where its channel stands. A model that takes one
    window at a time is asked about each."""
    written(sounds / "m.onnx", LEVEL.replace("batch", batch))
    labels = "folder" if batch == "batch" else "filename"
    (sounds / "r.yaml").write_text(RECIPE + DECLARED + f"skip-bad: true\nlabels: {labels}\n")
    typed("run r.yaml", sounds)
    manifest = json.loads((sounds / "out/manifest.json").read_text())
    sound, bias = manifest["declared"]["prepare"]
    assert (sound["input"], sound["channel"], sound["length"]) == ("x", "first", 8)
    assert bias["value"] == 2.0 and manifest["samples"]["count"] == 40
    wave, _ = soundfile.read(sounds / "sounds/loud/1.wav", dtype="float32")
    with modelyard.load(sounds / "out") as net:
        found = net(sounds / "sounds/loud/1.wav")["y"]
    np.testing.assert_allclose(found, wave.reshape(-1, 8).mean(axis=1) + 2, atol=1e-6)
