"""Models whose outputs say nothing of the conversion: what users see, and the exit codes."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.cli import command, written


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    """A model whose Relu no input reaches, with a constant output ``fixed``."""
    weights = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    text = """dead (float[batch, 8] x) => (float[batch, 4] y, float[8, 4] fixed)
        <float shift = {1e9}> { product = MatMul(x, w) difference = Sub(product, shift)
        y = Relu(difference) fixed = Identity(w) }"""
    return written(tmp_path / "dead.onnx", text, w=weights)


def test_an_output_that_nothing_moves_is_not_judged(dead: Path) -> None:
    out = dead.parent / "out"
    said = command("convert", dead, "--out", out, "--no-bench", code=0)
    first = "Not judged: y (zero on all 8 samples and on 9 other inputs): nothing tells a right"
    assert " ".join(said.out.split()).startswith(first)
    assert said.out.count("y (zero on") == 1 and "(exact)" in said.out  # fixed's value
    report = json.loads((out / "report.json").read_text())
    assert report["verdict"] == "not judged"
    page = (out / "report.html").read_text()
    assert first in page and page.count("y (zero on") == 1
    file = out / "onnx" / "fp32" / "model.onnx"
    checked = command("check", file, "--against", dead, code=0)
    assert checked.out.startswith("Not judged: y (zero on all 8 samples")
    assert checked.out.count("y (zero on") == 1
    assert command("check", file, "--against", dead, "--json").json["verdict"] == "not judged"
    strict = command("check", file, "--against", dead, "--strict", code=4)
    assert "judged: y (zero on all 8 samples" in strict.err
    out.rename(dead.parent / "made")
    said = command("convert", dead, "--out", out, "--no-bench", "--strict", code=4)
    assert "judged: y (zero on all 8 samples" in said.err
    assert not out.exists()
    left = json.loads((dead.parent / "out.failed" / "report.json").read_text())
    assert left["verdict"] == "failed"
