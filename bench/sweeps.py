"""A sweep against the same conversions one by one: ``python -m bench sweep``."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

from bench.measure import Row, cold_cache, wall_seconds
from tests.executors.cluster import cluster, node

BIN = Path(sys.executable).parent

MODELS = (
    *("efficientnet-lite0", "resnet50-random", "ccexam-svhn"),  # PyTorch
    *("pp-ocrv4-rec", "face-detection-short-range", "fer"),  # ONNX, TFLite, Keras
)
"""Models of the zoo, large and small, whose int8 keeps within the gates on every target."""

TARGETS, PRECISIONS = ("onnx", "tflite", "coreml"), ("fp32", "int8")
ROUNDS = 2

FASTER, WARM, RAY = 1.6, 0.05, 1.1
"""How many times quicker the sweep is with a cold cache; its share of that with a warm one; how
many times as long it may take on a Ray cluster of this machine alone."""


def rows(folder: Path, models: Sequence[str] = MODELS, rounds: int = ROUNDS) -> Iterator[Row]:
    """What a sweep takes with a cold cache and with a warm one.

    Args:
        folder: Where outputs go.
        models: Names of the zoo's models.
        rounds: How often each way is measured.
    """
    ways: dict[str, Callable[[], float]] = {
        "one by one": lambda: _one_by_one(folder, models),
        "ray": lambda: _on_ray(folder, models),
        "cold": lambda: _cold(folder, models),
        "again": lambda: _sweep(folder, models),
        "warm": lambda: _warm(folder, models),
    }  # in this order: what begins with a warm cache follows what filled it
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            taken[name].append(way())
            print(f"{name}: {taken[name][-1]:.1f} s", flush=True)
    seconds = {name: statistics.median(times) for name, times in taken.items()}
    what = f"{len(models)} models x {len(TARGETS)} targets x {len(PRECISIONS)} precisions"
    for name, line, limit in (
        ("one by one", "one by one / sweep, cold cache", FASTER),
        ("ray", "sweep, cold cache, on Ray / local", RAY),
    ):
        ratio = seconds[name] / seconds["cold"]
        seen = f"x{ratio:.2f} ({seconds[name]:.1f} s / {seconds['cold']:.1f} s)"
        met = ratio <= limit if name == "ray" else ratio >= limit
        yield Row(f"{what}, {line}", seen, f"x{limit}", met)
    for name in ("again", "warm"):
        share = seconds[name] / seconds["cold"]
        yield Row(f"{what}, sweep, {name} / cold", f"{share:.1%} ({seconds[name]:.2f} s)",
                  f"{WARM:.0%}", share < WARM)  # fmt: skip


def _sweep(folder: Path, models: Sequence[str], *more: str) -> float:
    axes = {"source": [f"zoo:{name}" for name in models], "to": TARGETS, "precision": PRECISIONS}
    recipe = folder / "zoo.yaml"
    recipe.write_text(json.dumps({"bench": False, "few_samples": True, "sweep": axes}))
    line = [str(BIN / "modelyard"), "sweep", str(recipe), "--trust-recipe", "--out", "swept", *more]
    return wall_seconds(line, folder)


def _cold(folder: Path, models: Sequence[str]) -> float:
    cold_cache(folder)
    shutil.rmtree(folder / "swept", ignore_errors=True)
    return _sweep(folder, models)


def _on_ray(folder: Path, models: Sequence[str]) -> float:
    """On a cluster that stands already: a head without cores and one node with all of them."""
    cold_cache(folder)
    shutil.rmtree(folder / "swept", ignore_errors=True)
    shutil.rmtree(folder / "store", ignore_errors=True)
    (folder / "store").mkdir()
    with cluster(node(Path(os.environ["MODELYARD_CACHE"]))) as made:
        more = ("--executor", f"ray:{made.address}", "--cache", str(folder / "store"))
        return _sweep(folder, models, *more)


def _warm(folder: Path, models: Sequence[str]) -> float:
    """With the outputs gone; without --reuse-source, those of code would be made again."""
    shutil.rmtree(folder / "swept")
    return _sweep(folder, models, "--reuse-source")


def _one_by_one(folder: Path, models: Sequence[str]) -> float:
    seconds = 0.0
    cold_cache(folder)
    for model, target, precision in product(models, TARGETS, PRECISIONS):
        line = [
            str(BIN / "modelyard"), "convert", f"zoo:{model}", "--to", target, "--precision",
            precision, "--no-bench", "--few-samples", "--keep-going", "--out", "single",
            "--overwrite",
        ]  # fmt: skip
        seconds += wall_seconds(line, folder, os.environ)
    return seconds
