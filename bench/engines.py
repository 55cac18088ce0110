"""``python -m bench.engines FOLDER``: TensorRT-RTX engines of real models; docs/tensorrt.md.

Every model is converted twice at float32, float16 and int8, for three compute capabilities, into
``FOLDER/1`` and ``FOLDER/2``; what lies there already isn't made again. Then one engine is built
several times to see how much of the time is the library's.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from converter.files.digest import file_digest
from converter.ir.model import Model
from converter.machine import describe_machine
from converter.options.request import Request
from emitters.tensorrt import build
from emitters.tensorrt.emitter import TensorrtRtxEmitter
from emitters.tensorrt.layers import WANTED

ROOT = Path(__file__).resolve().parent.parent
PRECISIONS = ("fp32", "fp16", "int8")
OPTIONS = ("--to", "tensorrt-rtx", "--no-bench", "--no-check", "--weight-methods", "none")
MODELS = {
    "efficientnet-lite0": (),
    "resnet50-random": ("--samples", "random:8"),
    "minilm": (),
    "basic-pitch-onnx": ("--few-samples",),
    "pp-ocrv4-det": ("--few-samples",),
    "pp-ocrv4-rec": ("--few-samples",),
    "ccexam-mnist": (),
}
"""Names in the catalogue, and what their conversion needs besides."""

TIMED = "resnet50-random"
ROUNDS = 5
AIM = 0.1


def convert(folder: Path) -> None:
    """Converts what isn't in ``folder`` yet."""
    for name, extra in MODELS.items():
        for run in ("1", "2"):
            out = folder / run / name
            if out.exists():
                continue
            argv = [str(Path(sys.executable).parent / "modelyard"), "convert", f"zoo:{name}"]
            argv += ["--precision", ",".join(PRECISIONS), *OPTIONS, *extra, "--out", str(out)]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{name}: {done.stderr.strip()}", file=sys.stderr)


def rows(folder: Path) -> Iterator[str]:
    """A line of the table for each model and precision."""
    for name in MODELS:
        for precision in PRECISIONS:
            parts = ("1", "2")
            places = [folder / run / name / "tensorrt-rtx" / precision for run in parts]
            if not all((place / "model.plan").is_file() for place in places):
                yield f"| {name} | {precision} | not built | | | | |"
                continue
            yield _row(name, precision, places)


def _row(name: str, precision: str, places: Sequence[Path]) -> str:
    facts: dict[str, Any] = json.loads((places[0] / "engine.json").read_text())
    shares = facts["requested_precision"]
    wanted = WANTED.get(precision, "float32")
    share = shares.get(wanted, {"macs": 0.0})["macs"]
    layers = ", ".join(f"{item['layers']} {kind}" for kind, item in shares.items())
    same = len({file_digest(place / "model.plan") for place in places}) == 1
    largest = "; ".join(
        f"{key} {'x'.join(map(str, shapes[2]))}" for key, shapes in facts["profiles"][0].items()
    )
    return (
        f"| {name} | {precision} | {facts['bytes'] / 1e6:.2f} | {share:.1%} | {layers} | "
        f"{largest} | {'yes' if same else '**no**'} |"
    )


def outside(folder: Path) -> str:
    """How much of an engine's time isn't the library's: loading it, parsing, building."""
    source = folder / "1" / TIMED / "tensorrt-rtx" / "fp32" / "model.onnx"
    if not source.is_file():
        return f"{TIMED} isn't there to be timed."
    model, request = Model.load(source), Request(str(source))
    reports: list[build.BuildReport] = []
    original = build.build

    def noting(*args: Any) -> build.BuildReport:
        reports.append(original(*args))
        return reports[-1]

    build.build = noting
    totals = []
    with tempfile.TemporaryDirectory() as place:
        for index in range(ROUNDS):
            start = time.perf_counter()
            TensorrtRtxEmitter().emit(model, Path(place, str(index)), "fp32", request)
            totals.append(time.perf_counter() - start)
    build.build = original
    inside = [sum(r.seconds[part] for part in build.LIBRARY) for r in reports]
    rest = [total - part for total, part in zip(totals, inside, strict=True)]
    shares = [part / total for part, total in zip(rest, totals, strict=True)]
    own, other = statistics.median(inside), statistics.median(rest)
    write = statistics.median(r.seconds["write"] for r in reports)
    return (
        f"{TIMED} fp32, {ROUNDS} builds, medians: {own:.2f} s inside the library (its import, its "
        f"builder's making, parsing, building), {other:.2f} s outside of it, "
        f"{statistics.median(shares):.0%} of the whole (smallest "
        f"{min(shares):.0%}; aimed for: below 10%{'' if min(shares) < AIM else ', not met'}). "
        f"{write:.2f} s of that go into the engine's file and its sha256, at once; the rest into "
        f"the graph's file, while the process starts, and into that process's end. Hashing the "
        f"graph and counting its multiply-adds go on while the engine is built. Load average "
        f"{os.getloadavg()[0]:.0f} on {os.cpu_count()} cores."
    )


def page(folder: Path) -> str:
    """The page's text."""
    machine = ", ".join(f"{k} {v}" for k, v in vars(describe_machine()).items() if v)
    versions = [f"{name} {version(name)}" for name in ("tensorrt-rtx", "onnx", "onnx-ir", "torch")]
    return f"""# TensorRT-RTX engines, built without a GPU

`python -m bench.engines FOLDER` makes this page. It converts each model twice, with
`modelyard convert zoo:NAME --precision {",".join(PRECISIONS)} {" ".join(OPTIONS)}`
and other options that the model needs (`bench/engines.py`), for compute capability 8.6, 8.9 and
12.0. The batch is free where the model's is. No engine ran here.

- *share* is the share of multiply-adds in layers for which the network asks for the precision. Only
  a GPU shows what the engine's kernels do.
- *same bytes* compares two builds of `model.plan`, each from the typed graph of its own conversion.

The library orders things by their addresses in memory, and compiles parts of large graphs in its
own threads. Its process therefore runs at fixed addresses, on one core and in batch scheduling.
Without the last two, pp-ocrv4-det int8 came out in two ways (392 of 12 MB differ, numbers in
internal names). With them, 20 builds of 20 had the same bytes.

| model | precision | MB | share | matrix layers | largest shapes | same bytes |
|---|---|---|---|---|---|---|
{chr(10).join(rows(folder))}

{outside(folder)}

Machine: {machine}.
Versions: {", ".join(versions)}.
"""


def main() -> None:
    """Converts, measures, writes the page."""
    folder = Path(sys.argv[1])
    convert(folder)
    (ROOT / "docs" / "tensorrt.md").write_text(page(folder))


if __name__ == "__main__":
    main()
