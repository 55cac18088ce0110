"""Sweeps: ``python -m bench sweep`` times one against the same conversions one by one, ``python -m
bench ray`` on a Ray cluster against here."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
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

WHAT = f"{len(MODELS)} models x {len(TARGETS)} targets x {len(PRECISIONS)} precisions"


def rows(folder: Path) -> Iterator[Row]:
    """What a sweep takes with a cold cache and with a warm one.

    Args:
        folder: Where outputs go.
    """
    seconds = _medians({
        "one by one": lambda: _one_by_one(folder),
        "cold": lambda: _cold(folder),
        "again": lambda: _sweep(folder),
        "warm": lambda: _warm(folder),
    })  # in this order: what begins with a warm cache follows what filled it  # fmt: skip
    ratio = seconds["one by one"] / seconds["cold"]
    seen = f"x{ratio:.2f} ({seconds['one by one']:.1f} s / {seconds['cold']:.1f} s)"
    yield Row(f"{WHAT}, one by one / sweep, cold cache", seen, f"x{FASTER}", ratio >= FASTER)
    for name in ("again", "warm"):
        share = seconds[name] / seconds["cold"]
        yield Row(f"{WHAT}, sweep, {name} / cold", f"{share:.1%} ({seconds[name]:.2f} s)",
                  f"{WARM:.0%}", share < WARM)  # fmt: skip


def ray(folder: Path) -> Iterator[Row]:
    """What a sweep takes on a Ray cluster and here, with a cold cache.

    Args:
        folder: Where outputs go.
    """
    seconds = _medians({
        "ray": lambda: _on_ray(folder),
        "store": lambda: _cold(folder, *_store(folder)),
        "plain": lambda: _cold(folder),
    })  # fmt: skip
    for name, line in (("store", "the same line here"), ("plain", "here, without `--cache`")):
        ratio = seconds["ray"] / seconds[name]
        seen = f"x{ratio:.2f} ({seconds['ray']:.1f} s / {seconds[name]:.1f} s)"
        yield Row(f"{WHAT}, on Ray / {line}", seen, f"x{RAY}", ratio <= RAY)


def _medians(ways: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The median seconds of each way, in turns."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            taken[name].append(way())
            print(f"{name}: {taken[name][-1]:.1f} s", flush=True)
    return {name: statistics.median(times) for name, times in taken.items()}


def _sweep(folder: Path, *more: str) -> float:
    axes = {"source": [f"zoo:{name}" for name in MODELS], "to": TARGETS, "precision": PRECISIONS}
    recipe = folder / "zoo.yaml"
    recipe.write_text(json.dumps({"bench": False, "few_samples": True, "sweep": axes}))
    line = [str(BIN / "modelyard"), "sweep", str(recipe), "--trust-recipe", "--out", "swept", *more]
    return wall_seconds(line, folder)


def _cold(folder: Path, *more: str) -> float:
    cold_cache(folder)
    shutil.rmtree(folder / "swept", ignore_errors=True)
    return _sweep(folder, *more)


def _store(folder: Path) -> tuple[str, str]:
    """The option that has the cache lie in an empty store, too."""
    store = folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir()
    return "--cache", str(store)


def _on_ray(folder: Path) -> float:
    """On a cluster that stands already: a head without cores and one node with all of them."""
    cold_cache(folder)
    with cluster(node(Path(os.environ["MODELYARD_CACHE"]))) as made:
        return _cold(folder, "--executor", f"ray:{made.address}", *_store(folder))


def _warm(folder: Path) -> float:
    """With the outputs gone; without --reuse-source, those of code would be made again."""
    shutil.rmtree(folder / "swept")
    return _sweep(folder, "--reuse-source")


def _one_by_one(folder: Path) -> float:
    seconds = 0.0
    cold_cache(folder)
    for model, target, precision in product(MODELS, TARGETS, PRECISIONS):
        line = [
            str(BIN / "modelyard"), "convert", f"zoo:{model}", "--to", target, "--precision",
            precision, "--no-bench", "--few-samples", "--keep-going", "--out", "single",
            "--overwrite",
        ]  # fmt: skip
        seconds += wall_seconds(line, folder, os.environ)
    return seconds
