"""Models whose outputs say nothing of the conversion: what users see, and the exit codes."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.cli import command, typed, written


def shifted(path: Path, shift: float, *after: str) -> Path:
    """``y = relu(x W - shift)``, what ``after`` makes of it, and a constant output ``fixed``."""
    names = [f"t{n}" for n in range(len(after))] + ["y"]
    then = " ".join(f"{b} = {op}({a})" for op, a, b in zip(after, names, names[1:], strict=False))
    weights = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    text = f"""shifted (float[batch, 8] x) => (float[batch, 4] y, float[8, 4] fixed) {{
        product = MatMul(x, w) difference = Sub(product, shift) {names[0]} = Relu(difference)
        {then} fixed = Identity(w) }}"""
    return written(path, text, w=weights, shift=np.array(shift, np.float32))


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    """A model whose Relu no input reaches."""
    return shifted(tmp_path / "dead.onnx", 1e9)


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


def test_samples_that_say_nothing_are_helped_by_other_inputs(tmp_path: Path) -> None:
    model, out = shifted(tmp_path / "zero.onnx", 0.0), tmp_path / "out"
    np.savez(tmp_path / "zeros.npz", x=np.zeros((3, 8), np.float32))
    typed("convert zero.onnx --out out --no-bench --samples zeros.npz --to onnx,tflite", tmp_path)
    report = json.loads((out / "report.json").read_text())
    for artifact in report["artifacts"]:
        (gate,) = [gate for gate in artifact["gates"] if gate["name"] == "judged"]
        assert gate["status"] == "passed"
        assert gate["why"] == "y (zero on all 3 samples) was judged on random values of about 1"
    wrong = shifted(tmp_path / "wrong.onnx", 1e9)
    found = command("check", wrong, "--against", model, "--samples", tmp_path / "zeros.npz", code=4)
    assert "cosine on other inputs" in found.err


def test_limits_are_shown_as_they_were_given(tmp_path: Path) -> None:
    shifted(tmp_path / "net.onnx", 0.0)
    limits = "--min-cosine 0.99999 --max-abs-error 1e-9"
    typed(f"convert net.onnx --out out --no-bench {limits}", tmp_path)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "0.99999<" in page and "1e-09<" in page and "cosine ≥ 0.99999" in page
    table = typed("check net.onnx --against net.onnx --min-cosine 0.99999", tmp_path).out
    assert "0.99999 1 (exact) passed" in " ".join(table.split()) and "0.004472" in table
