"""docs/gpu.md, from what ``bench.gpu`` measured and ``tests/gpu`` found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "gpu.md"

HEAD = """# On a GPU

Made by `make gpu-test` (`python -m bench.gpu`). Every conversion runs on the machine itself, with
its gates; then everything is timed in turns in one process: a warm-up, five rounds of 0.3 s, the
median of the rounds with the smallest and the largest. *wall* is the time from the start of a run
until its last output lies in the device's memory, launches included; *device* is the time between
two CUDA events around the run. Inputs lie on the device before, and outputs stay there. TF32 is
off everywhere. PyTorch runs in inference mode; `torch.compile` has its defaults and compiles for
each shape. "engine" is TensorRT's, or TensorRT-RTX's where TensorRT isn't installed.
"""

PROVIDERS = """
## What runs where

- Engines (`--to tensorrt`, `--to tensorrt-rtx`) run in a process of their own, on the first GPU
  that CUDA_VISIBLE_DEVICES leaves. `check` copies inputs and outputs; `bench` times the device by
  CUDA events, each caller (`--bench-concurrency`) with a stream and an execution context of its
  own. `--cuda-graph` captures a run once and replays it, where sizes of outputs don't depend on
  values. Of several optimization profiles, the one whose best shapes are nearest is taken; inputs
  that fit none are refused.
- TensorRT-RTX compiles kernels on the device: before the first run of a shape, never beside what is
  timed, and they are kept in modelyard's cache.
- `--provider cuda`: ONNX Runtime on CUDA, what CUDA can't take on the CPU. `--provider tensorrt`:
  its TensorRT provider first, then CUDA, then the CPU; its engines are kept in modelyard's cache.
  A provider that doesn't start is an error. The report's `runtime` lists the providers that run and
  the nodes that each of them took, counted as they were assigned; `bench` leaves inputs and outputs
  in the device's memory and takes wall time. TF32 is off for both.
- Precision is in the graph in every case: no builder flag is set.
"""

NOT_RUN = """
**This has not run on a GPU yet.** The code that runs engines (`emitters/tensorrt/session.py`) is
written against the libraries' documentation and their bindings, and tested without a device as far
as that goes. No figure here, and none elsewhere, comes from a GPU.

`tests/tensorrt_session` runs that code, with NVIDIA's own bindings of the CUDA driver, on a driver
and a TensorRT that stand in below them.

The first thing that `make gpu-test` finds out is whether the engine library runs an engine on the
card at all: TensorRT-RTX's published list of devices has no data-centre Hopper in it.
"""


def write(results: Mapping[str, Any], titles: Mapping[str, str]) -> None:
    """Writes the page; without results it says that there are none."""
    PAGE.write_text(page(results, titles))


def page(results: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """The page's text.

    Args:
        results: As ``bench.gpu`` keeps them.
        titles: The models' titles, by name, in order.
    """
    measured = results.get("models", {})
    if not measured:
        return HEAD + NOT_RUN + PROVIDERS
    lines = [HEAD, *_machine(results)]
    for name, title in titles.items():
        if name in measured:
            lines += ["", f"## {title}", "", *_model(measured[name])]
    return "\n".join(lines) + "\n" + PROVIDERS


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
    for name, why in found["absent"].items():
        yield f"- {name}: not run: {_cell(why)}"


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
