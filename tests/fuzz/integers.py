"""A case in int8: Q/DQ by each target's scheme, and LiteRT's integers, against float and Q/DQ.

What rounding to 8 bits does to a random graph differs: each tensor is moved by half a step of
its range at random, twice, and what comes of that is what int8 may come to.
"""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from converter.ir.edit import is_op
from converter.ir.model import Model
from converter.precision.calibrate.ranges import collect
from converter.precision.int8.insert import quantize
from converter.runtime.ort import OrtSession
from tests.fuzz.case import Case, Finding, noting
from tests.fuzz.emitting import check_model
from tests.fuzz.pipeline import simplified
from tests.fuzz.values import EIGHT_BITS, Array, Rejected, Value
from tests.passes.models import ListedSamples
from tests.schemes import SCHEMES

CHECKED = ("onnxruntime-u8s8", "tflite-int8", "coreml-w8a8")
"""Names of int8 schemes."""

BEARS = 0.97
"""The least cosine with noise at which a case says something about int8."""

SHARE = 8.0
"""How many times as far as noise int8 may lead from float: 1 - cosine. Ranges that a few samples
gave, and weights in 8 bits, come on top."""


def check_int8(case: Case, expected: Mapping[str, Value]) -> Iterator[Finding]:
    """Every scheme's Q/DQ in ONNX Runtime; TFLite's as a file."""
    limits = _limits(case)
    if not limits:
        return
    try:
        model = simplified(case)
    except Exception:  # what passes do is checked by itself
        return
    if not any(is_op(node, "Conv", "Gemm", "MatMul") for node in model.nodes()):
        return
    samples = ListedSamples([dict(feeds) for feeds in case.feeds])
    wrong: list[Finding] = []
    for scheme in CHECKED:
        with noting(f"int8 {scheme}", wrong, refusals=True):
            ranges = collect(model, samples, few=True)
            lowered = quantize(model, ranges, SCHEMES[scheme], method="minmax").model
            found = _run(lowered, case)
            wrong += _far(f"int8 {scheme}", expected, found, limits)
            if scheme == "tflite-int8":
                wrong += _as_file(lowered, case, expected, limits)
    yield from wrong


def _as_file(
    model: Model, case: Case, expected: Mapping[str, Value], limits: Mapping[str, float]
) -> Iterator[Finding]:
    def compare(label: str, index: int, found: Mapping[str, Array]) -> Iterator[Finding]:
        if index == 0:
            yield from _far(label, expected, found, limits)

    with tempfile.TemporaryDirectory(prefix="modelyard-fuzz-") as folder:
        yield from check_model("tflite", model, case, Path(folder), compare, precision="int8")


def _far(
    label: str,
    expected: Mapping[str, Value],
    found: Mapping[str, Array],
    limits: Mapping[str, float],
) -> Iterator[Finding]:
    for name, limit in limits.items():
        wanted = expected[name].exact[0]
        if found[name].shape != wanted.shape or found[name].dtype != wanted.dtype:
            yield Finding(f"{label}: wrong", f"{name} is {found[name].dtype}{found[name].shape}")
            return
        cosine = _cosine(wanted, found[name])
        if not cosine >= limit:
            yield Finding(f"{label}: far", f"{name}: cosine {cosine:.4f}, at least {limit:.4f}")
            return


def _limits(case: Case) -> dict[str, float]:
    """The least cosine of each float output that bears 8 bits; none where an integer moves."""
    try:
        values = case.values(EIGHT_BITS)
    except Rejected:
        return {}
    limits = {}
    for name in case.outputs:
        value = values[name]
        if not value.is_float or any(a.shape != value.shape for a in value.shaken[0]):
            continue
        cosine = min(_cosine(value.exact[0], array) for array in value.shaken[0])
        if cosine >= BEARS:
            limits[name] = 1 - max(SHARE * (1 - cosine), 0.01)
    return limits


def _run(model: Model, case: Case) -> dict[str, Array]:
    session = OrtSession(model.graph, plain=True, threads=1)
    try:
        return session.run(dict(case.feeds[0]))
    finally:
        session.close()


def _cosine(one: Array, other: Array) -> float:
    a, b = one.ravel().astype(np.float64), other.ravel().astype(np.float64)
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size else float(np.array_equal(a, b))
