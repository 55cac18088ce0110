"""``python -m bench.margins``: how far good artifacts are from the gates, and wrong ones.

Good ones are those of the zoo and of tests/networks.py, converted to ONNX, TFLite and Core ML in
each precision that their samples allow; wrong ones are :mod:`bench.wrong_pairs`. What gates found
is read from the reports. Writes its section of docs/precision.md.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench.measure import where, write_section
from bench.precision_page import MARGINS
from bench.wrong_pairs import PAIRS
from converter import api
from zoo import catalogue

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "margins"
PACKAGES = ("onnxruntime-gpu", "ai-edge-litert", "coremltools", "torch", "numpy")
OLDER = ("cosine", "cosine without XNNPACK")
"""Gates whose limits a good artifact keeps to, whatever the others say."""

GATES = ("variation", "channel", "cosine")
TARGETS = "onnx,tflite,coreml"
SLOW = ("bert-base-random", "resnet50-random")
"""Models of random weights, whose search for int8 takes minutes and says nothing."""


@dataclass(frozen=True)
class Seen:
    """What a gate found in one artifact, whose limit it is held to."""

    gate: str
    precision: str
    what: str
    value: float
    limit: float
    missed: bool


def main() -> None:
    """Converts, checks, and writes the section; models that build/margins/seen.json has aren't
    converted again."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    good = [*zoo(), *networks()]
    write(good)


def write(good: Sequence[Seen]) -> None:
    """Writes the section."""
    apart = {(i.what, i.precision) for i in good if i.missed and i.gate in OLDER}
    fine = [item for item in good if (item.what, item.precision) not in apart]
    write_section(ROOT / "docs" / "precision.md", MARGINS, page(fine, list(pairs())))


def zoo() -> Iterator[Seen]:
    """The catalogue's models."""
    for name in catalogue.entries():
        precisions = "fp32,fp16" if name in SLOW else "fp32,fp16,int8"
        yield from converted(name, [f"zoo:{name}"], precisions)


def networks() -> Iterator[Seen]:
    """Networks of random weights, on random inputs of the sizes of their own."""
    folder = FOLDER / "networks"
    if not folder.exists():
        folder.mkdir()
        subprocess.run([sys.executable, "-m", "tests.networks", folder], cwd=ROOT, check=True)
    for path in sorted(folder.glob("*.onnx")):
        feeds = dict(np.load(folder / f"{path.stem}.0.npz"))
        sizes = {  # by the names that the tool gives to what isn't named
            dim: size
            for spec in api.inspect(path).inputs
            for dim, size in zip(spec["shape"], feeds[spec["name"]].shape, strict=True)
            if isinstance(dim, str) and dim != "batch"
        }
        dims = [part for name, size in sizes.items() for part in ("--dim", f"{name}={size}")]
        options = [str(path), "--samples", "random:8", *dims]
        yield from converted(f"{path.stem}, random", options, "fp32,fp16,int8")


def converted(what: str, source: Sequence[str], precisions: str) -> Iterator[Seen]:
    """What gates found in a model's artifacts; in float32 alone, where samples are too few to
    measure ranges on.

    Args:
        what: What the model is called in the page.
        source: The arguments of ``convert`` that name it.
        precisions: As ``--precision`` has them.
    """
    kept = FOLDER / "seen.json"
    seen = json.loads(kept.read_text()) if kept.exists() else {}
    if what not in seen:
        seen[what] = [asdict(item) for item in _converted(what, source, precisions)]
        kept.write_text(json.dumps(seen))
    yield from (Seen(**item) for item in seen[what])


def _converted(what: str, source: Sequence[str], precisions: str) -> Iterator[Seen]:
    for asked in (precisions, "fp32"):
        argv = [
            sys.executable, "-m", "converter.cli", "convert", *source, "--to", TARGETS,
            "--precision", asked, "--keep-going", "--no-bench", "--no-cache", "--json",
            "--out", "out", "--overwrite",
        ]  # fmt: skip
        done = subprocess.run(argv, cwd=FOLDER, capture_output=True, text=True, check=False)
        made = [FOLDER / name for name in ("out.failed", "out") if (FOLDER / name).exists()]
        if not made:
            continue
        found = list(_of_report(what, json.loads((made[0] / "report.json").read_text())))
        missed = [f"{item.what} {item.gate} {item.value:.4g}" for item in found if item.missed]
        print(f"{what} {asked}: {', '.join(missed) or 'passed'}", flush=True)
        for folder in made:
            shutil.rmtree(folder)
        yield from found
        return
    print(f"{what}: {done.stderr.strip().splitlines()[-1:]}", flush=True)


