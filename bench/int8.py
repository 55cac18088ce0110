"""``python -m bench.int8``: latency of int8 in ONNX Runtime, ours and quantize_static's.

ResNet-50 with random weights at batch 1 and 8, and EfficientNet-Lite0 at batch 1: float32, our
int8, and ``onnxruntime.quantization.quantize_static`` at its best settings (after
``quant_pre_process``; QDQ, per channel, uint8 activations, int8 weights), in turns in one process
on all cores. Speed only: both are calibrated on seeded noise.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

ROUNDS = 25
IMAGES = 8


@dataclass(frozen=True)
class Speeds:
    """Median milliseconds of a run."""

    float32: float
    ours: float
    theirs: float

    @property
    def faster(self) -> float:
        """How many times as fast as float32 ours is."""
        return self.float32 / self.ours

    @property
    def against_theirs(self) -> float:
        """Our time over theirs."""
        return self.ours / self.theirs

    def describe(self) -> str:
        """For the table."""
        return (
            f"x{self.faster:.2f} ({self.float32:.1f} ms / {self.ours:.1f} ms); "
            f"time over quantize_static's x{self.against_theirs:.2f} ({self.theirs:.1f} ms)"
        )


def compare(source: str, batches: tuple[int, ...], folder: Path) -> dict[int, Speeds]:
    """Latencies by batch size.

    Args:
        source: What is converted.
        batches: Their sizes.
        folder: For the files.
    """
    from converter.api import convert

    convert(
        source,
        precision=["fp32", "int8"],
        samples=f"random:{IMAGES}",
        few_samples=True,
        check=False,
        bench=False,
        labels="none",
        metric=[],
        out=str(folder / "out"),
        overwrite=True,
    )
    plain = folder / "out" / "onnx" / "fp32" / "model.onnx"
    theirs = _quantize_static(plain, folder)
    files = {
        "float32": plain,
        "ours": folder / "out" / "onnx" / "int8" / "model.onnx",
        "theirs": theirs,
    }
    sessions = {name: onnxruntime.InferenceSession(str(path)) for name, path in files.items()}
    return {batch: _measure(sessions, batch) for batch in batches}


def _measure(sessions: Mapping[str, Any], batch: int) -> Speeds:
    image = np.random.default_rng(0).standard_normal((batch, 3, 224, 224), np.float32)
    taken: dict[str, list[float]] = {name: [] for name in sessions}
    turns, order = list(sessions), random.Random(0)
    for number in range(ROUNDS + 3):
        order.shuffle(turns)  # who runs after float32 finds the caches full of its weights
        for name in turns:
            session = sessions[name]
            feeds = {session.get_inputs()[0].name: image}
            start = time.perf_counter()
            session.run(None, feeds)
            if number >= 3:
                taken[name].append((time.perf_counter() - start) * 1e3)
    return Speeds(*(statistics.median(taken[name]) for name in ("float32", "ours", "theirs")))


def _quantize_static(model: Path, folder: Path) -> Path:
    from onnxruntime import quantization as tool
    from onnxruntime.quantization.shape_inference import quant_pre_process

    name = onnxruntime.InferenceSession(str(model)).get_inputs()[0].name

    class Noise(tool.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._images: Iterator[Any] = iter(
                np.random.default_rng(0).standard_normal((IMAGES, 1, 3, 224, 224), np.float32)
            )

        def get_next(self) -> dict[str, Any] | None:
            image = next(self._images, None)
            return None if image is None else {name: image}

    ready, made = folder / "ready.onnx", folder / "theirs.onnx"
    quant_pre_process(str(model), str(ready), skip_symbolic_shape=True)
    tool.quantize_static(
        str(ready),
        str(made),
        Noise(),
        quant_format=tool.QuantFormat.QDQ,
        per_channel=True,
        activation_type=tool.QuantType.QUInt8,
        weight_type=tool.QuantType.QInt8,
    )
    return made


def main() -> None:
    """Measures and prints."""
    for source, batches in (("zoo:resnet50-random", (1, 8)), ("zoo:efficientnet-lite0", (1,))):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            for batch, speeds in compare(source, batches, Path(folder)).items():
                print(f"{source}, batch {batch}: {speeds.describe()}")


if __name__ == "__main__":
    main()
