"""``python -m bench [NAME ...]``: measures, prints, and writes docs/performance.md.

With names, only those are measured and nothing is written.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np

from bench.measure import Ratio, in_turns, peak_memory
from converter.check.machine import describe_machine
from converter.pipeline.cache import cache_root
from zoo import catalogue

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
RESNET = ROOT / "zoo" / "architectures.py"


class Row:
    """One figure: what, what was seen, what was aimed for."""

    def __init__(self, what: str, seen: str, target: str, met: bool) -> None:
        self.cells = (what, seen, target, "yes" if met else "**no**")


def startup(folder: Path) -> Row:
    """``modelyard --help`` against ``import click``."""
    ratio = in_turns(
        [str(BIN / "modelyard"), "--help"], [sys.executable, "-c", "import click"], folder, 15, 2
    )
    return _ratio_row("`modelyard --help` / `python -c 'import click'`", ratio, 2.0)


def efficientnet(folder: Path) -> Row:
    """EfficientNet-Lite0, its labelled photos as samples."""
    files = catalogue.fetch("zoo:efficientnet-lite0")
    ours = _convert("zoo:efficientnet-lite0")
    theirs = _bare(
        "efficientnet_lite_pytorch:EfficientNet.from_name",
        files["code"].parent,
        str(files["weights"]),
        "efficientnet-lite0",
    )
    ratio = in_turns(ours, theirs, folder, 5, cache=_cold_cache(folder))
    return _ratio_row("EfficientNet-Lite0, PyTorch to ONNX, all checks / bare export", ratio, 1.5)


def resnet(folder: Path) -> Row:
    """ResNet-50 with random weights, its seeded random inputs as samples."""
    ours = _convert(f"{RESNET}:ResNet50", "--input", "x:batchx3x224x224")
    theirs = _bare(f"{RESNET.stem}:ResNet50", RESNET.parent)
    ratio = in_turns(ours, theirs, folder, 5, cache=_cold_cache(folder))
    return _ratio_row("ResNet-50, PyTorch to ONNX, all checks / bare export", ratio, 1.5)


def memory(folder: Path) -> Row:
    """A 3 GB model with external data, ONNX to ONNX."""
    size = make_large(folder / "large.onnx", 3_000_000_000)
    argv = [
        str(BIN / "modelyard"), "convert", "large.onnx", "--to", "onnx", "--no-bench",
        "--out", "large-out",
    ]  # fmt: skip
    peak = peak_memory(argv, folder)
    share = peak.anonymous / size
    seen = f"{share:.1%} ({peak.anonymous / 1e6:.0f} of {size / 1e6:.0f} MB)"
    shutil.rmtree(folder / "large-out")
    return Row("3 GB ONNX model, anonymous memory of the process tree", seen, "25%", share <= 0.25)


def int8(folder: Path) -> list[Row]:
    """int8 in ONNX Runtime against float32 and quantize_static's."""
    from bench.int8 import compare

    rows = []
    for source, batches, least in (
        ("zoo:resnet50-random", (1, 8), 3.5),
        ("zoo:efficientnet-lite0", (1,), 2.9),
    ):
        for batch, speeds in compare(source, batches, folder).items():
            rows.append(
                Row(
                    f"{source}, batch {batch}, float32 / int8",
                    speeds.describe(),
                    f"x{least} or more, and x{SAME} of theirs or less",
                    speeds.faster >= least and speeds.against_theirs <= SAME,
                )
            )
    return rows


def half(folder: Path) -> list[Row]:
    """float16 of BERT-base against onnxconverter-common's."""
    from bench.half import bert, compare, environment

    mine, theirs = compare(bert(folder), environment(folder))
    seen = Ratio(mine, theirs)
    return [_ratio_row("BERT-base, float16 / onnxconverter-common", seen, 1.0)]


SAME = 1.05
"""A ratio of two latencies from which one counts as slower: medians of one run vary by this."""


def zoo_latency(folder: Path) -> list[Row]:
    """Models for phones in ONNX Runtime against LiteRT."""
    from zoo.page import convert

    rows = []
    for name in ("face-landmark", "iris-landmark", "face-detection-full-range", "wakeword-alexa"):
        made = convert(name, catalogue.entries()[name], folder)
        if made.ratio is None:
            raise RuntimeError(f"{name}: {made.error or 'it was not measured'}")
        seen = f"x{made.ratio:.2f}{made.kernels and f' ({made.kernels})'}"
        rows.append(Row(f"zoo:{name}, latency in ONNX Runtime / in its framework", seen, "x1.0",
                        made.ratio <= SAME))  # fmt: skip
    return rows


