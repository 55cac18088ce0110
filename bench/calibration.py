"""``python -m bench.calibration [IMAGES]``: calibration and int8 of ResNet-50, ours and theirs.

Ours: ranges of the tensors that the scheme quantizes, then Q/DQ by the percentiles. Theirs:
``onnxruntime.quantization.quantize_static`` with Percentile, QDQ, per channel, U8S8. Both start
from the same simplified file and the same stored images, write a file, and run in turns, each in
a process of its own; seconds are those of the whole process, memory its largest resident set.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
IMAGES = 32
ROUNDS = 3


@dataclass(frozen=True)
class Cost:
    """Of one run: wall and processor seconds of the process, its largest resident set in bytes."""

    seconds: float
    processor: float
    memory: float


@dataclass(frozen=True)
class Comparison:
    """Medians of several runs."""

    ours: Cost
    theirs: Cost

    def describe(self) -> str:
        """The ratios, and what they are of."""
        ours, theirs = self.ours, self.theirs
        return (
            f"time x{ours.seconds / theirs.seconds:.2f} "
            f"({ours.seconds:.1f} s / {theirs.seconds:.1f} s; "
            f"processor {ours.processor:.1f} s / {theirs.processor:.1f} s), "
            f"memory x{ours.memory / theirs.memory:.2f} "
            f"({ours.memory / 1e6:.0f} MB / {theirs.memory / 1e6:.0f} MB)"
        )


def compare(folder: Path, images: int = IMAGES, rounds: int = ROUNDS) -> Comparison:
    """Runs both in turns.

    Args:
        folder: For what they read and write.
        images: How many are calibrated on.
        rounds: How often each runs.
    """
    model = resnet(folder)
    shape = (images, 1, 3, 224, 224)
    np.save(folder / "images.npy", np.random.default_rng(0).standard_normal(shape, np.float32))
    costs: dict[str, list[Cost]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        for side, seen in costs.items():
            seen.append(_run(side, model, folder))
    ours, theirs = (_median(seen) for seen in costs.values())
    return Comparison(ours, theirs)


def resnet(folder: Path) -> Path:
    """ResNet-50 with random weights, simplified."""
    from converter.api import convert

    convert("zoo:resnet50-random", out=str(folder / "resnet"), bench=False)
    return folder / "resnet" / "onnx" / "fp32" / "model.onnx"


def _run(side: str, model: Path, folder: Path) -> Cost:
    argv = [sys.executable, "-m", "bench.calibration", side, str(model), str(folder)]
    start = time.perf_counter()
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{argv} ended with {done.returncode}:\n{done.stderr}")
    return Cost(seconds, **json.loads(done.stdout.splitlines()[-1]))


def _median(costs: list[Cost]) -> Cost:
    fields = ("seconds", "processor", "memory")
    return Cost(*(statistics.median(getattr(cost, name) for cost in costs) for name in fields))


def ours(model_path: Path, folder: Path) -> None:
    """Calibrates and quantizes."""
    from converter.ir.model import Model
    from converter.precision.calibrate.ranges import collect
    from converter.precision.int8.insert import quantize
    from converter.precision.int8.placement import place
    from converter.precision.int8.scheme import ONNXRUNTIME_CPU
    from converter.samples import Sample, Samples

    class Stored(Samples):
        origin = "images.npy"
        images = np.load(folder / "images.npy", mmap_mode="r")

        def __len__(self) -> int:
            return len(self.images)

        def __iter__(self) -> Iterator[Sample]:
            for number, image in enumerate(self.images):
                yield Sample(str(number), {"image": np.asarray(image)})

    model, scheme = Model.load(model_path), ONNXRUNTIME_CPU
    ranges = collect(model, Stored(), place(model, scheme).tensors)
    quantize(model, ranges, scheme, method="percentile").model.save(folder / "ours.onnx")


def theirs(model_path: Path, folder: Path) -> None:
    """Calibrates and quantizes with ONNX Runtime's own tool."""
    from onnxruntime import quantization as tool

    class Stored(tool.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._images = iter(np.load(folder / "images.npy", mmap_mode="r"))

        def get_next(self) -> dict[str, Any] | None:
            image = next(self._images, None)
            return None if image is None else {"image": np.asarray(image)}

    tool.quantize_static(
        str(model_path),
        str(folder / "theirs.onnx"),
        Stored(),
        quant_format=tool.QuantFormat.QDQ,
        per_channel=True,
        activation_type=tool.QuantType.QUInt8,
        weight_type=tool.QuantType.QInt8,
        calibrate_method=tool.CalibrationMethod.Percentile,
    )


def main(arguments: list[str]) -> None:
    """One side, in the child; or the comparison."""
    if arguments[:1] in (["ours"], ["theirs"]):
        {"ours": ours, "theirs": theirs}[arguments[0]](Path(arguments[1]), Path(arguments[2]))
        usage = resource.getrusage(resource.RUSAGE_SELF)
        processor = usage.ru_utime + usage.ru_stime
        print(json.dumps({"processor": processor, "memory": usage.ru_maxrss * 1024}))
        return
    images = int(arguments[0]) if arguments else IMAGES
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        print(f"{images} images: {compare(Path(folder), images).describe()}")


if __name__ == "__main__":
    main(sys.argv[1:])
