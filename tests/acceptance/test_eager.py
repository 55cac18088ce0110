"""What PyTorch gives in eager mode is right, where a translation would give something else."""

from pathlib import Path

import numpy as np
import pytest

from converter.runtime.ort import OrtSession
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


def converts_everywhere(folder: Path, net: str, data: str, options: str) -> None:
    (folder / "net.py").write_text(net)
    (folder / "data.py").write_text(data)
    said = typed(f"convert net.py:Net {options} {TARGETS}", folder)
    assert said.out.count(" ok ") == 2 and "NOT RUN" in said.out


def test_a_row_that_sees_nothing_is_zero(tmp_path: Path) -> None:
    shapes = "--input q:1x2x5x8 --input mask:bool:1x1x5x5"
    converts_everywhere(tmp_path, BLIND, MASKS, f"{shapes} --samples data.py:masks")


WRITTEN = """import torch
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(9, 7, proj_size=3, batch_first=True)
        self.bags = nn.EmbeddingBag(20, 4, mode="mean", padding_idx=0)
        self.line = nn.utils.parametrizations.orthogonal(nn.Linear(9, 9))
        layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, x, ids, offsets):
        pooled, places = F.adaptive_max_pool2d(x, (3, 4), return_indices=True)
        grown = F.interpolate(x, size=(26, 64)), F.interpolate(x, (26, 64), mode="nearest-exact")
        middle, third = x.median(-1)[0], x.kthvalue(3, -1)[0]
        largest, least = x.cummax(2), x.cummin(-1)[0]
        order = x.flatten(1).argsort(dim=1, stable=True)
        turn = torch.polar(torch.ones(6, 9), torch.arange(54.0).reshape(6, 9) / 9)
        turned = torch.view_as_complex(torch.stack([x, x], -1)) * turn.unsqueeze(0)
        words = self.encoder(self.bags.weight[ids], src_key_padding_mask=ids == 0)
        state = self.lstm(self.line(x[:, 0]))[0]
        rows = self.bags(ids), self.bags(ids.flatten(), offsets)
        return (pooled, places, grown, middle, third, largest, least, order, state, words,
                torch.view_as_real(turned), rows)
"""

WORDS = """import numpy as np

def words():
    rng = np.random.default_rng(0)
    for _ in range(3):
        ids = rng.integers(1, 20, (2, 5))
        ids[1, 3:] = 0
        yield {"x": rng.standard_normal((2, 1, 6, 9)).astype("f"), "ids": ids,
               "offsets": np.array([0, 2, 2, 7])}
"""


def test_what_onnx_has_no_operator_for(tmp_path: Path) -> None:
    shapes = "--input x:2x1x6x9 --input ids:int64:2x5 --input offsets:int64:4"
    converts_everywhere(tmp_path, WRITTEN, WORDS, f"{shapes} --samples data.py:words")


STREAM = """import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 4, 3))

    def forward(self, x):
        x = torch.cat([self.cache, x], 2)
        self.cache = x[:, :, -3:]
        return x.cumsum(2)
"""


def test_a_buffer_that_forward_changes_goes_in_and_out(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(STREAM)
    x = np.random.default_rng(0).standard_normal((3, 4, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x[:, None])  # a state that samples lack is 0
    line = "convert net.py:Net --input x:1x4x8 --samples x.npz --to onnx --no-bench --out out"
    said = " ".join(typed(line, tmp_path).out.split())
    assert "STATE IS EXPLICIT" in said and "cache (starts at 0.0)" in said
    session = OrtSession(tmp_path / "out/onnx/fp32/model.onnx")
    x = np.ones((1, 4, 8), np.float32)
    first = session.run({"x": x, "cache": np.zeros((1, 4, 3), np.float32)})
    np.testing.assert_array_equal(first["cache_out"], x[:, :, -3:])
    second = session.run({"x": x, "cache": first["cache_out"]})
    np.testing.assert_array_equal(second["output"][0, 0], np.arange(1, 12))