def calibration(folder: Path) -> list[Row]:
    """Calibration and int8 of ResNet-50 against quantize_static with Percentile."""
    from bench.calibration import compare

    found = compare(folder, 128, 1)
    time, memory = (
        found.ours.seconds / found.theirs.seconds,
        found.ours.memory / found.theirs.memory,
    )
    met = time <= 0.5 and memory <= 1 / 3
    what = "ResNet-50, calibration on 128 images and int8 / quantize_static with Percentile"
    return [Row(what, found.describe(), "time x0.5, memory x0.33", met)]


def tflite_resnet(folder: Path) -> Row:
    """ResNet-50, ONNX to TFLite, against onnx2tf and onnxsim."""
    return _tflite_row("resnet50-random", "ResNet-50", folder)


def tflite_bert(folder: Path) -> Row:
    """BERT-base likewise."""
    return _tflite_row("bert-base-random", "BERT-base, 128 tokens", folder)


def _tflite_row(name: str, title: str, folder: Path) -> Row:
    from bench.tflite import measure, summary

    found = summary(measure(name, folder))
    what = f"{title}, ONNX to TFLite / the best of onnx2tf and onnxsim: time, memory, inference"
    ratios = f"x{found.seconds:.2f}, x{found.memory:.2f}, x{found.latency:.2f} ({found.text})"
    return Row(what, ratios, "x0.2, x0.5, x1.0", found.met)


def coreml_resnet(folder: Path) -> list[Row]:
    """ResNet-50, ONNX to Core ML, against onnx2coreml and onnxsim."""
    return _coreml_rows("resnet50-random", "ResNet-50", folder)


def coreml_bert(folder: Path) -> list[Row]:
    """BERT-base likewise."""
    return _coreml_rows("bert-base-random", "BERT-base, 128 tokens", folder)


def _coreml_rows(name: str, title: str, folder: Path) -> list[Row]:
    from bench.coreml import PRECISIONS, measure, summary

    rows = []
    for precision in PRECISIONS:
        found = summary(measure(name, precision, folder))
        what = (
            f"{title}, ONNX to Core ML in {precision} / the best of onnx2coreml and onnxsim: time, "
            "memory; outside of coremltools"
        )
        ratios = f"x{found.seconds:.2f}, x{found.memory:.2f}; {found.outside:.0%} ({found.text})"
        rows.append(Row(what, ratios, "x1.0, x1.0; 20%", found.met))
    return rows


STEEPEST = 1.3
"""The exponent from which a step's time grows faster than n log n, whatever the noise."""


def growth(folder: Path) -> list[Row]:
    """Steps by the number of nodes, for three targets; memory by the bytes of the weights."""
    from bench.growth import BYTES, NODES, convert_memory, exponents, step_seconds

    rows, argv = [], [str(BIN / "modelyard")]
    for target in ("onnx", "tflite", "coreml"):
        grown = {count: step_seconds(argv, folder, target, count) for count in NODES}
        found = exponents(grown)
        times = ", ".join(f"{grown[count]['command']:.3g} s" for count in NODES)
        said = ", ".join(f"{step} n^{power:.2f}" for step, power in found.items())
        what = f"ONNX to {target}, {', '.join(f'{count:,}' for count in NODES)} nodes"
        met = all(power <= STEEPEST for power in found.values())
        rows.append(Row(what, f"{times}; {said}", f"each step n^{STEEPEST} or less", met))
    for size in BYTES:
        held, peak = convert_memory(argv, folder, size)
        what = f"ONNX to ONNX, {held / 1e6:.0f} MB of weights outside, anonymous memory"
        seen = f"x{peak.anonymous / held:.2f} ({peak.anonymous / 1e6:.0f} MB)"
        rows.append(Row(what, seen, "x1 and 300 MB", peak.anonymous <= held + 300e6))
    return rows


def make_large(path: Path, size: int) -> int:
    """Writes a model of square MatMuls with external weights; gives the bytes of the weights."""
    import onnx
    from onnx import TensorProto, helper

    width = 4096
    count = size // (width * width * 4)
    rng = np.random.default_rng(0)
    weights, nodes = [], []
    with path.with_suffix(".data").open("wb") as data:
        for i in range(count):
            block = rng.standard_normal((width, width), np.float32) / np.float32(np.sqrt(width))
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=block.shape)
            tensor.data_location = TensorProto.EXTERNAL
            where = {"location": path.with_suffix(".data").name, "offset": data.tell()}
            for key, value in {**where, "length": block.nbytes}.items():
                tensor.external_data.add(key=key, value=str(value))
            data.write(block.tobytes())
            weights.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"], f"n{i}"))
    shape = ["batch", width]
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"x{count}", TensorProto.FLOAT, shape)],
        weights,
    )
    opset = helper.make_opsetid("", 18)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)
    return count * width * width * 4


