"""Pairs of a source and an artifact that is wrong: ``check`` misses a gate on each, whatever large
values, offsets or single samples would hide; and on none of the right ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.cli import command, written

RNG = np.random.default_rng(0)
CLASSES = RNG.standard_normal((16, 80)).astype(np.float32) * 0.4
BOXES = RNG.uniform(1, 40, (16, 4)).astype(np.float32)
WEIGHTS = {
    "boxes": BOXES,
    "classes": CLASSES,
    "w": RNG.standard_normal((16, 10)).astype(np.float32),
    "b": RNG.standard_normal(10).astype(np.float32),
    "kernel": RNG.standard_normal((10, 3, 3, 3)).astype(np.float32),
    "gain": RNG.uniform(0.5, 2, 10).astype(np.float32),
    "shift": RNG.standard_normal(10).astype(np.float32),
    "mean": RNG.standard_normal(10).astype(np.float32),
    "var": RNG.uniform(0.05, 0.3, 10).astype(np.float32),
    "table": RNG.integers(0, 10**6, (1000,)),
    "last": np.where(np.arange(10) == 7, 0, 1).astype(np.float32),
}

DETECTOR = """
    at = Transpose<perm = [0, 2, 1]>(x)
    found = MatMul(at, boxes)
    pixels = Mul(found, ten)
    given = MatMul(at, {classes})
    scores = Sigmoid(given)
    {more}
    both = Concat<axis = 2>(pixels, {scores})
    y = Transpose<perm = [0, 2, 1]>(both)"""
"""[84, 100]: four boxes in pixels, and 80 scores."""

CLASSIFIER = "logits = Gemm(x, w, b) {more}"

RANK2 = "(float[batch, 16] x) => (float[batch, 10] y)"
RANK3 = "(float[batch, 16, 100] x) => (float[batch, 84, 100] y)"
IMAGE = "(float[batch, 3, 8, 8] x) => (float[batch, 10, 8, 8] y)"

WRONG = {
    "a detector's scores are all zero": (
        RANK3,
        DETECTOR.format(classes="classes", more="", scores="scores"),
        DETECTOR.format(classes="classes", more="none = Mul(scores, zero)", scores="none"),
    ),
    "a detector's classes are rolled by one": (
        RANK3,
        DETECTOR.format(classes="classes", more="", scores="scores"),
        DETECTOR.format(
            classes="classes",
            more="tail = Slice(scores, s79, s80, axis2) head = Slice(scores, s0, s79, axis2) "
            "rolled = Concat<axis = 2>(tail, head)",
            scores="rolled",
        ),
    ),
    "logits are negated, on an offset of 500": (
        RANK2,
        CLASSIFIER.format(more="y = Add(logits, offset)"),
        CLASSIFIER.format(more="other = Neg(logits) y = Add(other, offset)"),
    ),
    "all rows are the first one's": (
        RANK2,
        CLASSIFIER.format(more="y = Identity(logits)"),
        CLASSIFIER.format(
            more="first = Slice(logits, s0, s1, s0) size = Shape(logits) y = Expand(first, size)"
        ),
    ),
    "the mean of the batch is taken off": (
        RANK2,
        CLASSIFIER.format(more="y = Identity(logits)"),
        CLASSIFIER.format(more="m = ReduceMean<keepdims = 1>(logits, s0) y = Sub(logits, m)"),
    ),
    "two classes are swapped": (
        RANK2,
        CLASSIFIER.format(more="y = Identity(logits)"),
        CLASSIFIER.format(more="y = Gather<axis = 1>(logits, swapped)"),
    ),
    "one class has a bias of its own": (
        RANK2,
        CLASSIFIER.format(more="y = Identity(logits)"),
        CLASSIFIER.format(more="spare = Sub(last, one) y = Add(logits, spare)"),
    ),
    "BatchNormalization has another epsilon": (
        IMAGE,
        "c = Conv<pads = [1, 1, 1, 1]>(x, kernel) "
        "y = BatchNormalization<epsilon = 0.00001>(c, gain, shift, mean, var)",
        "c = Conv<pads = [1, 1, 1, 1]>(x, kernel) "
        "y = BatchNormalization<epsilon = 0.001>(c, gain, shift, mean, var)",
    ),
    "a channel of an image is another's": (
        IMAGE,
        "y = Conv<pads = [1, 1, 1, 1]>(x, kernel)",
        "c = Conv<pads = [1, 1, 1, 1]>(x, kernel) y = Gather<axis = 1>(c, swapped)",
    ),
    "it is right at the samples' sizes alone": (
        "(float[batch, n] x) => (float[batch, n] y)",
        "m = ReduceMean<keepdims = 1>(x, s1) y = Sub(x, m)",
        "t = ReduceSum<keepdims = 1>(x, s1) m = Div(t, sixteen) y = Sub(x, m)",
    ),
    "silence is NaN": (
        RANK2,
        CLASSIFIER.format(more="a = Abs(x) s = ReduceSum<keepdims = 1>(a, s1) "
                               "t = Add(s, tiny) l = Log(t) y = Add(logits, l)"),
        CLASSIFIER.format(more="a = Abs(x) s = ReduceSum<keepdims = 1>(a, s1) "
                               "l = Log(s) y = Add(logits, l)"),
    ),
    "large values are cut off": (
        RANK2,
        CLASSIFIER.format(more="y = Identity(logits)"),
        CLASSIFIER.format(more="y = Clip(logits, low, high)"),
    ),
}  # fmt: skip

NUMBERS = {
    "zero": np.float32(0), "one": np.float32(1), "ten": np.float32(10), "offset": np.float32(500),
    "sixteen": np.float32(16), "tiny": np.float32(1e-10), "low": np.float32(-60),
    "high": np.float32(60), "s0": np.array([0]), "s1": np.array([1]), "s79": np.array([79]),
    "s80": np.array([80]), "axis2": np.array([2]),
    "swapped": np.array([0, 1, 2, 4, 3, 5, 6, 7, 8, 9]),
}  # fmt: skip


def model(path: Path, interface: str, body: str) -> Path:
    """A model of ONNX's text, with those of the weights that it names."""
    known = {**WEIGHTS, **NUMBERS}
    tokens = {token.strip("(),") for token in body.replace("(", " ").replace(",", " ").split()}
    used = {name: np.asarray(known[name]) for name in known if name in tokens}
    return written(path, f"g {interface} {{ {body} }}", opset=18, **used)


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_artifact_misses_a_gate_and_a_right_one_none(what: str, tmp_path: Path) -> None:
    interface, right, wrong = WRONG[what]
    source = model(tmp_path / "source.onnx", interface, right)
    artifact = model(tmp_path / "artifact.onnx", interface, wrong)
    options = ["--against", source, "--samples", "random:8"]
    if " n]" in interface:
        options += ["--dim", "n=16"]
    command("check", source, *options, code=0)
    said = command("check", artifact, *options, code=4)
    assert "missed" in said.err
