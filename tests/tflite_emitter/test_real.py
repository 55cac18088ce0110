"""Files of ours beside those that packages ship of the same models."""

import time
from pathlib import Path

import numpy as np
import pytest

from converter import api
from converter.ir.model import Model
from converter.runtime.ort import OrtSession
from emitters.tflite.session import LiteRTSession, open_file
from modelyard.containers.tflite import unpack
from tests.tflite_emitter.running import REQUEST, Array
from zoo import catalogue

pytestmark = pytest.mark.slow

INT8 = 9
"""Its number in ``TensorType`` of the schema."""

ROUNDS = 30
"""Most rounds of measuring; other work on the machine makes single ones slow."""


class Pair:
    """Our file and the package's, of one model of one input, with that model in float32."""

    def __init__(self, ours: str, theirs: str, folder: Path, precision: str = "fp32") -> None:
        how = {"to": ["tflite"], "precision": [precision], "bench": False, "keep_steps": True}
        made = api.convert(f"zoo:{ours}", out=str(folder / "out"), **how)
        assert made.report is not None
        (artifact,) = made.report.artifacts
        assert all(gate.passed for gate in artifact.gates)
        fetched = catalogue.fetch(f"zoo:{theirs}")["model"]
        self.files = {"ours": folder / "out" / artifact.path, "theirs": fetched}
        self.source = Model.load(folder / "out" / "steps" / "read.onnx")

    def errors(self, feed: Array) -> dict[str, float]:
        """The largest differences from the model's own outputs; by what they hold: names differ."""
        expected = OrtSession(self.source.graph).run({self.source.inputs[0].name: feed})
        errors = {}
        for which, session in self._open().items():
            found = session.run({session.inputs[0].name: feed})
            pairs = zip(_ordered(found), _ordered(expected), strict=True)
            errors[which] = max(float(np.abs(a - b).max()) for a, b in pairs)
            session.close()
        return errors

    def check_size_and_time(self, feed: Array) -> None:
        """Ours has 5% more bytes at most, and takes 5% longer, by the fastest run of many."""
        ours, theirs = (file.stat().st_size for file in self.files.values())
        assert ours <= 1.05 * theirs
        sessions = self._open()
        best = dict.fromkeys(sessions, float("inf"))
        for _ in range(ROUNDS):
            for which, session in sessions.items():
                best[which] = min(best[which], *session.time({session.inputs[0].name: feed}, 5).ns)
            if best["ours"] <= 1.05 * best["theirs"]:
                break
            time.sleep(0.2)
        for session in sessions.values():
            session.close()
        assert best["ours"] <= 1.05 * best["theirs"]

    def _open(self) -> dict[str, LiteRTSession]:
        return {which: open_file(file, REQUEST) for which, file in self.files.items()}


def _ordered(outputs: dict[str, Array]) -> list[Array]:
    return sorted(outputs.values(), key=lambda array: (array.shape, float(array.sum())))


def _stored(file: Path) -> list[tuple[int, ...]]:
    """The shapes of a file's int8 weights."""
    model = unpack(file.read_bytes(), file.name)
    narrow = [t for t in model.subgraphs[0].tensors if t.type == INT8]
    held = [t for t in narrow if model.buffers[t.buffer].data is not None]
    return sorted(tuple(int(size) for size in tensor.shape) for tensor in held)


def test_basic_pitch_beside_the_packages_own(tmp_path: Path) -> None:
    pair = Pair("basic-pitch-onnx", "basic-pitch-tflite", tmp_path)
    tone = np.sin(np.arange(43844) * 2 * np.pi * 440 / 22050).astype(np.float32)
    sound = (0.3 * tone).reshape(1, -1, 1)
    errors = pair.errors(sound)
    assert errors["ours"] <= max(errors["theirs"], 2e-6)
    pair.check_size_and_time(sound)


def test_fer_beside_the_packages_own(tmp_path: Path) -> None:
    """Theirs has int8 weights beside float32 activations: so has ours."""
    pair = Pair("fer", "fer-tflite", tmp_path, "int8-dynamic")
    assert _stored(pair.files["ours"]) == _stored(pair.files["theirs"])
    draws = (np.random.default_rng(seed).uniform(-1, 1, (1, 64, 64, 1)) for seed in range(30))
    faces = [draw.astype(np.float32) for draw in draws]
    errors = [pair.errors(face) for face in faces]
    ours, theirs = (np.mean([error[which] for error in errors]) for which in pair.files)
    # The same weights are int8; how activations are rounded differs by chance.
    assert ours <= 1.02 * theirs
    pair.check_size_and_time(faces[-1])
