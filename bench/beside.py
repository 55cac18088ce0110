"""``python -m bench.beside [--models NAME,...]``: int8 of ours, quantize_static's and OpenVINO's.

Writes its section of docs/precision.md (:mod:`bench.beside_page`). All start from the float32 ONNX
file that ``convert`` writes, are calibrated and judged on the same samples, and are timed in turns,
each run in a process of its own. What is in build/beside isn't made or measured again. OpenVINO and
NNCF have an environment of their own; they report their use unless told not to:

    python3.11 -m venv build/openvino
    build/openvino/bin/pip install openvino==2026.4.1 nncf==3.4.0
    build/openvino/bin/opt_in_out --opt_out
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench.beside_page import Seen, Way, page
from bench.measure import write_section
from bench.precision import _sample_options
from bench.precision_cases import CALIBRATION_CROPS, CALIBRATION_SENTENCES, CROPS, SENTENCES, Data
from bench.precision_page import BESIDE
from bench.precision_shares import share_of
from converter import api
from converter.ir.model import Model
from converter.options.recipe import make_request
from converter.samples.load import load_samples

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "precision.md"
FOLDER = ROOT / "build" / "beside"
PEERS = ROOT / "bench" / "peers"
OPENVINO = ROOT / "build" / "openvino" / "bin" / "python"
NOISE = Data("noise", lambda folder: {"samples": "random:8"})
CORES = len(os.sched_getaffinity(0))
THREADS = sorted({1, CORES})


@dataclass(frozen=True)
class Subject:
    """A model: its title, its sets, and whether its weights are worth a cosine."""

    title: str
    calibration: Data
    judged: Data
    trained: bool = True


MODELS = {
    "efficientnet-lite0": Subject("EfficientNet-Lite0", CALIBRATION_CROPS, CROPS),
    "minilm": Subject("MiniLM", CALIBRATION_SENTENCES, SENTENCES),
    "resnet50-random": Subject("ResNet-50, random weights", NOISE, NOISE, trained=False),
}

FLOAT = "out/onnx/fp32/model.onnx"
WAYS = (
    Way("onnxruntime", "ours", "out/onnx/int8/model.onnx", FLOAT),
    Way("onnxruntime", "`quantize_static`", "static.onnx", FLOAT),
    Way("litert", "ours", "out/tflite/int8/model.tflite", "out/tflite/fp32/model.tflite"),
    Way("openvino", "NNCF's default", "performance.xml", FLOAT),
    Way("openvino", "NNCF, mixed preset, whole bias correction", "mixed.xml", FLOAT),
)
PROFILED = (WAYS[0], WAYS[3])


def make(name: str, folder: Path) -> None:
    """Whatever isn't there yet: our files, samples, and peers' files with their shares."""
    subject = MODELS[name]
    if not (folder / "out" / "report.json").exists():
        sets = {**subject.judged.options(FOLDER), **subject.calibration.options(FOLDER)}
        api.convert(
            f"zoo:{name}", to=["onnx", "tflite"], precision=["fp32", "int8"], check=False,
            bench=False, few_samples=True, out=str(folder / "out"), overwrite=True, **sets,
        )  # fmt: skip
    for kind in ("calibration", "judged"):
        if not (path := folder / f"{kind}.npz").exists():
            _store(f"zoo:{name}", getattr(subject, kind), folder / FLOAT, path)
    if not (folder / "static.onnx").exists():
        quantize_static(folder / FLOAT, folder / "calibration.npz", folder / "static.onnx")
    for preset in ("performance", "mixed"):
        if not (said := folder / f"{preset}.share").exists():
            argv = [PEERS / "nncf_int8.py", FLOAT, "calibration.npz", f"{preset}.xml", preset]
            said.write_text(child(OPENVINO, *argv, cwd=folder).split()[-1])


def _store(source: str, data: Data, model: Path, path: Path) -> None:
    """A set's samples, prepared as the catalogue says, for :mod:`bench.peers.runtime`."""
    options = {**_sample_options(source), **data.options(FOLDER)}
    options["samples"] = options.pop("calibration_samples", options["samples"])
    inputs = Model.load(model).inputs
    samples = load_samples(make_request({"source": str(model), **options}), inputs, {})
    named = enumerate(samples)
    found: Any = {f"{n:04}/{k}": v for n, each in named for k, v in each.feeds.items()}
    np.savez(path, **found)


