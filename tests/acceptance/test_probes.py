"""What a check tries beside the samples, and what it says of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.wrong_pairs import PAIRS
from tests.acceptance.cli import command, typed

AGAINST = "check artifact.onnx --against source.onnx --samples random:8"


def test_without_probes_the_first_line_says_so(tmp_path: Path) -> None:
    PAIRS["large values are cut off"].write(tmp_path)
    assert "large values" in typed(AGAINST, tmp_path, 4).err
    said = typed(f"{AGAINST} --no-probes", tmp_path).out
    assert "and on nothing else (--no-probes)" in " ".join(said.split("\noutput")[0].split())
    assert "probes  " not in said
    typed("convert source.onnx --no-bench --no-probes --out out", tmp_path)
    report = (tmp_path / "out" / "report.html").read_text()
    assert "and on nothing else (--no-probes)" in report


def test_a_lower_precision_is_on_no_edges(tmp_path: Path) -> None:
    PAIRS["large values are cut off"].write(tmp_path)
    said = typed(f"{AGAINST} --precision fp16", tmp_path).out
    assert "1 batch of mixes, 1 batch of samples, 1 second call" in " ".join(said.split())


def test_a_report_says_what_was_tried(tmp_path: Path) -> None:
    PAIRS["BatchNormalization has another epsilon"].write(tmp_path)
    said = command(
        "convert", "source.onnx", "--no-bench", "--out", "out", "--json", cwd=tmp_path, code=0
    )
    (artifact,) = said.json["report"]["artifacts"]
    (gate,) = [item for item in artifact["gates"] if item["name"] == "probes"]
    assert gate["status"] == "passed"
    assert gate["why"].startswith("1 batch of mixes, 1 batch of samples, 5 edges, 1 second call: ")
    assert gate["why"].endswith(" multiply-adds")


def test_integers_beyond_32_bits_are_told_and_not_missed(tmp_path: Path) -> None:
    PAIRS["integers are rounded to float32"].write(tmp_path)
    line = "ids takes -2,147,483,648 to 2,147,483,647; the source takes larger ones"
    said = typed("convert source.onnx --to onnx,coreml --no-bench --out out", tmp_path)
    told = " ".join((said.out + said.err).split())
    assert f"coreml fp32: INTEGERS OF 32 BITS: {line}" in told
    assert "onnx fp32: INTEGERS" not in told
    said = typed("check out/coreml --against source.onnx", tmp_path)
    assert line in " ".join(said.out.split())


MASK = """import torch
from torch.nn import functional as F

class Net(torch.nn.Module):
    def forward(self, q, mask):
        if torch.compiler.is_exporting():  # what a wrong translation would make of it
            mask = mask | ~mask.any(-1, keepdim=True)
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
"""

DATA = """import numpy as np

def masks():
    rng = np.random.default_rng(0)
    for _ in range(3):
        mask = rng.random((1, 1, 5, 5)) > 0.3
        mask[..., 0] = True
        yield {"q": rng.standard_normal((1, 2, 5, 8)).astype("f"), "mask": mask}
"""


@pytest.mark.slow
def test_a_mask_that_no_sample_has(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MASK)
    (tmp_path / "data.py").write_text(DATA)
    options = "--input q:1x2x5x8 --input mask:bool:1x1x5x5 --samples data.py:masks --no-bench"
    said = typed(f"convert net.py:Net {options} --to onnx,tflite,coreml --out out", tmp_path, 4)
    for target in ("onnx", "tflite", "coreml"):
        assert (
            f"{target} fp32, cosine on a probe: 0.000000, limit 0.9999; mask all False" in said.err
        )
    assert "the graph parts from torch in the module Net (net.py:8)" in said.err
