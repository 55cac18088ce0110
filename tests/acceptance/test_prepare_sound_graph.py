"""``--prepare graph`` of sounds: the spectrum is in the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import soundfile
from scipy.special import softmax

import modelyard
from converter.preparation.inputs import Sound, Spectrum
from converter.preparation.sound_graph import put_spectrum
from converter.preparation.staged.sounds import spectra
from converter.runtime.ort import OrtSession
from tests.acceptance.cli import typed, written
from tests.passes.models import text_model

NET = """
g (float[batch, 40, 100] x) => (float[batch, 3] y) {
    f = Flatten(x) z = MatMul(f, w) y = Add(z, b)
}"""
SOUND = """{kind: sound, rate: 16000, length: 16000, hop: 16000, spectrum: {size: 512, hop: 160,
    mels: 40, log: log10, span: 8, shift: 4, gain: 0.25, drop_last: true}}"""
RECIPE = """
source: net.onnx
bench: false
samples: sounds
answer: {kind: classes, labels: [bark, purr, none], activation: softmax}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of spectra, and sounds of a few tones and noise."""
    folder, rng = tmp_path_factory.mktemp("sounds"), np.random.default_rng(0)
    weights = (rng.standard_normal((40 * 100, 3)) / 40).astype(np.float32)
    written(folder / "net.onnx", NET, w=weights, b=np.zeros(3, np.float32))
    (folder / "sounds").mkdir()
    for number in range(8):
        time = np.arange(44100 * (1 + number % 3)) / 44100
        tone = np.sin(2 * np.pi * 200 * 1.6**number * time) * 0.3
        noise = rng.standard_normal((time.size, 2)) * 0.02 * (number % 2)
        soundfile.write(folder / f"sounds/{number}.wav", tone[:, None] + noise, 44100)
    return folder


@pytest.mark.slow
def test_a_wave_s_spectrum_is_in_the_graph(folder: Path) -> None:
    (folder / "plain.yaml").write_text(f"{RECIPE}prepare: {SOUND}\nout: plain\n")
    graph = f"{RECIPE}prepare: [graph, {SOUND}]\nout: graph\n"
    targets = "to: [onnx, tflite, coreml]\nprecision: [fp32, int8]\n"
    (folder / "graph.yaml").write_text(graph + targets)
    typed("run plain.yaml", folder)
    typed("run graph.yaml", folder)
    model = onnx.load(folder / "graph/onnx/fp32/model.onnx")
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [0, 16000]
    files = sorted((folder / "sounds").iterdir())
    with modelyard.load(folder / "plain") as net:
        right = [softmax(answer["y"], axis=1) for answer in net(files)]
    assert len({int(values[0].argmax()) for values in right}) > 1
    for artifact, close in (("onnx:fp32", 1e-4), ("tflite:fp32", 1e-4), ("onnx:int8", 0.03)):
        with modelyard.load(folder / "graph", artifact) as net:
            for answer, known in zip(net(files), right, strict=True):
                np.testing.assert_allclose(answer["y"], known, atol=close)


@pytest.mark.parametrize("known", [
    {"size": 400, "hop": 160, "center": False, "window": "hamming", "power": 1.0},
    {"size": 256, "hop": 100, "mels": 20, "log": "db", "floor": 1e-5, "scale": "htk",
     "norm": False},
    {"size": 512, "hop": 256, "power": 3.0, "frames_first": True, "log": "ln", "low": 50},
], ids=["magnitudes", "htk", "cubes"])  # fmt: skip
@pytest.mark.parametrize("channel", ["", "first", "last"])
def test_operators_give_the_spectrum(known: dict[str, Any], channel: Any) -> None:
    sound = Sound(input="x", rate=8000, length=4000, channel=channel, spectrum=Spectrum(**known))
    assert sound.spectrum is not None
    waves = np.random.default_rng(0).standard_normal((3, 4000)).astype(np.float32)
    wanted = spectra(sound.spectrum.model_dump(), waves, 8000)
    if channel:
        wanted = np.expand_dims(wanted, 1 if channel == "first" else 2)
    dims = ", ".join(map(str, wanted.shape[1:]))
    model = text_model(
        f"g (float[batch, {dims}] x) => (float[batch, {dims}] y) {{ y = Identity(x) }}"
    )
    put_spectrum(model, sound, model.inputs[0])
    (found,) = OrtSession(model.graph).run({"x": waves}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
