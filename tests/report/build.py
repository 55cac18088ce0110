"""Reports as a run would make them, from made-up numbers."""

from functools import cache
from typing import Any

import numpy as np

from converter.check.accuracy import AccuracyResult, StepError
from converter.check.comparison import Comparison
from converter.check.gates import LOWERED, Limits, flagged, judge
from converter.check.latency import LatencyPoint, LatencyRatio, LatencyResult
from converter.check.metric import MetricResult, MetricSample
from converter.check.metrics import Comparer
from converter.ir.model import PassRecord
from converter.machine import Machine
from converter.options.request import Request
from converter.report.model import (
    ArtifactReport,
    Interface,
    PackageReport,
    Report,
    SamplesReport,
    SourceReport,
    StepReport,
    StepTiming,
)

IMAGE = Interface(name="x", type="float32[batch, 3, 224, 224]", layout="NCHW", meaning="image")
RESHAPED, FOLDED = "it changed the shape of logits", "53 BatchNormalization folded"


@cache
def comparison(noise: float, names: tuple[str, ...] = ("logits",), samples: int = 64) -> Comparison:
    """Outputs that differ by ``noise`` times a normal distribution."""
    rng = np.random.default_rng(7)
    comparer = Comparer()
    for number in range(samples):
        expected = {
            name: rng.normal(0, 3, (1, 1000)).astype(np.float32) * (1 + i)
            for i, name in enumerate(names)
        }
        scale = noise * np.exp(rng.normal(0, 0.7))
        found = {
            name: (array + scale * (1 + i) * rng.normal(0, 1, array.shape)).astype(np.float32)
            for i, (name, array) in enumerate(expected.items())
        }
        comparer.add(expected, found, f"ILSVRC2012_val_{number + 1:08d}.JPEG")
    return comparer.result()


def point(role: str, batch: int, callers: int, median: float, n: int) -> LatencyPoint:
    """A latency point around ``median`` milliseconds."""
    ms = np.random.default_rng(batch * 10 + callers).lognormal(np.log(median), 0.08, n)

    def quantile(percent: int) -> float:
        return float(np.percentile(ms, percent))

    return LatencyPoint(
        role="artifact" if role == "artifact" else "source",
        name="onnxruntime 1.23.2" if role == "artifact" else "torch 2.9.1", batch=batch,
        concurrency=callers, n=n, rounds=5, mean_ms=float(ms.mean()), min_ms=float(ms.min()),
        p25_ms=quantile(25), p50_ms=quantile(50), p75_ms=quantile(75),
        p90_ms=quantile(90) if n >= 10 else None, p95_ms=quantile(95) if n >= 20 else None,
        p99_ms=quantile(99) if n >= 100 else None, max_ms=float(ms.max()),
        iqr=(quantile(75) - quantile(25)) / quantile(50), run_to_run=0.031,
        throughput=batch * callers * 1000 / float(ms.mean()), warmup_runs=40, warm=n > 30,
        threads=2,
        notes=() if n >= 1000 else (f"{n} runs are too few for a p99",) if n < 100 else (),
    )  # fmt: skip


