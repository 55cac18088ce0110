"""Whole commands, from PyTorch weights on disk to a file, against exporters that check nothing.

``python -m bench whole`` measures in turns: medians of time, peak memory, and how our time divides.
Ours has every check on, two samples, no latency runs (``--no-bench``) and a cold cache; a peer
builds the network, loads its weights, converts and saves (:mod:`bench.peers.networks`). A peer runs
in build/PEER where that is an environment, else in this one; litert-torch needs its own:

    python3.11 -m venv build/litert-torch && build/litert-torch/bin/pip install \\
        torch==2.13.0 litert-torch==0.10.0 transformers==5.23.0
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.measure import Row, cold_cache, peak_memory, wall_seconds
from bench.peers.networks import NETWORKS

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SCRIPT = ROOT / "bench" / "peers" / "networks.py"

ROUNDS = 3
COMPARED = ("resnet50", "mobilenet-v3", "vit-b16", "swin-t", "bert-base")
PEERS = {"torch": "onnx", "coremltools": "coreml", "litert-torch": "tflite"}
"""What each peer writes, as ours is called."""

STAGES = {
    "parse": "reading", "samples": "reading", "simplify": "simplifying", "emit": "emitting",
    "reference": "checking", "trace": "checking", "check": "checking", "pack": "emitting",
}  # fmt: skip
"""What a step of the plan counts as."""


@dataclass
class Tool:
    """Seconds of whole commands, one a round, and the largest resident memory of the tree; what it
    said where it failed."""

    seconds: list[float] = field(default_factory=list)
    memory: int = 0
    failed: str = ""

    @property
    def median(self) -> float:
        """Median seconds."""
        return statistics.median(self.seconds)


def limit(network: str, peer: str) -> float:
    """How many times the peer's time ours may take."""
    return 1.4 if peer == "torch" else 1.0 if NETWORKS[network].convolutional else 1.3


def rows(folder: Path) -> Iterator[Row]:
    """A row for each network and peer; where the peer fails, of what ours takes."""
    for network in COMPARED:
        for peer in PEERS:
            yield compare(network, peer, folder)


def compare(network: str, peer: str, folder: Path) -> Row:
    """One network against one peer, in turns.

    Args:
        network: Its name.
        peer: Which exporter.
        folder: Where both run.

    Raises:
        RuntimeError: Ours failed; what it said is in the error.
    """
    tools = {"modelyard": Tool(), peer: Tool()}
    commands = {
        "modelyard": ours(network, [PEERS[peer]], folder),
        peer: theirs(network, peer, folder),
    }
    parts: list[Mapping[str, float]] = []
    for _ in range(ROUNDS):
        for name, argv in commands.items():
            cold_cache(folder)
            try:
                seen = peak_memory(argv, folder, every=0.25)
            except RuntimeError as error:
                if name == "modelyard":
                    raise
                tools[name].failed = str(error).strip()
                continue
            tools[name].seconds.append(seen.seconds)
            tools[name].memory = max(tools[name].memory, seen.resident)
            if name == "modelyard":
                parts.append(divided(folder / "out" / "report.json"))
    return _row(network, peer, tools, parts)


def weights(network: str, folder: Path) -> Path:
    """The network's weights, seeded, on disk."""
    path = folder / f"{network}.pt"
    if not path.exists():
        wall_seconds([sys.executable, str(SCRIPT), "weights", network, str(path)], folder)
    return path


def ours(network: str, targets: Sequence[str], folder: Path) -> list[str]:
    """Our command line; it writes into ``folder / "out"``.

    Args:
        network: Its name.
        targets: What it is converted to.
        folder: Where the command runs.
    """
    chosen = NETWORKS[network]
    return [
        str(BIN / "modelyard"), "convert", f"{SCRIPT}:{chosen.factory}",
        "--weights", str(weights(network, folder)), "--input", chosen.declared,
        "--samples", "random:2", "--to", ",".join(targets), "--no-bench", "--out", "out",
        "--overwrite",
    ]  # fmt: skip


def theirs(network: str, peer: str, folder: Path) -> list[str]:
    """A peer's command line; it writes ``folder / "bare.*"``.

    Args:
        network: Its name.
        peer: Which exporter.
        folder: Where the command runs.
    """
    own = ROOT / "build" / peer / "bin" / "python"
    python = str(own if own.exists() else sys.executable)
    return [
        python, str(SCRIPT), peer, network, str(weights(network, folder)), str(folder / "bare"),
    ]  # fmt: skip


def divided(report: Path) -> Mapping[str, float]:
    """Seconds of a run by what they were spent on; steps may have run side by side."""
    spent: Counter[str] = Counter()
    for item in json.loads(report.read_text())["timings"]:
        spent[STAGES[item["step"].split(":")[0]]] += item["seconds"]
    return spent


def _row(
    network: str, peer: str, tools: Mapping[str, Tool], parts: Sequence[Mapping[str, float]]
) -> Row:
    mine, peers = tools["modelyard"], tools[peer]
    what = f"{network}, PyTorch to {PEERS[peer]}, all checks / {peer}"
    if peers.failed:
        named = re.search(r"^[\w.]*Error: .*", peers.failed, re.MULTILINE)
        why = (named[0] if named else peers.failed.splitlines()[-1])[:200]
        took = f"{mine.median:.3g} s, {mine.memory / 1e9:.2g} GB"
        return Row(what, f"{took}; {peer} fails: {why}", "", None)
    most, ratio, memory = (
        limit(network, peer),
        mine.median / peers.median,
        mine.memory / peers.memory,
    )
    stages = dict.fromkeys(STAGES.values())
    times = ", ".join(
        f"{stage} {statistics.median(part.get(stage, 0) for part in parts):.3g} s"
        for stage in stages
    )
    seen = (
        f"x{ratio:.2f} ({mine.median:.3g} s / {peers.median:.3g} s), memory x{memory:.2f} "
        f"({mine.memory / 1e9:.2g} GB / {peers.memory / 1e9:.2g} GB); {times}"
    )
    return Row(what, seen, f"x{most}, memory x1.0", ratio <= most and memory <= 1)


def targets(folder: Path) -> Iterator[Row]:
    """One command for three targets against one for ONNX alone."""
    for network in ("resnet50", "bert-base"):
        seconds: dict[int, list[float]] = {1: [], 3: []}
        for _ in range(ROUNDS):
            for count, taken in seconds.items():
                cold_cache(folder)
                argv = ours(network, ("onnx", "tflite", "coreml")[:count], folder)
                taken.append(wall_seconds(argv, folder))
        one, three = (statistics.median(taken) for taken in seconds.values())
        seen = f"x{three / one:.2f} ({three:.3g} s / {one:.3g} s)"
        what = f"{network}, PyTorch to onnx, tflite and coreml / to onnx"
        yield Row(what, seen, "x1.5", three / one <= 1.5)
