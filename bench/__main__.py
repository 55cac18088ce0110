"""``python -m bench [NAME ...]``: measures, prints, and writes docs/performance.md.

Each part of the page is measured in one run, by its name: ``python -m bench whole growth`` makes
those two anew. Without names, all are. ``python -m bench scale`` writes docs/scale.md instead.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from bench import frameworks, growth, resident, scale, sweeps, whole, written
from bench.measure import Ratio, Row, in_turns, where, write_section
from zoo import catalogue

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PAGE = ROOT / "docs" / "performance.md"


def startup(folder: Path) -> list[Row]:
    """``modelyard --help`` against ``import click``."""
    ratio = in_turns(
        [str(BIN / "modelyard"), "--help"], [sys.executable, "-c", "import click"], folder, 15, 2
    )
    return [_ratio_row("`modelyard --help` / `python -c 'import click'`", ratio, 2.0)]


def int8(folder: Path) -> Iterator[Row]:
    """int8 in ONNX Runtime against float32 and quantize_static's."""
    from bench.int8 import compare

    for source, batches, least in (
        ("zoo:resnet50-random", (1, 8), 3.5),
        ("zoo:efficientnet-lite0", (1,), 2.9),
    ):
        for batch, speeds in compare(source, batches, folder).items():
            yield Row(
                f"{source}, batch {batch}, float32 / int8",
                speeds.describe(),
                f"x{least} or more, and x{SAME} of theirs or less",
                speeds.faster >= least and speeds.against_theirs <= SAME,
            )


def half(folder: Path) -> list[Row]:
    """float16 of BERT-base against onnxconverter-common's."""
    from bench.half import bert, compare, environment

    mine, theirs = compare(bert(folder), environment(folder))
    seen = Ratio(mine, theirs)
    return [_ratio_row("BERT-base, float16 / onnxconverter-common", seen, 1.0)]


SAME = 1.05
"""A ratio of two latencies from which one counts as slower: medians of one run vary by this."""


def zoo_latency(folder: Path) -> Iterator[Row]:
    """Models for phones in ONNX Runtime against LiteRT."""
    from zoo.page import convert

    for name in ("face-landmark", "iris-landmark", "face-detection-full-range", "wakeword-alexa"):
        made = convert(name, catalogue.entries()[name], folder)
        if made.ratio is None:
            raise RuntimeError(f"{name}: {made.error or 'it was not measured'}")
        seen = f"x{made.ratio:.2f}{made.kernels and f' ({made.kernels})'}"
        what = f"zoo:{name}, latency in ONNX Runtime / in its framework"
        yield Row(what, seen, "x1.0", made.ratio <= SAME)


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


TITLES = {"resnet50-random": "ResNet-50", "bert-base-random": "BERT-base, 128 tokens"}


def tflite(folder: Path) -> Iterator[Row]:
    """ONNX to TFLite, against onnx2tf and onnxsim."""
    from bench.tflite import measure, summary

    for name, title in TITLES.items():
        found = summary(measure(name, folder))
        what = f"{title}, ONNX to TFLite / the best of onnx2tf and onnxsim: time, memory, inference"
        ratios = f"x{found.seconds:.2f}, x{found.memory:.2f}, x{found.latency:.2f} ({found.text})"
        yield Row(what, ratios, "x0.2, x0.5, x1.0", found.met)


def coreml(folder: Path) -> Iterator[Row]:
    """ONNX to Core ML, against onnx2coreml and onnxsim."""
    from bench.coreml import PRECISIONS, measure, summary

    for name, precision in product(TITLES, PRECISIONS):
        found = summary(measure(name, precision, folder))
        what = (
            f"{TITLES[name]}, ONNX to Core ML in {precision} / the best of onnx2coreml and "
            "onnxsim: time, memory; outside of coremltools"
        )
        ratios = f"x{found.seconds:.2f}, x{found.memory:.2f}; {found.outside:.0%} ({found.text})"
        yield Row(what, ratios, "x1.0, x1.0; 20%", found.met)


def _ratio_row(what: str, ratio: Ratio, limit: float) -> Row:
    ours, theirs = ratio.medians
    low = min(a / b for a, b in zip(ratio.ours, ratio.theirs, strict=True))
    high = max(a / b for a, b in zip(ratio.ours, ratio.theirs, strict=True))
    seen = f"x{ratio.ratio:.2f} ({low:.2f}-{high:.2f}; {ours:.3g} s / {theirs:.3g} s)"
    return Row(what, seen, f"x{limit}", ratio.ratio <= limit)


