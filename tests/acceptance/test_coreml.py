"""Core ML's limits, met by models as they are: many axes, nothing that is found."""

from pathlib import Path

import numpy as np
import pytest

from converter.runtime.ort import OrtSession
from tests.acceptance.cli import command, written
from tests.coreml_emitter.running import opened

pytestmark = pytest.mark.slow

NETS = """
import torch
from torch import nn
from torch.nn import functional as F


class Windows(nn.Module):  # windows and grids of an image, the first with a bias, and back
    def forward(self, x):
        b, c, h, w = x.shape
        a = x.view(b, c, 2, h // 2, 3, w // 3).permute(0, 3, 5, 2, 4, 1)
        a = a + torch.arange(6.0).view(1, 1, 1, 2, 3, 1)
        g = x.view(b, c, h // 2, 2, w // 3, 3).permute(0, 3, 5, 2, 4, 1).softmax(-2)
        a, g = a.reshape(-1, 6, c), g.reshape(-1, h * w // 6, c)
        back = a.view(b, h // 2, w // 3, 2, 3, c).permute(0, 5, 3, 1, 4, 2).reshape(b, c, h, w)
        return back, g


class Unfold(nn.Module):
    def forward(self, x):
        return F.unfold(x, 3, dilation=2, padding=1), F.unfold(x, (2, 3), stride=2)


class Pools(nn.Module):
    def forward(self, x):
        return F.adaptive_avg_pool2d(x, (3, 4)), F.adaptive_avg_pool2d(x, 7)


class Volume(nn.Module):  # correlation volume and the lookup in it, of optical flow
    def forward(self, x):
        b, c, h, w = x.shape
        flat = x.flatten(2)
        v = (flat.transpose(1, 2) @ flat).view(b, h, w, 1, h, w) / c**0.5
        levels = F.avg_pool2d(v.reshape(b * h * w, 1, h, w), 2, 2)
        steps = torch.stack(torch.meshgrid(torch.arange(3.0), torch.arange(3.0), indexing="ij"), -1)
        at = torch.zeros(b, h, w, 1, 1, 2) + steps.view(1, 1, 1, 3, 3, 2) / 9
        found = F.grid_sample(levels, at.reshape(b * h * w, 3, 3, 2), align_corners=True)
        return found.view(b, h, w, 9).permute(0, 3, 1, 2)


class Heads(nn.Module):  # keys in groups, rotated in pairs
    def forward(self, x):
        b, c, h, w = x.shape
        k = x.view(b, 2, 1, c // 2, h, w // 2, 2)
        k = torch.stack((-k[..., 1], k[..., 0]), -1)
        return k.expand(b, 2, 3, c // 2, h, w // 2, 2).reshape(b, 6, c // 2, h * w)


class Sampling(nn.Module):  # deformable attention's places on several levels
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.line = nn.Linear(12, 2 * 3 * 4 * 2)

    def forward(self, x):
        b, c, h, w = x.shape
        offsets = self.line(x.flatten(2).transpose(1, 2)[:, :, :1] * torch.ones(12))
        offsets = offsets.view(b, h * w, 2, 3, 4, 2)
        sizes = torch.tensor([[6.0, 12.0], [3.0, 4.0], [2.0, 2.0]])
        places = torch.full((b, h * w, 3, 2), 0.5)[:, :, None, :, None, :]
        at = 2 * (places + offsets / sizes[None, None, None, :, None, :]) - 1
        grid = at[:, :, :, 1].transpose(1, 2).flatten(0, 1)
        images = x.reshape(b * 2, c // 2, h, w)
        return F.grid_sample(images, grid, align_corners=False).view(b, c, h * w, 4)


class Blocks(nn.Module):  # patches of video there and back, blocks of three axes of space
    def forward(self, x):
        b, c, h, w = x.shape
        v = x.view(b, 1, c, h, w)
        p = v.view(b, 1, c // 2, 2, h // 3, 3, w // 3, 3).permute(0, 2, 4, 6, 3, 5, 7, 1)
        tokens = p.reshape(b, -1, 18)
        again = tokens.tanh().view(b, c // 2, h // 3, w // 3, 2, 3, 3, 1)
        space = v.view(b, 1, c // 2, 2, h // 2, 2, w // 3, 3).permute(0, 1, 3, 5, 7, 2, 4, 6)
        return again.permute(0, 7, 1, 4, 2, 5, 3, 6).reshape(b, c, h, w), space.reshape(b, 12, -1)


class Axial(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = x.permute(0, 2, 3, 1).unsqueeze(-1).expand(b, h, w, c, 3).reshape(
            b, h, w, 3, 2, c // 2).permute(3, 0, 1, 4, 2, 5).unbind(0)
        found = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        return found.permute(0, 1, 3, 2, 4).reshape(b, h, w, c)


class Outer(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        l, r = x[:, :, :, 0], x[:, 0].transpose(1, 2)
        m = l.view(b, 2, 1, c // 2, 1, h, 1) * r.reshape(b, 1, 3, 1, 4, 1, h)
        return m.amax((2, 4)).flatten(1)


class All(nn.Module):
    def __init__(self):
        super().__init__()
        kinds = (Windows, Unfold, Pools, Volume, Heads, Sampling, Blocks, Axial, Outer)
        self.parts = nn.ModuleList(kind() for kind in kinds)

    def forward(self, x):
        made = [part(x) for part in self.parts]
        return [each for item in made for each in (item if isinstance(item, tuple) else (item,))]
"""

