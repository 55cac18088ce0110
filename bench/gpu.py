"""``python -m bench.gpu [MODEL ...]``: engines against PyTorch and ONNX Runtime on a GPU.

What is measured is added to build/gpu/results.json, and docs/gpu.md is written from all that is
there; ``--page`` only writes the page. For each model and batch size everything is measured in
turns in one process: a warm-up, then rounds. A competitor that can't run is listed with its reason.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from bench import gpu_page
from bench.gpu_models import BUILD, PRECISIONS, SUBJECTS, Made, Subject, converted
from converter.errors import ModelyardError
from converter.machine import describe_machine
from converter.options.recipe import make_request
from converter.protocols.emitter import Artifact
from converter.runtime.session import Timing

RESULTS = BUILD / "results.json"
BATCHES = (1, 32)
ROUNDS = 5
ROUND_SECONDS = 0.3
WARM_SECONDS = 0.5

PACKAGES = (
    *("torch", "triton", "onnxruntime-gpu", "tensorrt", "tensorrt-cu13", "tensorrt-rtx"),
    *("onnx", "numpy"),
)


@dataclass(frozen=True)
class Figure:
    """One competitor at one batch size.

    Attributes:
        wall_ms: Median over rounds of a run's wall time, from its start to its last output in
            the device's memory.
        low_ms, high_ms: Smallest and largest of a round.
        device_ms: Median of a run's time by CUDA events; None where the runtime has none.
    """

    competitor: str
    batch: int
    wall_ms: float
    low_ms: float
    high_ms: float
    device_ms: float | None
    note: str = ""


@dataclass(frozen=True)
class Competitor:
    """What is timed: its name, how it is opened, and whether it times by CUDA events."""

    name: str
    open: Callable[[], Any]
    events: bool = True


def engine_target() -> str:
    """``tensorrt`` where it is installed, else ``tensorrt-rtx``.

    Raises:
        DependencyError: Neither is.
    """
    from emitters.tensorrt.libraries import find, installed

    return "tensorrt" if installed("tensorrt") else find("tensorrt-rtx").name


def competitors(subject: Subject) -> Iterator[Competitor]:
    """All of them, PyTorch first."""
    from bench.gpu_torch import TorchOnGpu, load_module

    for half in (False, True):
        for compiled in (False, True):
            name = (
                f"{'torch.compile' if compiled else 'PyTorch eager'} {'fp16' if half else 'fp32'}"
            )
            yield Competitor(
                name,
                lambda half=half, compiled=compiled: TorchOnGpu(
                    load_module(subject.reference), half=half, compiled=compiled
                ),
            )
    for precision in ("fp32", "fp16"):
        yield Competitor(
            f"ONNX Runtime CUDA {precision}",
            lambda precision=precision: _open(
                "onnx", converted(subject, "onnx", precision, providers=["cuda"]), "cuda"
            ),
            events=False,
        )
    for precision in PRECISIONS:
        for graph in (False, True):
            yield Competitor(
                f"engine {precision}{', CUDA graph' if graph else ''}",
                lambda precision=precision, graph=graph: _engine(subject, precision, graph),
            )


def _engine(subject: Subject, precision: str, graph: bool) -> Any:
    target = engine_target()
    made = converted(subject, target, precision, providers=["cpu"])
    return _open(target, made, "cpu", cuda_graph=graph)


def _open(target: str, made: Made, provider: str, **options: Any) -> Any:
    from converter import plugins

    emitter = plugins.load("emitters", target)
    artifact = Artifact(target, made.report["precision"], made.path, [made.path])
    return emitter.open(
        artifact, make_request({"source": str(made.path), "providers": [provider], **options})
    )


def reason(error: Exception) -> str:
    """An error in a line: ours without its hint, with the first of its details."""
    if not isinstance(error, ModelyardError):
        return " ".join(str(error).split())
    return ": ".join([error.message, *error.details[:1]])


def measure(subject: Subject) -> dict[str, Any]:
    """Every competitor at every batch size, and what kept the others away."""
    open_ones: dict[str, tuple[Competitor, Any]] = {}
    absent: dict[str, str] = {}
    for competitor in competitors(subject):
        print(f"{subject.title}: opening {competitor.name}", flush=True)
        try:
            open_ones[competitor.name] = (competitor, competitor.open())
        except (ModelyardError, ImportError, RuntimeError) as error:
            absent[competitor.name] = reason(error)
    figures = []
    for batch in BATCHES:
        figures += _in_turns(open_ones, subject, batch, absent)
    for _, session in open_ones.values():
        session.close()
    return {
        "figures": [asdict(figure) for figure in figures],
        "absent": absent,
        "accuracy": accuracy(subject),
    }


def _in_turns(
    sessions: Mapping[str, tuple[Competitor, Any]],
    subject: Subject,
    batch: int,
    absent: dict[str, str],
) -> list[Figure]:
    feeds = subject.feeds(batch)
    run_ns: dict[str, float] = {}
    for name, (_, session) in sessions.items():
        print(f"{subject.title}: batch {batch}, warming {name}", flush=True)
        try:
            run_ns[name] = _warm(session, _taken(session, feeds))
        except (ModelyardError, RuntimeError) as error:
            absent[f"{name}, batch {batch}"] = reason(error)
    rounds: dict[str, list[Timing]] = {name: [] for name in run_ns}
    for _ in range(ROUNDS):
        for name, taken in rounds.items():
            session = sessions[name][1]
            runs = max(3, int(ROUND_SECONDS * 1e9 / run_ns[name]))
            taken.append(session.time(_taken(session, feeds), runs))
    return [_figure(sessions[name], batch, taken) for name, taken in rounds.items()]


def _taken(session: Any, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the inputs that the session has; a module takes all."""
    names = {item.name for item in getattr(session, "inputs", ())} or set(feeds)
    return {name: array for name, array in feeds.items() if name in names}


