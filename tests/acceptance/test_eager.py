"""What PyTorch gives in eager mode is right, where a translation would give something else."""

from pathlib import Path

import pytest

from tests.acceptance.cli import typed

pytestmark = pytest.mark.slow

TARGETS = "--to onnx,tflite,coreml --no-bench --out out"

BLIND = """import torch
from torch.nn import functional as F

class Net(torch.nn.Module):
    def forward(self, q, mask):
        added = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
        causal = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        seen = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
        return seen, F.scaled_dot_product_attention(causal, q, q, attn_mask=added)
"""

MASKS = """import numpy as np

def masks():
    rng = np.random.default_rng(0)
    for number in range(3):
        mask = rng.random((1, 1, 5, 5)) > 0.3
        mask[..., 0] = True
        if number:
            mask[..., number, :] = False
        yield {"q": rng.standard_normal((1, 2, 5, 8)).astype("f"), "mask": mask}
"""


def test_a_row_that_sees_nothing_is_zero(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(BLIND)
    (tmp_path / "data.py").write_text(MASKS)
    shapes = "--input q:1x2x5x8 --input mask:bool:1x1x5x5"
    said = typed(f"convert net.py:Net {shapes} --samples data.py:masks {TARGETS}", tmp_path)
    assert said.out.count(" ok ") == 2 and "NOT RUN" in said.out
