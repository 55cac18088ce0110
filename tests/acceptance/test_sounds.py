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
from converter.preparation.answers import Segments
from converter.preparation.staged.base import Seen
from converter.preparation.staged.series import segments
from tests.acceptance.cli import typed, written
from tests.serving.test_files_package import asked
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


def spoken(spans: list[tuple[float, float]], seconds: float, rate: int) -> np.ndarray[Any, Any]:
    """Vowels by turns under a gliding pitch: what Silero VAD takes for speech, in these spans."""
    t = np.arange(int(seconds * rate)) / rate
    pitch = 130 * (1 + 0.15 * np.sin(2 * np.pi * 0.7 * t))
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    vowels = np.array([[730, 1090, 2440], [270, 2290, 3010], [570, 840, 2410]])
    formants = vowels[np.floor(t * 4).astype(int) % 3]
    voice = np.zeros_like(t)
    for n in range(1, 30):
        far = (n * pitch[:, np.newaxis] - formants) / [60, 90, 120]
        voice += (1 / (1 + far**2) @ [1, 0.5, 0.25]) * np.sin(n * phase)
    still = np.abs(np.sin(np.pi * 4 * t)) ** 0.5 * sum((t >= a) & (t < b) for a, b in spans)
    noise = 0.002 * np.random.default_rng(0).standard_normal(len(t))
    return (0.25 * voice * still + noise).astype(np.float32)


def silero() -> Any:
    """The package's own code."""
    spec = importlib.util.spec_from_file_location("utils_vad", fetch_package_file(*SILERO))
    assert spec and spec.loader
    package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


@pytest.mark.parametrize("name", ["silero-vad", "silero-vad-sequence"])
def test_silero_cuts_a_48_khz_stereo_wav_into_speech(tmp_path: Path, name: str) -> None:
    """The zoo declares it: what is told is what the package's own code says of the sound."""
    import torch

    wave = spoken([(0.5, 2.2), (3.0, 4.4)], 5.51, 48000)
    stereo = np.stack([wave, wave * 0.5], 1)
    (tmp_path / "sounds").mkdir()
    soundfile.write(tmp_path / "talk.wav", stereo, 48000, subtype="FLOAT")
    soundfile.write(tmp_path / "sounds/a.wav", stereo[36000:48000], 48000, subtype="FLOAT")
    soundfile.write(tmp_path / "sounds/b.flac", wave[:8000], 48000)
    typed(f"convert zoo:{name} --samples sounds --no-bench --out out", tmp_path)
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["samples"]["origin"] == "2 sounds of sounds/"
    own = silero().OnnxWrapper(str(catalogue.fetch("silero-vad")["model"]))
    mono = soxr.resample(stereo.mean(axis=1), 48000, 16000, quality="HQ")
    right = own.audio_forward(torch.from_numpy(mono), 16000)[0].numpy()
    cut = silero().get_speech_timestamps(torch.from_numpy(mono), own)
    with modelyard.load(tmp_path / "out") as net:
        answer = net(tmp_path / "talk.wav")
    told = answer.told["speech"]
    assert told["rate"] == 31.25 and right.max() > 0.9 > 0.1 > right.min()
    np.testing.assert_allclose(told["values"], right, atol=1e-4)
    times = [(one["start"], one["end"]) for one in answer.segments]
    assert times == [(part["start"] / 16000, part["end"] / 16000) for part in cut]
    np.testing.assert_allclose(times, [(0.5, 2.2), (3.0, 4.4)], atol=0.15)