def _cold_cache(folder: Path) -> Path:
    """A cache of its own that holds the fetched packages and no results."""
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    for part in ("packages", "zoo"):
        if not (cache / part).exists():
            (cache / part).symlink_to(cache_root() / part)
    return cache


def _convert(source: str, *more: str) -> list[str]:
    return [
        str(BIN / "modelyard"), "convert", source, *more, "--to", "onnx", "--no-bench",
        "--out", "out", "--overwrite",
    ]  # fmt: skip


def _bare(spec: str, search_path: Path, *rest: str) -> list[str]:
    script = str(ROOT / "bench" / "bare_export.py")
    return [sys.executable, script, spec, str(search_path), "bare.onnx", *rest]


def _ratio_row(what: str, ratio: Ratio, limit: float) -> Row:
    ours, theirs = ratio.medians
    low = min(a / b for a, b in zip(ratio.ours, ratio.theirs, strict=True))
    high = max(a / b for a, b in zip(ratio.ours, ratio.theirs, strict=True))
    seen = f"x{ratio.ratio:.2f} ({low:.2f}-{high:.2f}; {ours:.3g} s / {theirs:.3g} s)"
    return Row(what, seen, f"x{limit}", ratio.ratio <= limit)


ROWS: dict[str, Callable[[Path], Row | list[Row]]] = {
    "startup": startup,
    "efficientnet": efficientnet,
    "resnet": resnet,
    "memory": memory,
    "int8": int8,
    "calibration": calibration,
    "zoo-latency": zoo_latency,
    "half": half,
    "tflite-resnet": tflite_resnet,
    "tflite-bert": tflite_bert,
    "coreml-resnet": coreml_resnet,
    "coreml-bert": coreml_bert,
    "growth": growth,
}

PAGE = """# Performance of modelyard itself

Made by `make bench` (`python -m bench`). Whole commands are timed in turns in one run; a ratio
is that of the medians, with the smallest and largest ratio of a round, and the medians
themselves. Times are of a shared machine: the ratios count. The cache of results is on and cold,
every check is on, latency runs are off (`--no-bench`). EfficientNet-Lite0 is
checked on its 20 labelled photos, ResNet-50 (random weights) on seeded random inputs; the bare
script (`bench/bare_export.py`) builds the model, calls `torch.onnx.export` and saves. int8 is
measured in ONNX Runtime on all cores, float32, ours and `quantize_static` in turns
(`bench/int8.py`); calibration and float16 in a process each (`bench/calibration.py`,
`bench/half.py`).

| what | seen | limit | met |
|---|---|---|---|
{rows}

Machine: {machine}.
Versions: {versions}.

## Growth

Each step of a whole command is timed by itself, on models of blocks of convolutions, products and
sums (`bench/growth.py`); the exponent is that between the two largest, of steps that take a second
and more there.

## Emitting Core ML

In the rows of Core ML, whole commands are timed, from one ONNX file at batch 1 to one .mlpackage;
memory is the largest resident memory of the process tree. onnx2coreml 1.1.0 runs in an environment
of its own (`bench/coreml.py` says how to make it), onnxsim's `export_coreml` in this one. What is
spent outside of coremltools' import, builder and conversion is a share of the processor seconds of
emitting, without reading the ONNX file.

## Emitting TFLite

In the rows of TFLite, whole commands are timed, from one ONNX file at batch 1 to one .tflite file;
memory is the largest resident memory of the process tree; inference is LiteRT's with XNNPACK, all
files in turns in one process. onnx2tf 2.6.9 runs on Python 3.12 in an environment of its own
(`bench/tflite.py` says how to make it), onnxsim's `export_tflite` in this one.

How the time of emitting alone grows, in processor seconds (`python -m bench.tflite`; dashed: in
proportion):

![Processor seconds against nodes, and against bytes](tflite-speed.svg)
"""


def main(names: list[str]) -> None:
    """Measures what is named, or everything."""
    rows = []
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="bench-") as folder:
        for name in names or ROWS:
            made = ROWS[name](Path(folder))
            for row in made if isinstance(made, list) else [made]:
                rows.append(row)
                print(" | ".join(row.cells), flush=True)
    if names:
        return
    lines = "\n".join(f"| {' | '.join(row.cells)} |" for row in rows)
    facts = asdict(describe_machine())
    machine = ", ".join(f"{key} {value}" for key, value in facts.items() if value)
    packages = ("torch", "onnx", "onnxruntime-gpu", "onnxscript", "onnxsim", "onnxslim", "onnx-ir")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    page = PAGE.format(rows=lines, machine=machine, versions=versions)
    (ROOT / "docs" / "performance.md").write_text(page)


if __name__ == "__main__":
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "docs").mkdir(exist_ok=True)
    main(sys.argv[1:])
