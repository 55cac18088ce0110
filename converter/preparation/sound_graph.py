"""A sound's spectrum as ONNX operators in front of a model.

    Given:   the model takes float[batch, 80, 3000], mel bands of windows of 480,000 samples
    Result:  it takes float[batch, 480000]: the windows

The formulas are those of :func:`converter.preparation.staged.sounds.spectra`, by ``STFT`` and a
product with the bands' weights, which are worked out here in float64.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.errors import UsageError
from converter.ir.model import Model, TensorSpec, dtype_from_name
from converter.passes.legalize.builder import Builder
from converter.preparation.inputs import Sound, Spectrum
from converter.preparation.picture_graph import node_behind
from converter.preparation.staged.sounds import LOGS, frame_window, mel_bands

Value = onnx_ir.Value
FLOAT = onnx_ir.DataType.FLOAT


def put_spectrum(model: Model, sound: Sound, spec: TensorSpec) -> None:
    """Has a model take windows of a sound, [windows, samples] or [samples], in the place of their
    spectra; the input's name stays.

    Args:
        model: Of the pipeline's opset; changed in place.
        sound: What they become; it has a spectrum.
        spec: The input.

    Raises:
        UsageError: Windows have no length.
    """
    known, shape = sound.spectrum, spec.shape or ()
    assert known is not None
    if sound.length is None:
        raise UsageError(
            "--prepare graph: a spectrum in the graph needs windows of a fixed length, and "
            "these have none",
            code="preparation",
            hint="Declare it: prepare: {kind: sound, length: SAMPLES, ...}.",
        )
    value = next(item for item in model.graph.graph.inputs if item.name == spec.name)
    node = node_behind(model, value)
    batch = list(shape[:1]) if len(shape) == (4 if sound.channel else 3) else []
    value.type = onnx_ir.TensorType(FLOAT)
    value.shape = onnx_ir.Shape([*batch, sound.length])
    b = Builder(node, model.opset)
    x = _spectra(b, b.unsqueeze(value, [] if batch else [0]), known, sound)
    if sound.channel:
        x = b.unsqueeze(x, [1 if sound.channel == "first" else 2])
    b.put([b.squeeze(b.cast(x, dtype_from_name(spec.dtype)), [] if batch else [0])])
    model.meanings.pop(spec.name, None)


def left_of_sound(sound: Sound) -> Sound:
    """What is left to do of a sound: its windows."""
    return sound.model_copy(update={"spectrum": None, "channel": "", "fused": ("spectrum",)})


def _spectra(b: Builder, x: Value, known: Spectrum, sound: Sound) -> Value:
    """[windows, samples] as [windows, bins, frames], or with frames first."""
    if known.center:
        ends = np.array([known.size // 2] * 2, np.int64)
        x = b.op("Pad", x, ends, None, np.array([1], np.int64), mode="reflect")
    window = frame_window(known.model_dump()).astype(np.float32)
    step, size = (np.array(number, np.int64) for number in (known.hop, known.size))
    parts = b.op("STFT", b.unsqueeze(x, [2]), step, window, size, onesided=1)
    last = np.array([3], np.int64)
    x = b.op("ReduceSum", b.op("Mul", parts, parts), last, keepdims=0)  # [windows, frames, bins]
    if known.power == 1:
        x = b.op("Sqrt", x)
    elif known.power != 2:
        x = b.op("Pow", x, np.array(known.power / 2, np.float32))
    if known.drop_last:
        start, end, axis = (np.array([number], np.int64) for number in (0, -1, 1))
        x = b.op("Slice", x, start, end, axis)
    if known.mels is not None:
        bands = mel_bands(known.model_dump(), sound.rate).T
        x = b.op("MatMul", x, bands.astype(np.float32))
    if known.log:
        x = b.op("Log", b.op("Max", x, np.array(known.floor, np.float32)))
        if known.log != "ln":
            x = b.op("Mul", x, np.array(LOGS[known.log], np.float32))
    if known.span is not None:
        axes = np.array([1, 2], np.int64)
        most = b.op("ReduceMax", x, axes, keepdims=1)
        x = b.op("Max", x, b.op("Sub", most, np.array(known.span, np.float32)))
    if known.shift:
        x = b.op("Add", x, np.array(known.shift, np.float32))
    if known.gain != 1:
        x = b.op("Mul", x, np.array(known.gain, np.float32))
    return x if known.frames_first else b.transpose(x, (0, 2, 1))
