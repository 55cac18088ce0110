"""Whole commands, from PyTorch weights on disk to a file, against exporters that check nothing.

``python -m bench.whole [--models NAME,...] [--peers NAME,...] [--rounds N]`` measures in turns and
prints a row for each model and peer: medians of time, peak memory, and how our time divides. Ours
has every check on, two samples, no latency runs (``--no-bench``) and a cold cache; a peer builds
the model, loads its weights, converts and saves (:mod:`bench.whole_peer`). A peer runs in
build/PEER where that is an environment, else in this one; litert-torch needs its own:

    python3.11 -m venv build/litert-torch && build/litert-torch/bin/pip install \\
        litert-torch==0.10.0 transformers==5.23.0
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.__main__ import Row
from bench.measure import peak_memory, wall_seconds
from bench.whole_peer import MODELS

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SCRIPT = ROOT / "bench" / "whole_peer.py"

PEERS = {"torch": "onnx", "coremltools": "coreml", "litert-torch": "tflite"}
"""What each peer writes, as ours is called."""

STAGES = {
    "parse": "reading", "samples": "reading", "simplify": "simplifying", "emit": "emitting",
    "reference": "checking", "trace": "checking", "check": "checking", "pack": "emitting",
}  # fmt: skip
"""What a step of the plan counts as."""


@dataclass
class Tool:
    """Seconds of whole commands, one a round, and the largest resident memory of the tree."""

    seconds: list[float] = field(default_factory=list)
    memory: int = 0

    @property
    def median(self) -> float:
        """Median seconds."""
        return statistics.median(self.seconds)


def limit(model: str, peer: str) -> float:
    """How many times the peer's time ours may take."""
    return 1.4 if peer == "torch" else 1.0 if MODELS[model].convolutional else 1.3


def compare(model: str, peer: str, folder: Path, rounds: int) -> Row:
    """One model against one peer, in turns; memory is measured in a round of its own.

    Raises:
        RuntimeError: A command failed; what it said is in the error.
    """
    weights = folder / f"{model}.pt"
    if not weights.exists():
        wall_seconds([sys.executable, str(SCRIPT), "weights", model, str(weights)], folder)
    cache = folder / "cache"
    tools = {"modelyard": Tool(), peer: Tool()}
    commands = {
        "modelyard": _ours(model, PEERS[peer], weights),
        peer: [_python(peer), str(SCRIPT), peer, model, str(weights), str(folder / "bare")],
    }
    parts: list[Mapping[str, float]] = []
    os.environ["MODELYARD_CACHE"] = str(cache)
    for number in range(rounds + 1):
        for name, argv in commands.items():
            shutil.rmtree(cache, ignore_errors=True)
            if number == rounds:
                tools[name].memory = peak_memory(argv, folder).resident
                continue
            tools[name].seconds.append(wall_seconds(argv, folder))
            if name == "modelyard":
                parts.append(divided(folder / "out" / "report.json"))
    return _row(model, peer, tools, parts)


def divided(report: Path) -> Mapping[str, float]:
    """Seconds of a run by what they were spent on; steps may have run side by side."""
    spent: Counter[str] = Counter()
    for item in json.loads(report.read_text())["timings"]:
        spent[STAGES[item["step"].split(":")[0]]] += item["seconds"]
    return spent


def _row(
    model: str, peer: str, tools: Mapping[str, Tool], parts: Sequence[Mapping[str, float]]
) -> Row:
    ours, theirs = tools["modelyard"], tools[peer]
    most, ratio, memory = (
        limit(model, peer),
        ours.median / theirs.median,
        ours.memory / theirs.memory,
    )
    stages = dict.fromkeys(STAGES.values())
    times = ", ".join(
        f"{stage} {statistics.median(part.get(stage, 0) for part in parts):.3g} s"
        for stage in stages
    )
    seen = (
        f"x{ratio:.2f} ({ours.median:.3g} s / {theirs.median:.3g} s), memory x{memory:.2f} "
        f"({ours.memory / 1e9:.2g} GB / {theirs.memory / 1e9:.2g} GB); {times}"
    )
    what = f"{model}, PyTorch to {PEERS[peer]}, all checks / {peer}"
    return Row(what, seen, f"x{most}, memory x1.0", ratio <= most and memory <= 1)


def _ours(model: str, target: str, weights: Path) -> list[str]:
    chosen = MODELS[model]
    return [
        str(BIN / "modelyard"), "convert", f"{SCRIPT}:{chosen.factory}", "--weights", str(weights),
        "--input", chosen.declared, "--samples", "random:2", "--to", target,
        "--no-bench", "--out", "out", "--overwrite",
    ]  # fmt: skip


def _python(peer: str) -> str:
    """The Python of a peer: of its own environment, where there is one."""
    own = ROOT / "build" / peer / "bin" / "python"
    return str(own if own.exists() else sys.executable)


def _listed(known: Sequence[str]) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        if unknown := set(text.split(",")) - set(known):
            raise argparse.ArgumentTypeError(f"no {', '.join(sorted(unknown))}: {', '.join(known)}")
        return text.split(",")

    return names


def main() -> None:
    """Measures what is asked for; a command that fails is a row."""
    parser = argparse.ArgumentParser(prog="python -m bench.whole")
    parser.add_argument("--models", type=_listed(list(MODELS)), default=list(MODELS))
    parser.add_argument("--peers", type=_listed(list(PEERS)), default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-whole-") as folder:
        for model in asked.models:
            for peer in asked.peers:
                try:
                    row = compare(model, peer, Path(folder), asked.rounds)
                except RuntimeError as error:
                    why = str(error).strip().splitlines()[-1][:200]
                    row = Row(f"{model} / {peer}", f"failed: {why}", "", met=False)
                print(" | ".join(row.cells), flush=True)


if __name__ == "__main__":
    main()
