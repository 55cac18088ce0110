"""``python -m bench.serving``: each server's package under one load; perf_analyzer beside ours.

Writes "How fast" of docs/serving.md, or with ``--perf-analyzer`` "Beside perf_analyzer". One
machine, one model, one client, one run:

- requests a second of each package, in turns with the bare runtime in a loop;
- Triton's package in turns with a folder as Triton's documentation has it (user_guide,
  model_configuration.md, "Minimal Model Configuration" and "Dynamic Batcher"), both being served;
- with ``--perf-analyzer FILE``, the command lines of ``bench --export perf-analyzer`` in turns with
  our own load, on one Triton. Its wheel wants glibc 2.38; elsewhere FILE is a script:

    exec LIBRARIES/ld-linux-x86-64.so.2 --library-path LIBRARIES .../bin/perf_analyzer "$@"

Environments that ``modelyard serve`` hasn't set up yet are downloaded first, in minutes.
"""

from __future__ import annotations

import csv
import json
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import click
import numpy as np
import onnxruntime

from bench.measure import write_section
from converter import api, plugins
from converter.commands.serve import Served
from converter.machine import describe_machine

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "serving.md"
HEAD, BESIDE_HEAD = "## How fast", "## Beside perf_analyzer"
NAME, SIZE = "resnet50", 112
SERVERS = ("triton", "torchserve", "mlserver", "kserve", "bentoml", "litserve", "rayserve")
CALLERS = (1, 4)
BESIDE = (1, 2, 4)
SAME, NEAR = 0.15, 0.10
"""How far Triton's package may be from the folder by hand, and our load from perf_analyzer's."""

BY_HAND = """name: "{name}"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ 3, {size}, {size} ] }} ]
output [ {{ name: "{output}" data_type: TYPE_FP32 dims: [ 1000 ] }} ]
dynamic_batching {{ }}
{instances}
"""
INSTANCES = {"as it is": "", "one instance": "instance_group [ { count: 1 kind: KIND_CPU } ]"}
"""Where nothing is said, Triton makes two instances of an ONNX model on a CPU, each with threads
for all of its cores; our packages have one."""


@dataclass(frozen=True)
class Seen:
    """One measurement: requests a second; milliseconds of a request."""

    rate: float
    mean: float
    p95: float
    client: float | None = None


def median(seen: Sequence[Seen]) -> Seen:
    """The median of each figure."""
    shares = [item.client for item in seen if item.client is not None]
    return Seen(
        statistics.median(item.rate for item in seen),
        statistics.median(item.mean for item in seen),
        statistics.median(item.p95 for item in seen),
        statistics.median(shares) if shares else None,
    )


