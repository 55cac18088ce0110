"""docs/gpu.md, from what ``bench.gpu`` measured and ``tests/gpu`` found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "gpu.md"

HEAD = """# On a GPU

`make gpu-test` (`python -m bench.gpu`) makes this page. Every conversion runs on the machine
itself, with its gates. Then everything is timed in turns in one process: a warm-up, and five rounds
of 0.3 s. A row gives the median of the rounds, with the smallest and the largest.

- *wall* is the time from the start of a run until its last output is in the device's memory,
  launches included.
- *device* is the time between two CUDA events around the run.
- Inputs are on the device before a run, and outputs stay there. TF32 is off everywhere.
- PyTorch runs in inference mode. `torch.compile` has its defaults and compiles for each shape.
- *engine* is TensorRT's, or TensorRT-RTX's where TensorRT isn't installed.
"""

PROVIDERS = """
## What runs where

- Engines (`--to tensorrt`, `--to tensorrt-rtx`) run in a process of their own, on the first GPU
  that CUDA_VISIBLE_DEVICES leaves. `check` copies inputs and outputs. `bench` times the device with
  CUDA events. Each caller (`--bench-concurrency`) has a stream and an execution context of its own.
  `--cuda-graph` captures a run once and replays it, where sizes of outputs don't depend on values.
  If an engine has several optimization profiles, Modelyard takes the one whose best shapes are
  nearest. It refuses inputs that fit no profile.
- TensorRT-RTX compiles kernels on the device before the first run of a shape, and never during a
  timed run. Modelyard keeps the kernels in its cache.
- `--provider cuda` runs ONNX Runtime on CUDA. Nodes that CUDA can't take run on the CPU.
- `--provider tensorrt` runs ONNX Runtime's TensorRT provider first, then CUDA, then the CPU.
  Modelyard keeps its engines in the cache.
- A provider that doesn't start is an error. The report's `runtime` lists the providers that run,
  and counts the nodes that ONNX Runtime assigned to each. `bench` leaves inputs and outputs in the
  device's memory and takes wall time. TF32 is off for both providers.
- The graph holds the precision in every case. Modelyard sets no builder flag.
"""

ENGINES = """
## Engines have not run on a GPU yet

TensorRT-RTX 1.7.1.116 runs on compute capability 8.0, 8.6, 8.9, 12.0 and 12.1. An H200 has 9.0.
There TensorRT-RTX opens no engine, not even one that it built on that machine. It says: "The engine
cannot run on this GPU, which has compute capability 9.0. [...] TensorRT-RTX does not support this
compute capability, so the engine cannot be rebuilt for it." TensorRT itself runs there, but its
libraries come only from NVIDIA and weren't available. `emitters/tensorrt/session.py` runs engines.
It was written from the libraries' documentation and their bindings. `tests/tensorrt_session` runs
it with NVIDIA's own bindings of the CUDA driver; below them, a driver and a TensorRT are stand-ins.
On such a GPU, Modelyard checks an engine's typed graph in ONNX Runtime, and the report says so.
"""


def write(results: Mapping[str, Any], titles: Mapping[str, str]) -> None:
    """Writes the page.

    Raises:
        SystemExit: Nothing was measured.
    """
    if not results.get("models"):
        raise SystemExit("nothing was measured: run python -m bench.gpu on a machine with a GPU")
    PAGE.write_text(page(results, titles))


def page(results: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """The page's text.

    Args:
        results: As ``bench.gpu`` keeps them.
        titles: The models' titles, by name, in order.
    """
    measured = results["models"]
    lines = [HEAD, *_machine(results)]
    for name, title in titles.items():
        if name in measured:
            lines += ["", f"## {title}", "", *_model(measured[name])]
    engines = "" if _ran_engine(measured) else ENGINES
    return "\n".join(lines) + "\n" + engines + PROVIDERS


def _ran_engine(measured: Mapping[str, Any]) -> bool:
    figures = (figure for found in measured.values() for figure in found["figures"])
    return any(figure["competitor"].startswith("engine") for figure in figures)


def _machine(results: Mapping[str, Any]) -> Iterator[str]:
    machine = results["machine"]
    device = "; ".join(machine["gpus"]) or "not told"
    yield f"Device: {device}. CPU: {machine['cpu']}, {machine['os']}."
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    yield f"Versions: Python {machine['python']}, {versions}."


def _model(found: Mapping[str, Any]) -> Iterator[str]:
    yield "| artifact | gates | where |"
    yield "|---|---|---|"
    yield from map(_accuracy, found["accuracy"])
    yield ""
    for batch in sorted({figure["batch"] for figure in found["figures"]}):
        yield from _latency([item for item in found["figures"] if item["batch"] == batch], batch)
    reasons: dict[str, list[str]] = {}
    for name, why in found["absent"].items():
        reasons.setdefault(_cell(why), []).append(name)
    yield from (f"- Not run: {'; '.join(names)}: {why}" for why, names in reasons.items())


def _accuracy(item: Mapping[str, Any]) -> str:
    if "error" in item:
        return f"| {item['artifact']} | **none**: {_cell(item['error'])} | - |"
    gates = ", ".join(
        f"{gate['name']} {gate['value']:.6g}"
        + ("" if gate["status"] == "passed" else " **missed**")
        for gate in item["gates"]
        if gate["value"] is not None
    )
    runtime = item["runtime"]
    where = runtime.get("device") or ", ".join(map(str, runtime.get("providers", ())))
    if runtime.get("not_run"):
        where = f"{where}: {runtime['runs']}; the engine was not run"
    return f"| {item['artifact']} | {gates} | {_cell(str(where))} |"


def _latency(figures: Sequence[Mapping[str, Any]], batch: int) -> Iterator[str]:
    yield f"| batch {batch} | wall ms | device ms | to PyTorch eager, same precision | |"
    yield "|---|---|---|---|---|"
    eager = {
        item["competitor"].rsplit(" ", 1)[1]: item["wall_ms"]
        for item in figures
        if item["competitor"].startswith("PyTorch eager")
    }
    for item in figures:
        precision = item["competitor"].split(",")[0].rsplit(" ", 1)[1]
        base = eager.get(precision)
        wall = f"{item['wall_ms']:.3f} ({item['low_ms']:.3f}-{item['high_ms']:.3f})"
        device = "-" if item["device_ms"] is None else f"{item['device_ms']:.3f}"
        ratio = "-" if base is None else f"x{base / item['wall_ms']:.2f}"
        yield f"| {item['competitor']} | {wall} | {device} | {ratio} | {item['note']} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "/")
