"""What ``bench.precision`` asks of an artifact beside cosines, metrics, shares and sizes.

ONNX Runtime computes chains of float16 in float32 on a CPU, where what would overflow elsewhere
doesn't: :func:`float16_everywhere` judges a model with all roundings written out as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir

from bench import precision_text as text
from converter import plugins
from converter.ir.edit import is_op
from converter.ir.model import Model
from converter.precision.fp16.strict import strict
from converter.report.model import ArtifactReport
from converter.runtime.ort import OrtSession

Array = np.ndarray[Any, Any]

_SIZES = {"length": 576, "width": 320, "height": 48}
"""Of free dimensions, where a model takes no 1 there."""


@dataclass(frozen=True)
class Made:
    """What a case gave.

    Attributes:
        plain, lowered: The artifacts in float32 and in the case's precision.
        report: What is reported of the second.
        folder: Where the sets of samples are.
    """

    plain: Path
    lowered: Path
    report: ArtifactReport
    folder: Path


@dataclass(frozen=True)
class Check:
    """A limit and how it is measured.

    Attributes:
        limit: What is asked for, in words.
        measure: Gives what was found, in words, and whether that is enough.
    """

    limit: str
    measure: Callable[[Made], tuple[str, bool]]


def says(pattern: str) -> Check:
    """A decision that holds the pattern."""
    return _decisions(f"decisions say `{pattern}`", pattern, lambda count: count > 0)


def never_says(pattern: str) -> Check:
    """No decision that does."""
    return _decisions(f"no decision says `{pattern}`", pattern, lambda count: count == 0)


def _decisions(limit: str, pattern: str, enough: Callable[[int], bool]) -> Check:
    def measure(made: Made) -> tuple[str, bool]:
        count = sum(bool(re.search(pattern, line)) for line in made.report.decisions)
        return f"{count} of {len(made.report.decisions)} decisions", enough(count)

    return Check(limit, measure)


def integer_convolutions(count: int, of: int) -> Check:
    """How many convolutions read integers, those in branches as well, and how many there are."""

    def measure(made: Made) -> tuple[str, bool]:
        nodes = [node for node in Model.load(made.lowered).nodes() if node.op_type == "Conv"]
        read = [all(v is not None and is_op(v.producer(), "DequantizeLinear") for v in n.inputs[:2])
                for n in nodes]  # fmt: skip
        return f"{sum(read)} of {len(read)}", (sum(read), len(read)) == (count, of)

    return Check(f"{count} of {of} convolutions read integers", measure)


def quantizers(least: int) -> Check:
    """How many QuantizeLinear nodes a Core ML package has, read back."""

    def measure(made: Made) -> tuple[str, bool]:
        program: Model = plugins.load("parsers", "coreml").read(made.lowered)
        count = sum(node.op_type == "QuantizeLinear" for node in program.nodes())
        return str(count), count >= least

    return Check(f"at least {least} QuantizeLinear", measure)


def same_text(right: int) -> Check:
    """The same text as in float of every line judged, blanks at its ends aside (the float model
    sees some in the paper there); and what is compared is what stands there, in ``right`` lines at
    least."""

    def measure(made: Made) -> tuple[str, bool]:
        lines = text.judged_lines(made.folder)
        whole, lowered = (_read(path, lines) for path in (made.plain, made.lowered))
        same = sum(a == b for a, b in zip(whole, lowered, strict=True))
        found = sum(a == b for a, b in zip(whole, 2 * text.JUDGED_LINES, strict=True))
        return f"{same} and {found} of {len(whole)}", same == len(whole) and found >= right

    return Check(f"all lines as in float32, which reads at least {right} of them right", measure)


def _read(model: Path, lines: Path) -> list[str]:
    session = OrtSession(model)
    output = session.outputs[0].name
    scores = [session.run({"x": line[None]})[output] for line in np.load(lines)["x"]]
    return [one.strip() for one in text.read(np.concatenate(scores))]


# -- float16 -----------------------------------------------------------------------------


def float16_everywhere(least: float = 0.999) -> Check:
    """Finite and close on silence and on inputs that are the same everywhere, as ONNX Runtime runs
    it and with all roundings; and no Cast right behind another."""

    def measure(made: Made) -> tuple[str, bool]:
        whole, half = Model.load(made.plain), Model.load(made.lowered)
        before, worst = OrtSession(whole.graph, plain=True), 1.0
        for after in (OrtSession(half.graph), OrtSession(strict(half).graph, plain=True)):
            for feeds in _edges(whole):
                worst = min(worst, worst_of(before.run(feeds), after.run(feeds)))
        casts = pairs(half)
        return f"{worst:.5f}, {len(casts)} pairs", worst > least and not casts

    return Check(f"cosine > {least:g} on flat inputs with all roundings, no pairs of Cast", measure)


def worst_of(expected: dict[str, Array], found: dict[str, Array]) -> float:
    """The smallest cosine of an output that isn't next to zero; -1 where one isn't finite."""
    floats = {name: array for name, array in found.items() if array.dtype.kind == "f"}
    if not all(np.isfinite(array).all() for array in floats.values()):
        return -1.0
    large = [name for name in floats if np.linalg.norm(expected[name]) > 1e-3]
    return min((cosine(expected[name], floats[name]) for name in large), default=1.0)


def cosine(one: Array, other: Array) -> float:
    """Of all values; 1 of zeros."""
    a, b = one.ravel().astype(np.float64), other.ravel().astype(np.float64)
    return float(a @ b / np.sqrt((a @ a) * (b @ b))) if a.any() or b.any() else 1.0


def edges(feeds: dict[str, Array]) -> Iterator[dict[str, Array]]:
    """Silence, and inputs that are the same everywhere."""
    for number in (0.0, 0.01, 1.0):
        yield {
            name: np.full_like(array, number) if array.dtype.kind == "f" else array
            for name, array in feeds.items()
        }


def _edges(model: Model) -> Iterator[dict[str, Array]]:
    feeds = {}
    for spec in model.inputs:
        shape = [d if isinstance(d, int) else _SIZES.get(d, 1) for d in spec.shape or ()]
        feeds[spec.name] = np.zeros(shape, spec.dtype)
        if spec.name == "sr":
            feeds[spec.name] = np.array(16000, np.int64)
        elif spec.dtype == "int64" and spec.shape:  # tokens
            feeds[spec.name] = np.full((1, 8), spec.name != "token_type_ids", np.int64)
    return edges(feeds)


def pairs(model: Model) -> list[str]:
    """Casts of what was cast between float types just before."""
    halves = {onnx_ir.DataType.FLOAT, onnx_ir.DataType.FLOAT16}
    found = []
    for node in model.nodes():
        source = node.inputs[0] if is_op(node, "Cast") else None
        before = source.producer() if source is not None else None
        if before is None or not is_op(before, "Cast") or before.inputs[0] is None:
            continue
        if {before.inputs[0].dtype, node.outputs[0].dtype} <= halves:
            found.append(node.name or "")
    return found