class Bench:
    """What all measurements share.

    Args:
        folder: Where the packages are made.
        rounds: How often each load is measured.
        seconds: How long one measurement takes.
        perf_analyzer: Its command; None leaves it out.
    """

    def __init__(
        self, folder: Path, rounds: int, seconds: float, perf_analyzer: str | None
    ) -> None:
        self.folder, self.rounds, self.seconds = folder, rounds, seconds
        self.perf_analyzer = perf_analyzer

    def convert(self, servers: Sequence[str]) -> None:
        """Makes the packages."""
        source = f"{ROOT / 'zoo' / 'architectures.py'}:ResNet50"
        line = [str(Path(sys.executable).parent / "modelyard"), "convert", source, "--name", NAME]
        line += ["--input", f"x:batchx3x{SIZE}x{SIZE}", "--serve", ",".join(servers)]
        line += ["--no-bench", "--out", str(self.folder / "out")]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
        model = next((self.folder / "out").rglob("*.onnx"))
        self.session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.model = model

    def package(self, server: str) -> Path:
        """A server's package."""
        return self.folder / "out" / "serving" / server / NAME

    def by_hand(self, which: str) -> Path:
        """The folder as the documentation has it, with what :data:`INSTANCES` says."""
        folder = self.folder / which.replace(" ", "-") / NAME
        (folder / "1").mkdir(parents=True)
        (folder / "1" / "model.onnx").symlink_to(self.model)
        output = self.session.get_outputs()[0].name
        text = BY_HAND.format(name=NAME, size=SIZE, output=output,
                              instances=INSTANCES[which])  # fmt: skip
        (folder / "config.pbtxt").write_text(text)
        return folder

    def bare(self) -> Seen:
        """The runtime in a loop, with its own defaults."""
        feeds = {"x": np.random.default_rng(0).random((1, 3, SIZE, SIZE), np.float32)}
        self.session.run(None, feeds)
        times, start = list[float](), time.perf_counter()
        while (begin := time.perf_counter()) < start + self.seconds:
            self.session.run(None, feeds)
            times.append((time.perf_counter() - begin) * 1e3)
        rate = len(times) / (time.perf_counter() - start)
        return Seen(rate, statistics.mean(times), float(np.percentile(times, 95)))

    def load(self, server: str, served: Served, callers: int) -> Seen:
        """Our load on a server.

        Args:
            server: Whose package it is.
            served: The running server.
            callers: How many ask at once.

        Raises:
            RuntimeError: An answer is missing or wrong.
        """
        protocol = "json" if "json" in served.addresses else None
        (point,) = api.bench_server(
            str(self.package(server)), served.addresses[protocol or "v2"], protocol=protocol,
            bench_concurrency=[callers], bench_batches=[1], bench_seconds=self.seconds,
        ).points  # fmt: skip
        if point.errors or point.wrong or point.mean_ms is None:
            raise RuntimeError(f"{server}: {point}")
        p95 = float("nan") if point.p95_ms is None else point.p95_ms
        return Seen(point.throughput, point.mean_ms, p95, point.client_share)

    def theirs(self, served: Served, callers: int) -> Seen:
        """perf_analyzer's load, as ``--export`` writes it; it measures at least three windows."""
        folder = self.folder / "load"
        api.bench_server(
            str(self.package("triton")), served.addresses["v2"], bench_concurrency=[callers],
            bench_batches=[1], bench_seconds=self.seconds / 3,
            export=("perf-analyzer", str(folder)),
        )  # fmt: skip
        line = shlex.split((folder / "perf_analyzer.sh").read_text().splitlines()[-1])
        line += ["--stability-percentage", "999", "--verbose-csv", "-f", "said.csv"]
        assert self.perf_analyzer
        subprocess.run([self.perf_analyzer, *line[1:]], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        (row,) = csv.DictReader((folder / "said.csv").open())
        mean = float(row["request/response"]) + float(row["response wait"])  # microseconds
        return Seen(float(row["Inferences/Second"]), mean / 1e3, float(row["p95 latency"]) / 1e3)

    def in_turns(self, *loads: Callable[[], Seen]) -> list[Seen]:
        """Medians of loads that take turns, after a round that doesn't count."""
        rounds = [[load() for load in loads] for _ in range(self.rounds + 1)]
        return [median(column) for column in zip(*rounds[1:], strict=True)]


def measure(bench: Bench, servers: Sequence[str]) -> dict[str, list[tuple[str, ...]]]:
    """The tables' rows."""
    tables: dict[str, list[tuple[str, ...]]] = {"servers": [], "hand": []}

    def tell(table: str, *cells: str) -> None:
        tables[table].append(cells)
        print(" | ".join(cells), flush=True)

    for server in servers:
        package = bench.package(server)
        with api.serve(str(package), port=0) as served:
            loads = [partial(bench.load, server, served, n) for n in CALLERS]
            bare, *seen = bench.in_turns(bench.bare, *loads)
            needs = plugins.load("servers", server).environment(package).requirements[0]
            tell("servers", needs.replace("==", " "), "json" if "json" in served.addresses else
                 "v2", *(cell for item in seen for cell in against(item, bare)),
                 f"{bare.rate:.1f}", share(seen[-1].client))  # fmt: skip
            if server != "triton":
                continue
            for which in INSTANCES:
                with api.serve(str(bench.by_hand(which)), port=0) as hand:
                    for n in CALLERS:
                        pair = (partial(bench.load, server, place, n) for place in (served, hand))
                        ours, theirs = bench.in_turns(*pair)
                        tell("hand", which, str(n), *compared(ours, theirs, SAME))
    return tables


def beside(bench: Bench) -> list[tuple[str, ...]]:
    """The rows of our load on Triton beside perf_analyzer's."""
    rows = []
    with api.serve(str(bench.package("triton")), port=0) as served:
        for n in BESIDE:
            ours, theirs = bench.in_turns(
                partial(bench.load, "triton", served, n), partial(bench.theirs, served, n)
            )
            rows.append((str(n), *compared(ours, theirs, NEAR)))
            print(" | ".join(rows[-1]), flush=True)
    return rows


def against(seen: Seen, bare: Seen) -> tuple[str, ...]:
    """Requests a second and of the bare runtime's, mean, p95."""
    return (f"{seen.rate:.1f} (x{seen.rate / bare.rate:.2f})", f"{seen.mean:.1f} / {seen.p95:.1f}")


def compared(ours: Seen, theirs: Seen, limit: float) -> tuple[str, ...]:
    """Each figure of both with their ratio, and whether all are within the limit.

    Args:
        ours: What we measured.
        theirs: What they measured.
        limit: How far a ratio may be from 1.
    """
    pairs = [(ours.rate, theirs.rate), (ours.mean, theirs.mean), (ours.p95, theirs.p95)]
    cells = [f"x{a / b:.2f} ({a:.1f} / {b:.1f})" for a, b in pairs]
    return (*cells, "yes" if all(abs(a / b - 1) <= limit for a, b in pairs) else "**no**")


def share(number: float | None) -> str:
    """Per cent."""
    return "–" if number is None else f"{number:.0%}"


TEXT = """`python -m bench.serving` makes this section, in {minutes:.0f} minutes. The model is ResNet-50 with random weights at
{size} x {size}, in float32, with one sample a request. Callers ask in closed loops of {seconds:g} s. Figures are medians of
{rounds} rounds, in which the servers take turns. `convert` makes every package without options. Client and server
share the machine. *bare* is ONNX Runtime in a loop in one process, on all cores, without a server: x1.00.

| server | protocol | 1 caller: requests/s | mean / p95 ms | 4 callers: requests/s | mean / p95 ms | bare runs/s | client's CPU, of the server's |
|---|---|---|---|---|---|---|---|
{servers}

A request holds {numbers:,} numbers. They take about {json_kb} kB in JSON, and {binary_kb} kB in V2's binary tensors.

The next table compares Triton's package with a folder written by hand, as Triton's documentation shows it (platform,
inputs, outputs, `max_batch_size`, `dynamic_batching {{ }}`). Both run on the wheel's Triton with Modelyard's backend.
By default, Triton makes two instances of the folder by hand, each with threads for all cores. Modelyard's package has
one:

| by hand | callers | requests/s | mean ms | p95 ms | within {same:.0%} |
|---|---|---|---|---|---|
{hand}

Machine: {machine}.
Client and bare runtime: {versions}.
"""  # noqa: E501 - a table's row is one line


BESIDE_TEXT = """The table gives `bench --server` over perf_analyzer, which runs the line of `--export perf-analyzer`. Both ask the
wheel's Triton with the same network. `python -m bench.serving --perf-analyzer FILE --seconds {seconds:g}` makes this section,
in {minutes:.0f} minutes: closed loops of {seconds:g} s, medians of {rounds} rounds in turns.

| callers | requests/s | mean ms | p95 ms | within {near:.0%} |
|---|---|---|---|---|
{beside}

Machine: {machine}.
Client: {versions}.
"""  # noqa: E501 - a table's row is one line


def page(tables: Mapping[str, Sequence[Sequence[str]]], rounds: int, seconds: float,
         taken: float) -> str:  # fmt: skip
    """The part of the page: of ``beside`` alone, or of what else was measured.

    Args:
        tables: Rows by table: ``beside`` alone, or what else was measured.
        rounds: How often each load was measured.
        seconds: How long one measurement took.
        taken: How long everything took, in seconds.
    """
    rows = {name: "\n".join(f"| {' | '.join(row)} |" for row in table) or "| not measured |"
            for name, table in tables.items()}  # fmt: skip
    machine = ", ".join(f"{key} {value}" for key, value in asdict(describe_machine()).items()
                        if value)  # fmt: skip
    versions = f"Python {platform.python_version()}, ONNX Runtime {onnxruntime.__version__}"
    image = np.random.default_rng(0).random((3, SIZE, SIZE), np.float32)
    return (BESIDE_TEXT if "beside" in tables else TEXT).format(
        size=SIZE, seconds=seconds, rounds=rounds, minutes=taken / 60, same=SAME,
        near=NEAR, machine=machine, versions=versions, numbers=image.size,
        json_kb=len(json.dumps(image.tolist())) // 1000, binary_kb=image.nbytes // 1000, **rows,
    )  # fmt: skip


@click.command(help=__doc__)
@click.option("--servers", default=",".join(SERVERS), show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--seconds", default=2.0, show_default=True)
@click.option("--perf-analyzer", metavar="FILE", help="Beside this alone; the server is Triton.")
@click.option("--dry", is_flag=True, help="Print the part, and don't write it.")
def main(
    servers: str, rounds: int, seconds: float, perf_analyzer: str | None, dry: bool
) -> None:  # fmt: skip
    """Measures, prints, writes."""
    start = time.monotonic()
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="bench-") as folder:
        bench = Bench(Path(folder), rounds, seconds, perf_analyzer)
        chosen = ["triton"] if perf_analyzer else servers.split(",")
        bench.convert(chosen)
        tables = {"beside": beside(bench)} if perf_analyzer else measure(bench, chosen)
    text = page(tables, rounds, seconds, time.monotonic() - start)
    if dry:
        print(text)
    else:
        write_section(PAGE, BESIDE_HEAD if perf_analyzer else HEAD, text)


if __name__ == "__main__":
    main()
