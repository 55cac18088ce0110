"""``python -m bench.half [MODEL.onnx]``: float16 conversion against onnxconverter-common's.

Both convert a model that is loaded already, five times after one that doesn't count, each in a
process of its own and in turns; the ratio is that of the medians. Ours works with what was
measured on the model's samples too: measuring is calibration, and isn't timed here.
onnxconverter-common isn't a dependency of ours: it gets an environment of its own.

Without a file, BERT-base with random weights from the catalogue is converted to ONNX first.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROUNDS = 5

THEIRS = """
import copy, json, sys, time
import onnx
from onnxconverter_common import float16
model = onnx.load(sys.argv[1])
taken = []
for _ in range(int(sys.argv[2])):
    given = copy.deepcopy(model)
    start = time.perf_counter()
    float16.convert_float_to_float16(given, keep_io_types=True)
    taken.append(time.perf_counter() - start)
print(json.dumps(taken))
"""
"""It changes the model that it is given, so that it gets a copy, made before the clock starts."""


def ours(path: Path, rounds: int) -> list[float]:
    """Seconds of each conversion, the copy of the model that it makes included."""
    from converter.ir.model import Model
    from converter.precision.fp16.half import to_half

    model = Model.load(path)
    return [_seconds(lambda: to_half(model, None)) for _ in range(rounds)]


def _seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def compare(path: Path, python: str) -> tuple[list[float], list[float]]:
    """Seconds of our conversions and of theirs, in turns."""
    mine, others = list[float](), list[float]()
    for _ in range(ROUNDS):
        mine += _timed([sys.executable, "-m", "bench.half", "--ours", str(path)])[1:]
        others += _timed([python, "-c", THEIRS, str(path), "2"])[1:]
    return mine, others


def _timed(argv: list[str]) -> list[float]:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv[:3]} ended with {done.returncode}:\n{done.stderr}")
    taken: list[float] = json.loads(done.stdout.splitlines()[-1])
    return taken


def environment(folder: Path) -> str:
    """The interpreter of a new environment with onnxconverter-common."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "theirs")], check=True)
    python = str(folder / "theirs" / "bin" / "python")
    packages = ["onnxconverter-common==1.16.0", f"onnx=={version('onnx')}"]
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *packages], check=True)
    return python


def bert(folder: Path) -> Path:
    """BERT-base with random weights as the pipeline makes it."""
    from converter.api import convert

    out = folder / "bert"
    convert("zoo:bert-base-random", out=str(out), bench=False, check=False)
    return next(out.rglob("*.onnx"))


def main(arguments: list[str]) -> None:
    """Measures and prints."""
    if arguments[:1] == ["--ours"]:
        print(json.dumps(ours(Path(arguments[1]), 2)))
        return
    with tempfile.TemporaryDirectory(prefix="bench-half-") as folder:
        path = Path(arguments[0]) if arguments else bert(Path(folder))
        mine, others = compare(path, environment(Path(folder)))
    ratio = statistics.median(mine) / statistics.median(others)
    print(f"{path.name}: ours {statistics.median(mine):.3f} s ({min(mine):.3f}-{max(mine):.3f})")
    print(f"onnxconverter-common {statistics.median(others):.3f} s ", end="")
    print(f"({min(others):.3f}-{max(others):.3f}); ratio x{ratio:.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