def _warm(session: Any, feeds: Mapping[str, Any]) -> float:
    """Runs until :data:`WARM_SECONDS` are over; a run's wall time in nanoseconds at the end."""
    spent, timing = 0.0, session.time(feeds, 1)
    while spent < WARM_SECONDS * 1e9:
        timing = session.time(feeds, 10)
        spent += timing.total_ns
    return float(timing.total_ns / len(timing.ns))


def _figure(item: tuple[Competitor, Any], batch: int, taken: Sequence[Timing]) -> Figure:
    competitor, session = item
    walls = [timing.total_ns / len(timing.ns) / 1e6 for timing in taken]
    device = [ns / 1e6 for timing in taken for ns in timing.ns]
    nodes = session.runtime.get("nodes")
    return Figure(
        competitor.name,
        batch,
        statistics.median(walls),
        min(walls),
        max(walls),
        statistics.median(device) if competitor.events else None,
        ", ".join(f"{count} nodes on {name}" for name, count in nodes.items()) if nodes else "",
    )


def accuracy(subject: Subject) -> list[dict[str, Any]]:
    """For each artifact, its gates as the conversion judged them on this machine."""
    found = []
    pairs = [("onnx", name, ["cuda"]) for name in ("fp32", "fp16")]
    try:
        pairs += [(engine_target(), name, ["cpu"]) for name in PRECISIONS]
    except ModelyardError as error:
        found.append({"artifact": "engine", "error": reason(error)})
    for target, precision, providers in pairs:
        title = f"{target} {precision}"
        try:
            made = converted(subject, target, precision, providers=providers)
        except ModelyardError as error:
            found.append({"artifact": title, "error": reason(error)})
            continue
        kept = {key: made.report[key] for key in ("gates", "metrics", "runtime", "bytes")}
        found.append({"artifact": title, **kept})
    return found


def machine() -> dict[str, Any]:
    """The device and the versions."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"machine": asdict(describe_machine()), "versions": versions}


def main() -> None:
    """Measures the models named, or all, and writes the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("models", nargs="*", help=", ".join(SUBJECTS))
    parser.add_argument("--page", action="store_true", help="only write the page")
    asked = parser.parse_args()
    unknown = set(asked.models) - set(SUBJECTS)
    if unknown:
        parser.error(f"no model {', '.join(sorted(unknown))}; there are {', '.join(SUBJECTS)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    if not asked.page:
        from emitters.tensorrt.libraries import has_gpu

        if not has_gpu():
            print("skipped: there is no GPU here, and nothing was measured")
            return
        results |= machine()
        for name in asked.models or SUBJECTS:
            results.setdefault("models", {})[name] = measure(SUBJECTS[name])
            BUILD.mkdir(parents=True, exist_ok=True)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    titles = {name: subject.title for name, subject in SUBJECTS.items()}
    gpu_page.write(results, titles)


if __name__ == "__main__":
    main()