@dataclass(frozen=True)
class Part:
    """A part of the page: its heading, its rows, and what is to know of them."""

    head: str
    measure: Callable[[Path], Iterable[Row]]
    text: str


PARTS = {
    "startup": Part("Starting", startup, """
The two commands run in turns. The first two rounds don't count.
"""),
    "whole": Part("Whole commands, against bare exporters", whole.rows, """
Modelyard goes from PyTorch weights on disk to one checked artifact: every check is on, with two
samples, a cold cache and no latency runs (`--no-bench`). The peer builds the same network, loads
the same weights, converts and saves. It checks nothing (`bench/peers/networks.py`). Weights are
random. Times are medians of three rounds in turns.

Memory is the largest proportional resident memory of the process tree, sampled four times a second.
Modelyard runs the framework in one process and the artifact's runtime in another. The seconds of
steps can overlap, because some steps run side by side. litert-torch 0.10.0 has an environment of
its own.

Memory is above the peer's where the network is small. The framework's process takes about as much
as the peer's, and Modelyard's own process (139 MB) and the simplifiers' (95 MB) exist beside it.
torch.onnx.export can't export Swin-T: it takes a view that the tensor's strides don't allow.
"""),
    "targets": Part("Several targets in one command", whole.targets, """
One command for three targets is compared with one command for ONNX alone, measured as above. The
targets share what is read and simplified. Modelyard checks one artifact while it writes another.
"""),
    "sweep": Part("A sweep, against its conversions one by one", sweeps.rows, """
`modelyard sweep` converts zoo models to ONNX, TFLite and Core ML, each in float32 and int8. It is
compared with one `modelyard convert` after another for the same artifacts. The two take turns,
without latency runs (`--no-bench`). Times are medians of two rounds. The conversions share a cache
that is as cold at first as the sweep's. *Again* is the same sweep when everything is there. *Warm*
is a sweep with a full cache and without its outputs, with `--reuse-source`.
"""),
    "ray": Part("A sweep on Ray, against here", sweeps.ray, """
The same sweep runs with a cold cache and with `--cache FOLDER`, a store that is empty at first. It
runs with `--executor ray` and without. The Ray cluster is this machine alone: one node with both
cores, started beforehand. Ray needs a store, and a local sweep doesn't. The second row therefore
includes the cost of writing the store. Times are medians of two rounds in turns. An earlier run of
the second row, on a slower and busier Intel Xeon, gave x1.16 (362.8 s / 312.9 s).
"""),
    "litert": Part("In LiteRT, beside litert-torch's files", written.litert, """
Both files have the same weights. They run at batch 1, in turns, in one process: LiteRT with XNNPACK
on all cores, medians of 15 runs. Modelyard's file takes any batch; litert-torch's has a fixed batch
of 1. Most networks take the same time in both files within a few per cent. The median is therefore
not below 0.9.
"""),
    "moved": Part("Core ML programs, beside coremltools' own", written.moved, """
Core ML can't run here. The table counts the operations of each ML Program, without constants, and
the bytes that they read and write at batch 1, weights included. coremltools converts the program of
torch.export. Both programs are in float32. Modelyard's takes any batch. It writes Swin-T's cyclic
shifts as slices and concatenations, where coremltools gathers. That takes more operations, and
fewer bytes.
"""),
    "zoo-latency": Part("Models for phones in ONNX Runtime", zoo_latency, """
The ratio is the median latency of the ONNX file in ONNX Runtime over that of the source in its own
framework (LiteRT), in turns. Where the ONNX file is slower, the row names the kernels that take the
time.

ONNX Runtime runs 66 nodes of zoo:wakeword-okay-nabu (x3.9). 14 of them are QLinearConv in int8. 26
convert between int8 and uint8 at the border of the graph, because the kernels for x86 want uint8.
An earlier run in one process, in turns, beside other work: the file takes 78.7 µs, and 64.0 µs
without these 26 nodes. A call that returns its inputs takes 15.7 µs. LiteRT takes 6.6 µs, and keeps
the states itself. Without the border the ratio would be x3.2: the call, and 40 nodes of a
microsecond each.
"""),
    "int8": Part("int8 in ONNX Runtime", int8, """
float32, Modelyard's int8 and that of `quantize_static` run in turns in one process, on all cores
(`bench/int8.py`). Where int8 is less fast than the limit, quantize_static's file takes as long:
ONNX Runtime's kernels give no more on this machine.
"""),
    "calibration": Part("Calibration", calibration, """
Each way runs in a process of its own (`bench/calibration.py`).
"""),
    "half": Part("float16", half, """
Each way runs in a process of its own (`bench/half.py`).
"""),
    "tflite": Part("Emitting TFLite", tflite, """
Whole commands are timed, from one ONNX file at batch 1 to one .tflite file. Memory is the largest
resident memory of the process tree. Inference is LiteRT's with XNNPACK, all files in turns in one
process. onnx2tf 2.6.9 runs on Python 3.12 in an environment of its own (`bench/tflite.py` says how
to make it). onnxsim's `export_tflite` runs in Modelyard's environment. For ResNet-50, half of
Modelyard's time is Python's start and imports.
"""),
    "coreml": Part("Emitting Core ML", coreml, """
Whole commands are timed, from one ONNX file at batch 1 to one .mlpackage. Memory is the largest
resident memory of the process tree. onnx2coreml 1.1.0 runs in an environment of its own
(`bench/coreml.py` says how to make it). onnxsim's `export_coreml` runs in Modelyard's environment.
*Outside of coremltools* is the share of emission's processor seconds that isn't spent in
coremltools' import, builder and conversion. Reading the ONNX file doesn't count.
Modelyard has coremltools validate a program once, not after every pass. Emission takes less time,
and the rest is a larger share of it.
"""),
    "frameworks": Part("Emitting PyTorch and OpenVINO", frameworks.rows, """
Each converter runs in a process of its own, from a model at batch 1 to the written files.
Modelyard starts from the IR, the peer from the ONNX file (`bench/frameworks.py`). A whole command
converts the file, checks the artifact on two samples and packs it. It is compared with `--to onnx`
and the peer's conversion together.
"""),
    "growth": Part("Growth", growth.rows, """
Each step of a whole command is timed by itself. The models are blocks of convolutions, products and
sums, and products of large matrices (`bench/growth.py`). The exponent is that between the two
largest models, of steps that take a second or more there. For models by bytes, seconds are sums of
steps. Reading and checking open the file in ONNX Runtime, whose own time grows faster than n log n.
ONNX Runtime is timed by itself.

![Seconds of passes and of emission over nodes](growth-nodes.svg)
![Seconds of passes and of emission over megabytes](growth-bytes.svg)
"""),
    "growth-precisions": Part("Memory by precision", resident.rows, """
The command converts and checks a product of nine large matrices, whose weights lie in a file of
their own (`bench/resident.py`). A row gives the most that its processes keep resident, as a share
of the weights' bytes. Mapped pages count. Pages that several processes share count once. What the
same command takes for one small matrix is subtracted, and stands beside it. Then follows the time,
beside float32's for that target.

LiteRT's interpreter alone holds the weights twice: 1,178 MB for the 604 MB file in float32, the
file's and those that XNNPACK packs. Modelyard checks a large file with fixed sizes as a compiled
model, whose packed weights lie in a file (672 MB, and the same numbers). These files have a free
batch, with which compiled models crash (LiteRT 2.3). Palettized weights spend most of their time on
their tables (k-means) and on finding each weight's place. ONNX Runtime looks up every weight when
it opens such a file, and holds the results.
"""),
}  # fmt: skip
"""By the names on the command line, in the page's order."""