def quantize_static(model: Path, samples: Path, made: Path) -> None:
    """ONNX Runtime's own quantization, at its best settings (:mod:`bench.int8`); for
    transformers those are products alone.

    Args:
        model: The float32 ONNX file.
        samples: What it is calibrated on, an .npz.
        made: The file that is written.
    """
    from onnxruntime import quantization as tool
    from onnxruntime.quantization.shape_inference import quant_pre_process

    from bench.peers.runtime import read_samples

    feeds = read_samples(str(samples))

    class Stored(tool.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._feeds = iter(feeds)

        def get_next(self) -> dict[str, Any] | None:
            return next(self._feeds, None)

    ready = made.with_name("ready.onnx")
    quant_pre_process(str(model), str(ready), skip_symbolic_shape=True)
    tool.quantize_static(
        str(ready), str(made), Stored(), quant_format=tool.QuantFormat.QDQ, per_channel=True,
        activation_type=tool.QuantType.QUInt8, weight_type=tool.QuantType.QInt8,
        op_types_to_quantize=["MatMul"] if "attention_mask" in feeds[0] else None,
    )  # fmt: skip


def child(python: object, *argv: object, cwd: Path) -> str:
    """What a script prints; raises where it fails."""
    done = subprocess.run(
        [str(python), *map(str, argv)], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{argv} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def run(way: Way, file: str, folder: Path, threads: int, outputs: str = "") -> str:
    """What :mod:`bench.peers.runtime` prints of a file.

    Args:
        way: How the file was made, and its runtime.
        file: The file, by its path in the folder.
        folder: Where files and samples are.
        threads: How many run it.
        outputs: An .npz that takes the outputs; empty: the file is timed.
    """
    python = OPENVINO if way.runtime == "openvino" else sys.executable
    argv = [PEERS / "runtime.py", way.runtime, file, "judged.npz", str(threads)]
    return child(python, *argv, *([outputs] if outputs else []), cwd=folder)


def latencies(folder: Path, rounds: int) -> dict[str, float]:
    """Milliseconds by runtime, file and threads: of rounds in which all take turns the fastest's
    median, since who else is on a shared machine only ever slows one down."""
    turns = {way.key(file, threads): (way, file, folder, threads)
             for threads in THREADS for way in WAYS
             for file in (way.plain, way.file)}  # fmt: skip
    taken: dict[str, list[float]] = {key: [] for key in turns}
    for _ in range(rounds):
        for key, turn in turns.items():
            taken[key].append(float(run(*turn).split()[-1]))
    return {key: min(times) for key, times in taken.items()}


def cosines(folder: Path, way: Way) -> tuple[float, float]:
    """Of the outputs to those of the float32 ONNX file: the worst sample's, and of all together."""
    reference, seen = folder / "reference.npz", folder / "outputs.npz"
    if not reference.exists():
        run(WAYS[0], FLOAT, folder, CORES, reference.name)
    run(way, way.file, folder, CORES, seen.name)
    return between(np.load(reference), np.load(seen))


def between(reference: Mapping[str, Any], seen: Mapping[str, Any]) -> tuple[float, float]:
    """The smallest cosine of a sample, and that of all values together."""
    pairs = [(reference[n].ravel().astype(float), seen[n].ravel().astype(float)) for n in reference]
    dots = np.array([(a @ b, a @ a, b @ b) for a, b in pairs])
    worst = min(both / np.sqrt(one * two) for both, one, two in dots)
    both, one, two = dots.sum(axis=0)
    return float(worst), float(both / np.sqrt(one * two))


def share(folder: Path, way: Way) -> float:
    """Of the multiply-adds in integers: by our report, in the file, or as OpenVINO compiled it."""
    if way.runtime == "openvino":
        return float((folder / way.file).with_suffix(".share").read_text())
    if way.file == "static.onnx":
        return share_of(folder / way.file).share
    made = json.loads((folder / "out" / "report.json").read_text())["artifacts"]
    (found,) = (item for item in made if f"out/{item['path']}" == way.file)
    return float(found["lowered_share"])


def measure(name: str, folder: Path, rounds: int) -> Seen:
    """What was measured, or is by now.

    Args:
        name: The model's.
        folder: Its files; what was measured stays beside them.
        rounds: How often each file is timed.
    """
    path, judged = folder / "measured.json", WAYS if MODELS[name].trained else ()
    seen = json.loads(path.read_text()) if path.exists() else {}
    looks: dict[str, Callable[[], Any]] = {
        "share": lambda: {way.file: share(folder, way) for way in WAYS},
        "cosine": lambda: {way.file: cosines(folder, way) for way in judged},
        "latency": lambda: latencies(folder, rounds),
    }
    for kind, look in looks.items():
        if kind not in seen:
            seen[kind] = look()
            path.write_text(json.dumps(seen, indent=1))
    return Seen(**seen)


def kernels(way: Way, folder: Path) -> dict[str, float]:
    """Microseconds by kernel of a file in int8, on one thread."""
    python = OPENVINO if way.runtime == "openvino" else sys.executable
    argv = [PEERS / "profiled.py", way.runtime, way.file, "judged.npz"]
    found: dict[str, float] = json.loads(child(python, *argv, cwd=folder))
    return found


@click.command(help=__doc__)
@click.option("--models", default=",".join(MODELS), show_default=True)
@click.option("--rounds", default=4, show_default=True)
@click.option("--dry", is_flag=True, help="Print the section, and don't write it.")
@click.option("--only-make", is_flag=True, help="Make the files, and measure nothing.")
def main(models: str, rounds: int, dry: bool, only_make: bool) -> None:
    """Makes, measures, prints, writes."""
    found = dict[str, Seen]()
    spent = dict[tuple[str, Way], dict[str, float]]()
    for name in models.split(","):
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        make(name, folder)
        if only_make:
            continue
        title = MODELS[name].title
        found[title] = measure(name, folder, rounds)
        spent |= {(title, way): kernels(way, folder) for way in PROFILED}
    if only_make:
        return
    listed = json.loads(child(OPENVINO, "-m", "pip", "list", "--format=json", cwd=ROOT))
    versions = {each["name"]: each["version"] for each in listed}
    peers = [f"{name} {versions[name]}" for name in ("openvino", "nncf")]
    text = page(found, WAYS, spent, THREADS, rounds, peers)
    print(text)
    if not dry:
        write_section(PAGE, BESIDE, text)


if __name__ == "__main__":
    main()