DETECTOR = """g (float[12, 4] boxes, float[12] scores) => (float[m, 4] kept, float[m] best)
<float low = {0.5}, int64 nothing = {0}, int64[1] at = {0}, int64[2] rows = {0, 1},
 int64[1] most = {5}, float[1] share = {0.4}, int64[1] two = {2}, int64[1] three = {3},
 int64[1] one = {1}> {
    high = Greater(scores, low)
    b = Compress<axis = 0>(boxes, high) s = Compress<axis = 0>(scores, high)
    count = Size(b) none = Equal(count, nothing)
    keep = If (none) <then_branch = t () => (int64[0] p) { p = Constant<value = int64[0] {}>() },
        else_branch = e () => (q) { bs = Unsqueeze(b, at) ss = Unsqueeze(s, rows)
            found = NonMaxSuppression(bs, ss, most, share) c = Slice(found, two, three, one)
            q = Squeeze(c, one) }>
    kept = Gather(b, keep) best = Gather(s, keep) }"""


def test_a_detector_that_finds_nothing(tmp_path: Path) -> None:
    """torchvision's own way: what has no boxes is asked for none."""
    source = written(tmp_path / "net.onnx", DETECTOR)
    asked = ("--to", "coreml", "--samples", "random:8", "--few-samples")
    command("convert", source, *asked, "--no-bench", "--out", "out", cwd=tmp_path, code=0)
    numbers = np.random.default_rng(0)
    boxes = numbers.uniform(0, 9, (12, 4)).astype(np.float32)
    scores = numbers.uniform(0, 1, 12).astype(np.float32)
    with opened(tmp_path / "out/coreml/fp32/model.mlpackage") as package:
        for feeds in ({"boxes": boxes, "scores": scores}, {"boxes": boxes, "scores": scores / 2}):
            expected, found = OrtSession(source).run(feeds), package.run(feeds)
            assert bool(expected["best"].size) == bool((feeds["scores"] > 0.5).any())
            for name, array in expected.items():
                np.testing.assert_array_equal(found[name], array, strict=True)


MANY = """g (float[batch, 2, 3, 2, 2, 3] x) => (float[batch, 3, 2, 2, 3, 2] y) {
    t = Transpose<perm = [0, 2, 1, 3, 5, 4]>(x) y = Relu(t) }"""


def test_many_axes_in_and_out_are_joined_and_told(tmp_path: Path) -> None:
    source = written(tmp_path / "net.onnx", MANY)
    asked = ("--to", "coreml", "--samples", "random:8", "--few-samples", "--no-bench")
    command("convert", source, *asked, "--out", "out", cwd=tmp_path, code=0)
    report = (tmp_path / "out/report.json").read_text()
    assert "y has 5 axes, the last 2 joined in Core ML" in report
    feeds = {"x": np.random.default_rng(0).standard_normal((3, 2, 3, 2, 2, 3)).astype(np.float32)}
    with opened(tmp_path / "out/coreml/fp32/model.mlpackage") as package:
        expected, found = OrtSession(source).run(feeds), package.run(feeds)
    np.testing.assert_array_equal(found["y"], expected["y"], strict=True)


def test_ways_of_models_have_a_free_batch(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NETS)
    asked = ("--input", "x:batchx4x6x12", "--to", "coreml", "--samples", "random:8")
    more = ("--few-samples", "--no-bench", "--out", "out", "--json")
    said = command("convert", "net.py:All", *asked, *more, cwd=tmp_path, code=0)
    assert said.json["report"]["verdict"] == "passed"
