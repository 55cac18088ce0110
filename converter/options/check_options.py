"""The options of checks, of latency runs, and of how a run is carried out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from converter.options.option import declared

_check = partial(declared, "Checks", affects=("check",))
_latency = partial(declared, "Latency", affects=("bench",))
_bench = partial(declared, "Latency", needs="bench", affects=("bench",))
_running = partial(declared, "Running", affects=("run",))


@dataclass
class CheckOptions:
    """What is compared, and held to which limits."""

    check: bool = _check(
        "--check/--no-check",
        "Check accuracy against the source; left out, the report says so.",
        True,
        affects=("plan",),
    )
    probes: bool = _check(
        "--probes/--no-probes",
        "Check on other inputs, too: batches, other sizes, edges. Left out, the report says so.",
        True,
        needs="check",
        affects=("reference", "check"),
    )
    metric: list[str] = _check(
        "--metric",
        "Task metrics on labelled samples, by comma; or FILE.py:FUNCTION(outputs, label).",
        [],
        metavar="METRIC",
        split=True,
        usual=True,
        values="metrics",
        needs="check",
        affects=("samples", "quantize", "check"),
    )
    min_cosine: float | None = _check(
        "--min-cosine",
        "Gate: smallest cosine to the source; below fp32, as many layers as it takes stay in "
        "float32. Default by precision: 0.9999, 0.999, 0.99.",
        metavar="X",
        usual=True,
        needs="check or quantize",
        affects=("quantize", "emit", "check", "pack", "package"),
    )
    max_abs_error: float | None = _check(
        "--max-abs-error",
        "Gate: largest absolute error.",
        metavar="X",
        needs="check",
        affects=("emit", "check", "pack", "package"),
    )
    max_drop: float | dict[str, float] | None = _check(
        "--max-drop",
        "Gate: points that a metric, or each, may drop; below fp32, as many layers as it takes "
        "stay in float32. Needs labels. Default: 1 for metrics in percent.",
        metavar="[METRIC=]POINTS",
        usual=True,
        by_name=True,
        needs="check or quantize",
        affects=("quantize", "check"),
    )
    max_latency: float | None = _check(
        "--max-latency",
        "Gate: p95 latency at batch 1, in milliseconds.",
        metavar="MS",
        affects=("results",),
    )

    max_memory: str | None = _check(
        "--max-memory",
        "Gate: most memory that running it adds to a process: 200MB, 1.5GB, 64MiB.",
        metavar="SIZE",
        affects=("plan", "bench", "results"),
    )
    strict: bool = _check(
        "--strict",
        "Exit with 4, as for a missed gate, also where an output couldn't be judged, a lower "
        "precision lowered nothing, or the file has for every input what values decided.",
        False,
        usual=True,
        affects=("results",),
    )


@dataclass
class LatencyOptions:
    """What is measured."""

    bench: bool = _latency(
        "--bench/--no-bench", "Measure latency.", True, usual=True, affects=("plan",)
    )
    bench_batches: list[int] = _bench(
        "--bench-batch",
        "Batch sizes to measure, by comma.",
        [1],
        metavar="N,N",
        split=True,
        affects=("emit", "bench"),
    )
    bench_concurrency: list[int] = _bench(
        "--bench-concurrency,--concurrency",
        "Callers at once, by comma.",
        [1],
        metavar="N,N",
        split=True,
    )
    bench_seconds: float = _bench(
        "--bench-seconds", "Longest time for one point.", 3.0, metavar="S"
    )
    profile: bool = _latency(
        "--profile",
        "Time by operator and by layer of the source, from the runtime's own profiler.",
        False,
        affects=("plan", "bench"),
    )
    threads: int | None = _latency(
        "--threads",
        "Threads inside one inference. Default: all cores.",
        metavar="N",
        affects=("reference", "check", "bench", "package"),
    )
    providers: list[str] = _latency(
        "--provider",
        "Where ONNX Runtime runs artifacts, by comma. What one can't take "
        "goes to the next, tensorrt's to cuda, all else to the CPU; the report says how much.",
        ["cpu"],
        metavar="NAME",
        split=True,
        values="providers",
        affects=("emit", "check", "bench"),
    )
    cuda_graph: bool = _bench(
        "--cuda-graph/--no-cuda-graph", "Run engines as captured CUDA graphs where they can.", False
    )


@dataclass
class RunOptions:
    """How a run is carried out."""

    dry_run: bool = _running("--dry-run", "Print the plan and stop.", False, usual=True)
    offline: bool = _running("--offline", "Fetch nothing from a network.", False)
    cache: bool | str = _running(
        "--cache/--no-cache",
        "Reuse what earlier runs made: on this machine, and with a URL or a folder also what other "
        "machines keep there.",
        True,
        metavar="URL",
    )
    reuse_source: bool = _running(
        "--reuse-source",
        "Reuse what an earlier run read of a source that runs code, though files that the code "
        "reads by itself may have changed since.",
        False,
    )
