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
        "Compare the artifact's outputs with the source's. Without this check, the report says so.",
        True,
        affects=("plan",),
    )
    probes: bool = _check(
        "--probes/--no-probes",
        "Also check on batches, other sizes and edge cases. Without these checks, the report "
        "says so.",
        True,
        needs="check",
        affects=("reference", "check"),
    )
    metric: list[str] = _check(
        "--metric",
        "Task metrics on labelled samples, separated by commas, or FILE.py:FUNCTION(outputs, "
        "label).",
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
        "Gate: the smallest cosine similarity to the source. In a lower precision, Modelyard "
        "keeps as many layers in float32 as this needs. Default: 0.9999 for fp32, 0.999 for "
        "fp16, 0.99 for int8.",
        metavar="X",
        usual=True,
        needs="check or quantize",
        affects=("quantize", "emit", "check", "pack", "package"),
    )
    max_abs_error: float | None = _check(
        "--max-abs-error",
        "Gate: the largest absolute error.",
        metavar="X",
        needs="check",
        affects=("emit", "check", "pack", "package"),
    )
    max_drop: float | dict[str, float] | None = _check(
        "--max-drop",
        "Gate: how many points a metric (or every metric) may drop. In a lower precision, "
        "Modelyard keeps as many layers in float32 as this needs. It needs labels. Default: 1 "
        "for metrics in percent.",
        metavar="[METRIC=]POINTS",
        usual=True,
        by_name=True,
        needs="check or quantize",
        affects=("quantize", "check"),
    )
    max_latency: float | None = _check(
        "--max-latency",
        "Gate: the largest p95 latency at batch 1, in milliseconds.",
        metavar="MS",
        affects=("results",),
    )

    max_memory: str | None = _check(
        "--max-memory",
        "Gate: the most memory that the artifact may add to a process: 200MB, 1.5GB, 64MiB.",
        metavar="SIZE",
        affects=("plan", "bench", "results"),
    )
    strict: bool = _check(
        "--strict",
        "Also exit with 4 if an output couldn't be judged, if quantization changed nothing, or "
        "if the file fixes a decision that depends on input values.",
        False,
        usual=True,
        affects=("results",),
    )


@dataclass
class LatencyOptions:
    """What is measured."""

    bench: bool = _latency(
        "--bench/--no-bench", "Measure the latency.", True, usual=True, affects=("plan",)
    )
    bench_batches: list[int] = _bench(
        "--bench-batch",
        "The batch sizes to measure, separated by commas.",
        [1],
        metavar="N,N",
        split=True,
        affects=("emit", "bench"),
    )
    bench_concurrency: list[int] = _bench(
        "--bench-concurrency,--concurrency",
        "How many callers ask at the same time, separated by commas.",
        [1],
        metavar="N,N",
        split=True,
    )
    bench_seconds: float = _bench(
        "--bench-seconds", "The longest time for one measurement.", 3.0, metavar="S"
    )
    profile: bool = _latency(
        "--profile",
        "Also measure the time of each operator and each layer of the source, with the "
        "runtime's profiler.",
        False,
        affects=("plan", "bench"),
    )
    threads: int | None = _latency(
        "--threads",
        "The threads of one inference. Default: all cores.",
        metavar="N",
        affects=("reference", "check", "bench", "package"),
    )
    providers: list[str] = _latency(
        "--provider",
        "ONNX Runtime's execution providers, separated by commas. A node that a provider can't "
        "run goes to the next one, and at last to the CPU. The report says how many.",
        ["cpu"],
        metavar="NAME",
        split=True,
        values="providers",
        affects=("emit", "check", "bench"),
    )
    cuda_graph: bool = _bench(
        "--cuda-graph/--no-cuda-graph",
        "Run engines as captured CUDA graphs if they support it.",
        False,
    )


@dataclass
class RunOptions:
    """How a run is carried out."""

    dry_run: bool = _running("--dry-run", "Print the plan and stop.", False, usual=True)
    offline: bool = _running("--offline", "Fetch nothing from the network.", False)
    cache: bool | str = _running(
        "--cache/--no-cache",
        "Reuse the results of earlier runs. With a URL or a folder, also share results with other "
        "machines there.",
        True,
        metavar="URL",
    )
    reuse_source: bool = _running(
        "--reuse-source",
        "Reuse an earlier reading of a source that runs code. Files that this code reads by "
        "itself may have changed since then.",
        False,
    )
