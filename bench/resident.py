"""The most memory that a conversion of a large model keeps resident, and its time, by precision.

``python -m bench growth-precisions`` gives the page's rows. Mapped pages count; one that several
processes share counts once. What the command takes for a model of no size is taken off.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from bench.growth import MODELYARD, TARGETS, make_large
from bench.measure import Memory, Row, cold_cache, peak_memory
from converter import plugins
from converter.options.precisions import PRECISIONS

WIDTH, COUNT = 4096, 9
"""Of the matrices, and how many are multiplied with."""
MOST, LONGEST = 1.6, 2.0
"""Of the source's bytes, and of float32's time."""


def rows(folder: Path) -> Iterator[Row]:
    """A row for each precision and each target that has it; float32 first."""
    make_large(folder / "small.onnx", 1 << 22)
    held = make_large(folder / "large.onnx", COUNT * WIDTH**2 * 4, WIDTH)
    plain: dict[str, float] = {}
    for precision, target in product(PRECISIONS, TARGETS):
        if precision not in plugins.load("emitters", target).precisions:
            continue
        what = f"ONNX to {target} in {precision}, {held / 1e6:,.0f} MB of weights outside"
        try:
            own = converted(folder, "small.onnx", target, precision).resident
            seen = converted(folder, "large.onnx", target, precision)
        except RuntimeError as error:  # the CPU has no kernels of it
            lines = [line for line in str(error).splitlines() if line.startswith("error[")]
            why = (lines or [str(error)])[0].split("]: ", 1)[-1]
            yield Row(what, f"not made: {why}", "", None)
            continue
        first = plain.setdefault(target, seen.seconds)
        share, beside = (seen.resident - own) / held, seen.seconds / first
        told = f"x{share:.2f} and {own / 1e6:,.0f} MB, x{beside:.2f} ({seen.seconds:.3g} s)"
        limit = f"x{MOST} and that, x{LONGEST:g}"
        yield Row(what, told, limit, share <= MOST and beside <= LONGEST)


def converted(folder: Path, model: str, target: str, precision: str) -> Memory:
    """What a conversion takes, and how long.

    Args:
        folder: For the output.
        model: What is converted, as the command takes it.
        target: What it is converted to.
        precision: The artifact's.
    """
    cold_cache(folder)
    argv = [MODELYARD, "convert", model, "--to", target, "--precision", precision, "--no-bench"]
    samples = ["--samples", "random:8"]
    return peak_memory([*argv, *samples, "--out", "grown", "--overwrite"], folder, every=0.05)