def _of_report(what: str, report: Mapping[str, Any]) -> Iterator[Seen]:
    integers = "int8" in str(report["source"].get("framework", ""))
    for artifact in report["artifacts"]:
        title = f"{what}, {artifact['target']}"
        precision = "int8" if integers else artifact["precision"]
        yield from _of_gates(title, precision, artifact["gates"])


def _of_gates(what: str, precision: str, gates: Sequence[Mapping[str, Any]]) -> Iterator[Seen]:
    for gate in gates:
        name = str(gate["name"]).split()[0]
        missed = gate["status"] == "failed"
        if missed or (name in GATES and gate["value"] is not None):
            value, limit = (float(gate[key] or 0) for key in ("value", "limit"))
            yield Seen(str(gate["name"]), precision, what, value, limit, missed)


def pairs() -> Iterator[Seen]:
    """What gates found in wrong artifacts."""
    for what, pair in PAIRS.items():
        folder = FOLDER / "pair"
        folder.mkdir(exist_ok=True)
        source, artifact = pair.write(folder)
        argv = [
            sys.executable, "-m", "converter.cli", "check", artifact, "--against", source,
            "--samples", "random:8", "--json", *pair.options,
        ]  # fmt: skip
        done = subprocess.run(argv, cwd=FOLDER, capture_output=True, text=True, check=False)
        assert done.returncode == 4, (what, done.stdout)
        precision = pair.options[1] if "--precision" in pair.options else "fp32"
        for line in json.loads(done.stdout)["details"]:
            gate, _, told = line.partition(": ")
            numbers = re.match(r"(\S+), limit (\S+);", told)
            value, limit = map(float, numbers.groups()) if numbers else (0.0, 0.0)
            yield Seen(gate, precision, what, value, limit, True)


def page(good: Sequence[Seen], wrong: Sequence[Seen]) -> str:
    """The section's text."""
    lines = [
        "`python -m bench.margins` makes this section. It checks "
        f"{len({(i.what, i.precision) for i in good})} good artifacts (of the zoo and of "
        "tests/networks.py, as ONNX, TFLite and Core ML) and "
        f"{len(PAIRS)} pairs of a source and a wrong artifact (`bench/wrong_pairs.py`). An "
        "artifact whose cosine misses its limit isn't a good one, and is left out. A value above "
        "the limit misses the gate. A cosine misses it below the limit.",
        "",
        "| gate | precision | limit | closest good | | closest wrong that it catches | |",
        "|---|---|---|---|---|---|---|",
    ]
    for gate in GATES:
        for precision in ("fp32", "fp16", "int8"):
            lines.append(_row(gate, precision, good, wrong))
    missed: dict[str, list[Seen]] = {}
    for item in (item for item in good if item.missed):
        missed.setdefault(f"{item.what} {item.precision}", []).append(item)
    lines += [
        "",
        f"{len(missed)} of the good artifacts miss a gate other than the cosine on their samples:",
        "",
    ]
    for title, items in missed.items():
        told = dict.fromkeys(f"{i.gate} {i.value:.4g} ({i.limit:g})" for i in items)
        lines.append(f"- {title}: {', '.join(told)}")
    lines += ["", "The wrong artifacts miss these gates:", ""]
    for what in PAIRS:
        names = dict.fromkeys(item.gate for item in wrong if item.what == what and item.missed)
        lines.append(f"- {what}: {', '.join(names)}")
    return "\n".join([*lines, "", where(*PACKAGES)])


def _row(gate: str, precision: str, good: Sequence[Seen], wrong: Sequence[Seen]) -> str:
    def of(items: Sequence[Seen]) -> list[Seen]:
        alike = (item for item in items if item.gate in (gate, f"{gate} without XNNPACK"))
        return [item for item in alike if item.precision == precision]

    def cells(item: Seen | None) -> str:
        return f"{item.value:.3g} | {item.what}" if item else "- | "

    sign = -1 if gate == "cosine" else 1
    fine, bad = of(good), [item for item in of(wrong) if item.missed and item.gate == gate]
    limit = next((f"{item.limit:g}" for item in fine), "")
    nearest = max(fine, key=lambda item: sign * item.value, default=None)
    farthest = min(bad, key=lambda item: sign * item.value, default=None)
    return f"| {gate} | {precision} | {limit} | {cells(nearest)} | {cells(farthest)} |"


@click.command()
def run() -> None:
    """Measures, and writes the section of docs/precision.md."""
    main()


if __name__ == "__main__":
    run()