PAGE_HEAD = """# Performance of modelyard itself

The command below each table makes that part, in one run. Whole commands are timed in turns. A ratio
is that of the medians. The machine is shared, so only ratios count.
"""

PACKAGES = (
    "torch", "transformers", "onnx", "onnxruntime-gpu", "onnxscript", "onnxsim", "onnxslim",
    "onnx-ir", "ai-edge-litert", "coremltools",
)  # fmt: skip


def write(name: str, rows: list[Row]) -> None:
    """Puts what was measured into its place in the page."""
    part = PARTS[name]
    if not PAGE.exists():
        PAGE.write_text(PAGE_HEAD)
    table = ["| what | seen | limit | met |", "|---|---|---|---|", *map(str, rows)]
    made = f"`python -m bench {name}`. {where(*PACKAGES)}"
    text = "\n\n".join([part.text.strip(), "\n".join(table), made])
    write_section(PAGE, f"## {part.head}", text)


def main() -> None:
    """Measures what is named, or everything."""
    if sys.argv[1:2] == ["scale"]:
        scale.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PARTS))
    parser.add_argument("--dry", action="store_true", help="print the rows, write nothing")
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(PARTS):
        parser.error(f"no {', '.join(sorted(unknown))}: {', '.join(PARTS)}")
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="bench-") as folder:
        for name in asked.names or PARTS:
            rows = []
            for row in PARTS[name].measure(Path(folder)):
                print(row, flush=True)
                rows.append(row)
                if not asked.dry:  # what was measured stays, wherever a run ends
                    write(name, rows)


if __name__ == "__main__":
    main()
