"""int8 of models that hear: silero-vad on streams of speech, basic-pitch on music."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import precision_sound as sound
from converter import api
from converter.graph.edit import is_op
from converter.ir import Model

pytestmark = pytest.mark.slow

SILERO = 0.998
"""What the cosine of each output has to be, all frames together. Peers reach .87 to .95."""

FRAME = 0.97
"""And that of any one frame's state, the quietest included."""


def _int8_convolutions(model: Model) -> tuple[int, int]:
    """How many convolutions read integers, and how many there are."""
    convolutions = [node for node in model.nodes() if node.op_type == "Conv"]
    read = [
        all(v is not None and is_op(v.producer(), "DequantizeLinear") for v in node.inputs[:2])
        for node in convolutions
    ]
    return sum(read), len(read)


@pytest.mark.parametrize(
    ("name", "rates"),
    [("silero-vad", (16000, 8000)), ("silero-vad-op15", (16000,))],
)
def test_every_convolution_of_silero(name: str, rates: tuple[int, ...], tmp_path: Path) -> None:
    """All of them in int8, those in both branches of an If as well."""
    out = tmp_path / "out"
    made = api.convert(
        f"zoo:{name}",
        precision=["int8"],
        calibration_samples=str(sound.calibration_speech(tmp_path / "c", rates)),
        samples=str(sound.judged_speech(tmp_path / "j", rates)),
        weight_methods=["bias"],
        min_cosine=FRAME,
        out=str(out),
        bench=False,
    )
    assert made.report is not None
    (artifact,) = made.report.artifacts
    assert {gate.status for gate in artifact.gates} == {"passed"}
    assert artifact.accuracy is not None
    for output in artifact.accuracy.outputs:
        assert (output.cosine_all or 0) >= SILERO, output.name
    integers, count = _int8_convolutions(Model.load(out / artifact.path))
    assert integers == count == 6 * len(rates)


def test_basic_pitch(tmp_path: Path) -> None:
    """The convolutions that make a spectrum, octave by octave, stay: a logarithm of what eight
    bits leave of quiet sounds isn't theirs any more. They are 8% of the arithmetic."""
    made = api.convert(
        "zoo:basic-pitch-onnx",
        precision=["int8"],
        calibration_samples=str(sound.calibration_music(tmp_path)),
        samples=str(sound.judged_music(tmp_path)),
        keep_float=["node_Conv_*"],
        weight_methods=["bias"],
        min_cosine=0.999,
        out=str(tmp_path / "out"),
        bench=False,
    )
    assert made.report is not None
    (artifact,) = made.report.artifacts
    assert {gate.status for gate in artifact.gates} == {"passed"}
    integers, count = _int8_convolutions(Model.load(tmp_path / "out" / artifact.path))
    assert (integers, count) == (6, 32)