def latency(scale: float = 1.0) -> LatencyResult:
    """Two batch sizes, two numbers of callers, with the source."""
    points, ratios = [], []
    for batch, callers, ours, theirs in ((1, 1, 14.2, 24.8), (1, 2, 27.0, 46.1), (8, 1, 98.0, 149)):
        n = int(3000 / (ours * scale))
        points += [point("artifact", batch, callers, ours * scale, n)]
        points += [point("source", batch, callers, theirs, max(n // 2, 12))]
        ratio = theirs / (ours * scale)
        ratios.append(LatencyRatio(batch, callers, ratio, ratio * 0.96, ratio * 1.05))
    return LatencyResult(tuple(points), tuple(ratios))


def artifact(
    precision: str = "fp32", noise: float = 1e-5, *, names: tuple[str, ...] = ("logits",),
    metrics: tuple[MetricResult, ...] = (), limits: Limits | None = None, scale: float = 1.0,
    steps: bool = True,
) -> ArtifactReport:  # fmt: skip
    """An artifact with everything in it."""
    compared = comparison(noise, names)
    measured = latency(scale)
    judged = judge(
        limits or Limits.of(Request("net.py:Net", max_latency=20.0), precision),
        AccuracyResult(compared, metrics), measured.artifact,
        metrics_asked=[metric.name for metric in metrics],
    )  # fmt: skip
    made = ArtifactReport(
        target="onnx", precision=precision, path=f"onnx/{precision}/model.onnx",
        bytes=102_443_071 if precision == "fp32" else 25_900_112, sha256="9f" * 32, opset=20,
        nodes_before=176, nodes_after=122,
        runtime={"name": "onnxruntime", "version": "1.23.2", "providers": ["CPU"], "threads": 2},
        gates=judged, accuracy=compared, metrics=list(metrics), details={"external data": False},
        decisions=["The batch dimension is dynamic: batch 1 and 2 were run."],
    )  # fmt: skip
    made.add_latency(measured)
    if precision != "fp32":
        made.lowered_share, made.stored_share = 0.905, 0.98
        made.computes = {"int8": 0.905, "float32": 0.095}
        made.size_ratio, made.size_against = 0.25282, "onnx fp32"
    if steps:
        exact, small, larger, all_of_it = (
            comparison(each, names, 4) for each in (0, 3e-6, 4e-6, noise)
        )
        rows = [
            StepError("parse", small, small), StepError("normalize", small, exact),
            StepError("onnxscript-optimizer: constant folding", larger, small),
            StepError(f"emit {precision}", all_of_it, all_of_it),
        ]  # fmt: skip
        made.steps = [StepReport.of(row) for row in rows]
    return made


def report(*artifacts: ArtifactReport, **changes: Any) -> Report:
    """A report around artifacts."""
    fields: dict[str, Any] = {
        "tool": "modelyard 0.1.0",
        "title": "resnet50",
        "source": SourceReport(
            name="resnet50", format="pytorch", framework="PyTorch 2.9.1", sha256="3c" * 32,
            parameters=25_557_032, weight_bytes=102_228_128, inputs=[IMAGE],
            outputs=[Interface(name="logits", type="float32[batch, 1000]", meaning="scores")],
        ),
        "samples": SamplesReport(
            origin="folder of images (photos)", count=64, digest="ab" * 32, labelled=True
        ),
        "artifacts": list(artifacts) or [artifact()],
        "passes": [
            PassRecord("upgrade-opset", "changed", 178, 176, "18 to 20", 1.0, 0.0, 0.11),
            PassRecord("normalize", "unchanged", 176, 176, "", 1.0, 0.0, 0.05),
            PassRecord("onnxsim", "rolled-back", 176, 176, RESHAPED, None, None, 1.9),
            PassRecord("onnxslim", "changed", 176, 122, FOLDED, 1 - 2e-12, 2e-6, 0.7),
        ],
        "packages": [
            PackageReport(
                server="triton", path="serving/triton/resnet50",
                details={"max batch": 8, "version": 1, "instances": "1 on CPU", "warm-ups": [1, 8]},
                decisions=["Dynamic batching is on: the model takes any batch."],
            )
        ],
        "machine": Machine(
            "AMD EPYC 9R14", 2, 2.0, 15.4, "Linux 6.1 (Debian GNU/Linux 12), x86_64", "3.11.7",
            ("avx2", "fma", "avx512f", "avx512_vnni"),
        ),
        "versions": {"onnx": "1.20.0", "onnxruntime-gpu": "1.23.2", "torch": "2.9.1"},
        "timings": [
            StepTiming(step="parse", seconds=11.3),
            StepTiming(step="simplify", seconds=2.9, cached=True),
            StepTiming(step="check onnx fp32", seconds=74.2),
        ],
    }  # fmt: skip
    return Report(**{**fields, **changes})


def drop(source: float, candidate: float) -> MetricResult:
    """A top1 that went from ``source`` to ``candidate`` percent."""
    example = MetricSample("ILSVRC2012_val_00000012.JPEG", 1.0, 0.0)
    return MetricResult(
        "top1", "%", True, 64, source, candidate, source - candidate, 2, 1, (example, example)
    )


def failing() -> Report:
    """Two artifacts, of which the int8 one misses gates; a loud warning."""
    bad = artifact(
        "int8", 0.6, names=("logits", "embedding"), metrics=(drop(81.25, 76.5625),), scale=1.6
    )
    good = artifact(metrics=(drop(81.25, 81.25),), names=("logits", "embedding"))
    made = report(good, bad)
    made.warn(
        "No weights were loaded: the model has the values it was constructed with.", loud=True
    )
    made.warn("The source's dropout layers were switched off.")
    return made


def unlowered() -> Report:
    """fp16 in which nothing is float16."""
    made = artifact("fp16")
    made.lowered_share = made.stored_share = 0.0
    made.size_ratio, made.size_against = 0.9951, "onnx fp32"
    made.gates.append(flagged(LOWERED, "conv0 stays float32: asked for", strict=False))
    return report(artifact(), made)


def on_random_inputs() -> Report:
    """A check on random inputs, without latency."""
    made = artifact(steps=False)
    made.latency, made.ratios = [], []
    made.gates = judge(Limits(0.9999), AccuracyResult(made.accuracy or Comparison(0, ())), ())
    samples = SamplesReport(origin="random:8, seed 0", count=8, random=True)
    return report(made, samples=samples, packages=[], title="mnist-12")


def with_long_names(name: str = "") -> Report:
    """Names as long as exporters make them."""
    long = name or "model/decoder/transformer/h_11/attention/output/LayerNorm/batchnorm/add_1:0"
    made = artifact("fp16", 1e-3, names=(long, long + "/Identity", "a", "b", "c"))
    made.path = f"onnx/fp16/{long}.onnx"
    made.decisions = [f"{long} stays in float32: its values reach 81,920"]
    for step in made.steps[1:3]:
        step.step = f"{step.step} {long}"
    made.gates = judge(
        Limits(0.999, max_abs=1e-9, latency_ms=5),
        AccuracyResult(made.accuracy or Comparison(0, ())),
        [p for p in made.latency if p.role == "artifact"], metrics_asked=[f"{long}.py:score"],
    )  # fmt: skip
    tokens = Interface(name=long, type="int64[batch, sequence]", meaning=long)
    return report(
        made, title=long, source=SourceReport(name=long, format=long, inputs=[tokens]),
        passes=[PassRecord(long, "failed", 10, 10, long)],
        alerts=[{"text": long, "loud": True}, {"text": long}], versions={long: long},
    )  # fmt: skip
