"""Real models: files that packages ship, emitted again, and beside ours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter import api
from converter.check.gates import JUDGED
from converter.ir import Model
from converter.ort import OrtSession
from converter.tflite_file import unpack
from emitters.tflite.session import LiteRTSession, open_file
from tests.tflite_emitter.running import REQUEST, Array
from zoo import catalogue

NAMES = [name for name, entry in catalogue.entries().items() if entry.framework == "tflite"]

INT8 = 9
"""Its number in ``TensorType`` of the schema."""

ROUNDS = 30
"""Most rounds of measuring; other work on the machine makes single ones slow."""


def _converted(name: str, folder: Path, **options: Any) -> Path:
    made = api.convert(
        f"zoo:{name}",
        to=["tflite"],
        out=str(folder / name),
        bench=False,
        keep_steps=True,
        **options,
    )
    assert made.report is not None
    (artifact,) = made.report.artifacts
    assert all(gate.passed for gate in artifact.gates)
    return folder / name / artifact.path


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_read_and_written_again_gives_the_same(name: str, tmp_path: Path) -> None:
    made = api.convert(
        f"zoo:{name}", to=["tflite"], out=str(tmp_path / "out"), bench=False, simplify=False
    )
    assert made.report is not None
    (artifact,) = made.report.artifacts
    untold = {gate.name for gate in artifact.gates if not gate.passed}
    # a wake word's score is 0 for whatever isn't one: that output isn't judged, and said not to be
    assert untold == ({JUDGED} if name.startswith("wakeword") else set())
    assert artifact.accuracy is not None
    # Hybrid files aside (LiteRT rounds their activations), they are the same to rounding.
    least = 0.999 if name == "fer-tflite" else 0.999999
    assert (artifact.accuracy.cosine or 0) > least


class Pair:
    """Our file and the package's, of one model, with that model's own outputs.

    Args:
        ours, theirs: The files; one input each.
        source: The model in float32.
        feed: An input of batch 1.
    """

    def __init__(self, ours: Path, theirs: Path, source: Model, feed: Array) -> None:
        self.files = {"ours": ours, "theirs": theirs}
        self.feed = feed
        self.expected = self._ordered(OrtSession(source.graph).run({source.inputs[0].name: feed}))

    @staticmethod
    def _ordered(outputs: dict[str, Array]) -> list[Array]:
        """Outputs by what they hold: names differ."""
        return sorted(outputs.values(), key=lambda array: (array.shape, float(array.sum())))

    def error(self, which: str) -> float:
        """The largest difference from the model's own outputs."""
        session = open_file(self.files[which], REQUEST)
        found = self._ordered(session.run(self._feeds(session)))
        session.close()
        pairs = zip(found, self.expected, strict=True)
        return max(float(np.abs(a - b).max()) for a, b in pairs)

    def _feeds(self, session: LiteRTSession) -> dict[str, Array]:
        return {session.inputs[0].name: self.feed}

    def size(self) -> float:
        """Ours / theirs, in bytes."""
        return self.files["ours"].stat().st_size / self.files["theirs"].stat().st_size

    def time(self, limit: float) -> float:
        """Ours / theirs, of each the fastest run of many in turns; ends once below ``limit``."""
        sessions = {which: open_file(file, REQUEST) for which, file in self.files.items()}
        best = dict.fromkeys(sessions, float("inf"))
        for _ in range(ROUNDS):
            for which, session in sessions.items():
                timing = session.time(self._feeds(session), 5)
                best[which] = min(best[which], *timing.ns)
            if best["ours"] <= limit * best["theirs"]:
                break
            time.sleep(0.2)
        for session in sessions.values():
            session.close()
        return best["ours"] / best["theirs"]


def _stored(file: Path) -> list[tuple[int, ...]]:
    """The shapes of a file's int8 weights."""
    model = unpack(file.read_bytes(), file.name)
    return sorted(
        tuple(int(dim) for dim in tensor.shape)
        for tensor in model.subgraphs[0].tensors
        if tensor.type == INT8 and model.buffers[tensor.buffer].data is not None
    )


@pytest.mark.slow
def test_basic_pitch_beside_the_packages_own(tmp_path: Path) -> None:
    ours = _converted("basic-pitch-onnx", tmp_path)
    theirs = catalogue.fetch("zoo:basic-pitch-tflite")["model"]
    source = Model.load(tmp_path / "basic-pitch-onnx" / "steps" / "read.onnx")
    sound = np.sin(np.arange(43844) * 2 * np.pi * 440 / 22050).astype(np.float32)
    pair = Pair(ours, theirs, source, (0.3 * sound).reshape(1, -1, 1))
    assert pair.error("ours") <= max(pair.error("theirs"), 2e-6)
    assert pair.size() <= 1.05
    assert pair.time(1.05) <= 1.05


@pytest.mark.slow
def test_fer_beside_the_packages_own(tmp_path: Path) -> None:
    """Theirs has int8 weights beside float32 activations: so has ours."""
    ours = _converted("fer", tmp_path, precision=["int8-dynamic"])
    theirs = catalogue.fetch("zoo:fer-tflite")["model"]
    assert _stored(ours) == _stored(theirs)
    source = Model.load(tmp_path / "fer" / "steps" / "read.onnx")
    errors: dict[str, list[float]] = {"ours": [], "theirs": []}
    for seed in range(30):
        face = np.random.default_rng(seed).uniform(-1, 1, (1, 64, 64, 1)).astype(np.float32)
        pair = Pair(ours, theirs, source, face)
        for which, found in errors.items():
            found.append(pair.error(which))
    # The same weights are int8; how activations are rounded differs by chance.
    assert np.mean(errors["ours"]) <= 1.02 * np.mean(errors["theirs"])
    assert pair.size() <= 1.05
    assert pair.time(1.05) <= 1.05
