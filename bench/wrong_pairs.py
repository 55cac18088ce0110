"""Pairs of a source and an artifact that is wrong, where large values, offsets or single samples
hide it: what gates and probes are for.

:mod:`bench.margins` measures them; tests hold the check to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

RNG = np.random.default_rng(0)


def _floats(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return RNG.standard_normal(shape).astype(np.float32)


WEIGHTS = {
    "boxes": RNG.uniform(1, 40, (16, 4)).astype(np.float32),
    "classes": _floats(16, 80) * np.float32(0.4),
    "w": _floats(16, 10),
    "b": _floats(10),
    "kernel": _floats(10, 3, 3, 3),
    "gain": RNG.uniform(0.5, 2, 10).astype(np.float32),
    "shift": _floats(10),
    "mean": _floats(10),
    "var": RNG.uniform(0.05, 0.3, 10).astype(np.float32),
    "but_seven": np.where(np.arange(10) == 7, 0, 1).astype(np.float32),
    "table": _floats(50, 8),
    "spike": np.where(np.arange(100_000) == 77_777, 1_000_000, 0),
    "zero": np.float32(0),
    "none": np.zeros((1, 1), np.int64),
    "one": np.float32(1),
    "ten": np.float32(10),
    "offset": np.float32(500),
    "sixteen": np.float32(16),
    "tiny": np.float32(1e-10),
    "low": np.float32(-60),
    "high": np.float32(60),
    "least": np.float32(-3e38),
    "near": np.float32(1.02),
    "first": np.int64(0),
    "last_but_one": np.int64(48),
    "s0": np.array([0]),
    "s1": np.array([1]),
    "s79": np.array([79]),
    "s80": np.array([80]),
    "axis2": np.array([2]),
    "swapped": np.array([0, 1, 2, 4, 3, 5, 6, 7, 8, 9]),
}
"""What the texts name."""


@dataclass(frozen=True)
class Pair:
    """A source and an artifact with the same interface.

    Attributes:
        interface: Inputs and outputs, as ONNX's text has them.
        right, wrong: Their nodes.
        options: Of ``check``, besides.
        ends: The artifact's interface where it isn't the same.
    """

    interface: str
    right: str
    wrong: str
    options: tuple[str, ...] = ()
    ends: str = ""

    def write(self, folder: Path) -> tuple[Path, Path]:
        """``source.onnx`` and ``artifact.onnx``."""
        source = _written(folder / "source.onnx", self.interface, self.right)
        return source, _written(folder / "artifact.onnx", self.ends or self.interface, self.wrong)


def _written(path: Path, interface: str, body: str) -> Path:
    tokens = set(body.replace("(", " ").replace(",", " ").replace(")", " ").split())
    made = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]> g {interface} {{ {body} }}'
    )
    used = {name: np.asarray(value) for name, value in WEIGHTS.items() if name in tokens}
    made.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in used.items())
    onnx.save(made, path)
    return path


CLASSIFIER = "(float[batch, 16] x) => (float[batch, 10] y)"
LOGITS = "logits = Gemm(x, w, b) "
PLAIN = LOGITS + "y = Identity(logits)"
IMAGE = "(float[batch, 3, 8, 8] x) => (float[batch, 10, 8, 8] y)"
CONV = "c = Conv<pads = [1, 1, 1, 1]>(x, kernel) "
SAME = "y = Conv<pads = [1, 1, 1, 1]>(x, kernel)"
DETECTOR = "(float[batch, 16, 100] x) => (float[batch, 84, 100] y)"
FOUND = """at = Transpose<perm = [0, 2, 1]>(x)
    found = MatMul(at, boxes) pixels = Mul(found, ten)
    given = MatMul(at, classes) scores = Sigmoid(given) """
"""Four boxes in pixels, and 80 scores."""
TOGETHER = "both = Concat<axis = 2>(pixels, {}) y = Transpose<perm = [0, 2, 1]>(both)"
NORMAL = CONV + "y = BatchNormalization<epsilon = {}>(c, gain, shift, mean, var)"
SUM = LOGITS + "a = Abs(x) s = ReduceSum<keepdims = 1>(a, s1) "

PAIRS = {
    "a detector's scores are all zero": Pair(
        DETECTOR,
        FOUND + TOGETHER.format("scores"),
        FOUND + "silent = Mul(scores, zero) " + TOGETHER.format("silent"),
    ),
    "a detector's classes are rolled by one": Pair(
        DETECTOR,
        FOUND + TOGETHER.format("scores"),
        FOUND + "tail = Slice(scores, s79, s80, axis2) head = Slice(scores, s0, s79, axis2) "
        "rolled = Concat<axis = 2>(tail, head) " + TOGETHER.format("rolled"),
    ),
    "logits are negated, on an offset of 500": Pair(
        CLASSIFIER,
        LOGITS + "y = Add(logits, offset)",
        LOGITS + "other = Neg(logits) y = Add(other, offset)",
    ),
    "all rows are the first one's": Pair(
        CLASSIFIER,
        PLAIN,
        LOGITS + "row = Slice(logits, s0, s1, s0) size = Shape(logits) y = Expand(row, size)",
    ),
    "the mean of the batch is taken off": Pair(
        CLASSIFIER, PLAIN, LOGITS + "m = ReduceMean<keepdims = 1>(logits, s0) y = Sub(logits, m)"
    ),
    "two classes are swapped": Pair(
        CLASSIFIER, PLAIN, LOGITS + "y = Gather<axis = 1>(logits, swapped)"
    ),
    "one class has a bias of its own": Pair(
        CLASSIFIER, PLAIN, LOGITS + "more = Sub(but_seven, one) y = Add(logits, more)"
    ),
    "one class of fp16 has a bias of its own": Pair(
        CLASSIFIER,
        PLAIN,
        LOGITS + "more = Sub(but_seven, one) y = Add(logits, more)",
        ("--precision", "fp16"),
    ),
    "one class of int8 is zero": Pair(
        CLASSIFIER, PLAIN, LOGITS + "y = Mul(logits, but_seven)", ("--precision", "int8")
    ),
    "two channels of int8 are swapped": Pair(
        IMAGE, SAME, CONV + "y = Gather<axis = 1>(c, swapped)", ("--precision", "int8")
    ),
    "a detector's scores of int8 are all zero": Pair(
        DETECTOR,
        FOUND + TOGETHER.format("scores"),
        FOUND + "silent = Mul(scores, zero) " + TOGETHER.format("silent"),
        ("--precision", "int8"),
    ),
    "BatchNormalization has another epsilon": Pair(
        IMAGE, NORMAL.format("0.00001"), NORMAL.format("0.001")
    ),
    "it is right at the samples' sizes alone": Pair(
        "(float[batch, n] x) => (float[batch, n] y)",
        "m = ReduceMean<keepdims = 1>(x, s1) y = Sub(x, m)",
        "t = ReduceSum<keepdims = 1>(x, s1) m = Div(t, sixteen) y = Sub(x, m)",
        ("--dim", "n=16"),
    ),
    "silence is minus infinity": Pair(
        CLASSIFIER,
        SUM + "t = Add(s, tiny) l = Log(t) y = Add(logits, l)",
        SUM + "l = Log(s) y = Add(logits, l)",
    ),
    "large values are cut off": Pair(CLASSIFIER, PLAIN, LOGITS + "y = Clip(logits, low, high)"),
    "NaN isn't taken for zero": Pair(
        CLASSIFIER,
        "n = IsNaN(x) z = Where(n, zero, x) y = Gemm(z, w, b)",
        "y = Gemm(x, w, b)",
    ),
    "of two integers that tie, the last is found": Pair(
        "(int64[batch, 16] x) => (int64[batch] y)",
        "y = ArgMax<axis = 1, keepdims = 0>(x)",
        "y = ArgMax<axis = 1, keepdims = 0, select_last_index = 1>(x)",
    ),
    "a mask that lets nothing through gives NaN": Pair(
        "(float[batch, 16] x, bool[batch, 16] mask) => (float[batch, 16] y)",
        "e = Exp(x) k = Where(mask, e, zero) s = ReduceSum<keepdims = 1>(k, s1) "
        "t = Add(s, tiny) y = Div(k, t)",
        "e = Exp(x) k = Where(mask, e, zero) s = ReduceSum<keepdims = 1>(k, s1) y = Div(k, s)",
    ),
    "the largest index is another's": Pair(
        "(int64[batch, 4] ids) => (float[batch, 4, 8] y)",
        "y = Gather(table, ids)",
        "at = Clip(ids, first, last_but_one) y = Gather(table, at)",
    ),
    "integers are rounded to float32": Pair(
        "(int64[batch, 4] ids) => (int64[batch, 4] y)",
        "y = Add(ids, ids)",
        "f = Cast<to = 1>(ids) g = Add(f, f) y = Cast<to = 7>(g)",
    ),
    "one integer of 100,000 is off": Pair(
        "(int64[batch, 100000] x) => (int64[batch, 100000] y)",
        "y = Identity(x)",
        "y = Add(x, spike)",
    ),
    "one integer of 100,000 is off, in int8": Pair(
        "(int64[batch, 100000] x) => (int64[batch, 100000] y)",
        "y = Identity(x)",
        "y = Add(x, spike)",
        ("--precision", "int8"),
    ),
    "outputs are in another order": Pair(
        "(float[batch, 16] x) => (float[batch, 10] y, float[batch, 16] z)",
        "y = Gemm(x, w, b) z = Neg(x)",
        "y = Gemm(x, w, b) z = Neg(x)",
        ends="(float[batch, 16] x) => (float[batch, 16] z, float[batch, 10] y)",
    ),
}