def test_segments_are_those_of_silero_s_own_function() -> None:
    rng, right = np.random.default_rng(0), silero().get_speech_timestamps_from_probs
    for trial in range(600):
        values = np.clip(np.convolve(rng.random(200), np.ones(9) / 9) * 3 - 1, 0, 1)
        values = rng.random(150) if trial % 3 == 0 else values
        said = {"threshold": (0.5, 0.3, 0.7)[trial % 3], "least": (0.25, 0, 0.333)[trial // 3 % 3],
                "pause": (0.1, 0.0, 0.5)[trial // 9 % 3], "pad": (0.03, 0.0, 0.4)[trial // 27 % 3],
                "longest": (None, 3.0, 1.5)[trial // 81 % 3]}  # fmt: skip
        samples = len(values) * 512 - int(rng.integers(512))
        cut = right(
            values.tolist(), threshold=said["threshold"], audio_length_samples=samples,
            min_speech_duration_ms=said["least"] * 1000, speech_pad_ms=said["pad"] * 1000,
            min_silence_duration_ms=said["pause"] * 1000,
            max_speech_duration_s=said["longest"] or float("inf"),
        )  # fmt: skip
        known = Segments.model_validate({"output": "y", "rate": 31.25, **said}).model_dump()
        found = segments(known, {"y": values[:, np.newaxis]}, Seen(seconds=samples / 16000))
        times = [one[end] for one in found["segments"] for end in ("start", "end")]
        wanted = [part[end] / 16000 for part in cut for end in ("start", "end")]
        assert times == pytest.approx(wanted, abs=2e-4), said


@pytest.mark.slow
def test_basic_pitch_takes_a_song(tmp_path: Path) -> None:
    """Windows, and what is cut off where they overlap, as the package's own functions have it."""
    wave = hummed(3.0, 22050)
    soundfile.write(tmp_path / "song.wav", wave, 22050, subtype="FLOAT")
    served = "--prepare server --serve litserve"
    typed(
        f"convert zoo:basic-pitch-onnx --samples song.wav {served} --no-bench --out out", tmp_path
    )
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
    song = (tmp_path / "song.wav").read_bytes().decode("latin-1")
    [(_, told)] = asked(tmp_path / "out/serving/litserve/basic-pitch-onnx", (song, "audio/wav"))
    for name in ("note", "onset", "contour"):
        whole = np.concatenate([part[name] for part in parts])
        right = of_package["unwrap_output"](whole, len(wave), 30)
        values = np.array(answer.told[name]["values"])
        assert len(values) == len(right) == 3 * 86
        np.testing.assert_allclose(values, right, atol=1e-5)
        np.testing.assert_allclose(told[name]["values"], values, atol=1e-5)
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
    ("", "there is no description of how a sound becomes the model's input"),
    ("prepare: {kind: sound, rate: 16000, input: x}", "gives no value for bias"),
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


STATE = """
g (float[batch, 80] x, float[1, batch, 2] h, float half)
=> (float[batch, 1] y, float[1, batch, 2] n) {
    a = Abs(x) m = ReduceMean<axes = [1]>(a) t = Unsqueeze(m, zero) g = Mul(h, half) n = Add(g, t)
    s = ReduceMean<keepdims = 0, axes = [2]>(n) y = Transpose<perm = [1, 0]>(s) }"""
"""How loud windows are, what came before counting half as much each time."""

LOUD = """
source: m.onnx
bench: false
out: out
prepare:
  - {kind: sound, input: x, rate: 16000, hop: 80}
  - {kind: state, input: h, next: n}
  - {kind: constant, input: half, value: 0.5}
answer:
  - {kind: series, output: y, rate: 200, name: loud}
  - {kind: segments, output: y, rate: 200, threshold: 0.8, least: 0.01, pause: 0.02, pad: 0}
"""


def bursts(rate: int) -> np.ndarray[Any, Any]:
    """Half a second: loud twice."""
    t = np.arange(rate // 2) / rate
    loud = ((t >= 0.1) & (t < 0.2)) | ((t >= 0.35) & (t < 0.4))
    return np.where(loud, np.sin(2 * np.pi * 440 * t), 0).astype(np.float32)


def stateful(folder: Path) -> None:
    written(folder / "m.onnx", STATE, zero=np.array([0]))
    (folder / "sounds").mkdir()
    soundfile.write(folder / "sounds/a.wav", bursts(16000), 16000, subtype="FLOAT")


@pytest.mark.parametrize(("target", "batch"), [("onnx", "dynamic"), ("tflite", "1")])
def test_a_state_goes_from_window_to_window(tmp_path: Path, target: str, batch: str) -> None:
    stateful(tmp_path)
    (tmp_path / "r.yaml").write_text(LOUD + f"to: {target}\nbatch: '{batch}'\nsamples: sounds\n")
    typed("run r.yaml", tmp_path)
    assert "then n of the window before" in (tmp_path / "out/report.html").read_text()
    right, before = [], 0.0
    for window in np.abs(bursts(16000)).reshape(-1, 80).mean(axis=1):
        right.append(before := before / 2 + float(window))
    with modelyard.load(tmp_path / "out") as net:
        answers = net([tmp_path / "sounds/a.wav"] * 2)
    for answer in answers:
        np.testing.assert_allclose(answer.told["loud"]["values"], right, atol=1e-5)
        times = [(one["start"], one["end"]) for one in answer.segments]
        np.testing.assert_allclose(times, [(0.1, 0.2), (0.35, 0.4)], atol=0.01)


@pytest.mark.parametrize(("old", "new", "told"), [
    ("next: n}", "next: z}", "prepare (state): the model has no output z; it has y, n"),
    ("next: n}", "next: n, kind: constant}", "no such key next"),
    ("bench: false", "bench: false\nprecision: int8", "integers need the range of h"),
    ("pad: 0}", "pad: 0, release: 0.9}", "release is the lower threshold"),
    ("pad: 0}", "pad: 0, longest: 0.005}", "longest has no room for a step"),
])  # fmt: skip
def test_a_state_or_segments_that_can_t_be(tmp_path: Path, old: str, new: str, told: str) -> None:
    stateful(tmp_path)
    said = LOUD.replace("kind: state, ", "") if "kind: c" in new else LOUD
    (tmp_path / "r.yaml").write_text(said.replace(old, new) + "samples: sounds\n")
    assert told in " ".join(typed("run r.yaml", tmp_path, code=2).err.split())
    assert not (tmp_path / "out").exists()


JOINED = """
bench: false
out: out
samples: sounds
parts:
  find:
""" + LOUD[LOUD.index("source:") :].replace("bench: false\nout: out\n", "").replace(
    "\n", "\n    "
)  # fmt: skip


def test_each_segment_of_a_sound_is_cut_out_and_asked_about(tmp_path: Path) -> None:
    """As it is in the file: 48 kHz, two channels; the next part takes another rate."""
    stateful(tmp_path)
    wave = np.stack([bursts(48000), bursts(48000)], 1)
    soundfile.write(tmp_path / "sounds/a.wav", wave, 48000, subtype="FLOAT")
    text = "{ a = Abs(x) y = ReduceMax<axes = [1]>(a) }"
    written(tmp_path / "peak.onnx", f"g (float[batch, samples] x) => (float[batch, 1] y) {text}")
    recipe = (
        JOINED.replace("source: m.onnx", "    source: m.onnx", 1).rstrip()
        + """
  peak:
    source: peak.onnx
    dims: {samples: 800}
    prepare: {kind: sound, rate: 8000}
    answer: {kind: numbers, names: [peak]}
flow:
  - find
  - {part: peak, each: find.segments}
"""
    )
    (tmp_path / "r.yaml").write_text(recipe)
    typed("run r.yaml", tmp_path)
    report = json.loads((tmp_path / "out/report.json").read_text())
    for item in report["artifacts"]:
        told = {gate["name"]: gate["why"] for gate in item["gates"]}["flow"]
        assert told.endswith("answers to 1 file are those of the sources") and told[0] != "0"
    with modelyard.load(tmp_path / "out") as flow:
        first, second = flow(tmp_path / "sounds/a.wav")["find"]["segments"]
    assert first["start"] == pytest.approx(0.1, abs=0.01)
    assert second["end"] == pytest.approx(0.4, abs=0.01)
    assert second["peak"]["numbers"]["peak"] == pytest.approx(1, abs=0.1)
