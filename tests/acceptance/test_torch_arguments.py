"""Arguments of PyTorch's operators that its own translations to ONNX lose."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.acceptance.cli import refused
from tests.acceptance.test_pytorch import converted, net

pytestmark = pytest.mark.slow

NET = """
import torch
import torch.ao.quantization.fx._decomposed
from torch.nn import functional as F

class Net(torch.nn.Module):
    def forward(self, x, index, image, labels):
        quantize = torch.ops.quantized_decomposed.quantize_per_tensor
        return {
            "mean": x.scatter_reduce(0, index, x * 2, "mean", include_self=False),
            "mean_with": x.scatter_reduce(0, index, x * 2, "mean"),
            "most": x.scatter_reduce(0, index, x - 9, "amax", include_self=False),
            "whole": labels.scatter_reduce(0, index[:, 0], labels - 9, "mean", include_self=False),
            "larger": x.scatter(1, index[:3, :2], x),
            "pool": F.avg_pool2d(image, (3, 2), 2, 1, divisor_override=4),
            "pool_ceil": F.avg_pool2d(image, 3, 2, 1, ceil_mode=True, divisor_override=5),
            "pool_3d": F.avg_pool3d(image[None], 2, divisor_override=3),
            "smooth": F.cross_entropy(x, labels, label_smoothing=0.3),
            "shares": F.cross_entropy(x, x.softmax(1), label_smoothing=0.1, reduction="none"),
            "scaled": F.interpolate(image, scale_factor=1.7, mode="bilinear", antialias=True),
            "nearest": F.interpolate(image, size=(64, 13)),
            "log": torch.log((x > 9).float() + 1e-8),
            "divided": torch.div(labels + 20000001, 2, rounding_mode="floor"),
            "floored": torch.div(x.round(), 0.1, rounding_mode="floor"),
            "turned": torch.atan2(labels * 0.0, 0.5 - labels),
            "own": F.batch_norm(image, torch.zeros(2), torch.ones(2), training=True),
            "chosen": torch.where(x > 9, index > 1, index < 1),
            "any": (index > 1) + (index < 1),
            "powers": 2 ** (labels - 2),
            "places": torch.repeat_interleave(torch.arange(4), labels + 1),
            "narrow": quantize(x, 0.1, 1, -4, 5, torch.int8).float(),
        }
"""
SPECS = ("--input", "x:4x5", "--input", "index:int64:4x5", "--input", "image:1x2x26x9",
         "--input", "labels:int64:4")  # fmt: skip


def inputs() -> dict[str, Any]:
    """Of which the indices repeat."""
    draw = np.random.default_rng(3)
    x, image = draw.normal(size=(4, 5)), draw.normal(size=(1, 2, 26, 9))
    index = np.array([[0, 1, 1, 3, 2], [0, 1, 2, 3, 0], [0, 3, 2, 3, 0], [1, 1, 1, 1, 0]])
    floats = {"x": x.astype(np.float32), "image": image.astype(np.float32)}
    return {**floats, "index": index, "labels": np.array([4, 0, 0, 3])}


def test_they_reach_the_graph(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    session, _ = converted(tmp_path, "net.py:Net", *SPECS)
    spec = importlib.util.spec_from_file_location("net", tmp_path / "net.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    feeds = inputs()
    want = module.Net()(**{name: torch.from_numpy(array) for name, array in feeds.items()})
    got = session.run(feeds)
    assert {*got} == {*want}
    for name, tensor in want.items():
        np.testing.assert_allclose(got[name], tensor.numpy(), 1e-5, 1e-5, err_msg=name)


def test_one_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    call = "torch.stft(x, 16, window=torch.ones(8), win_length=8, center=False, "
    call += "return_complex=True, align_to_window=True)"
    net(tmp_path, f"(self, x):\n        return torch.view_as_real({call})")
    says = "aten.stft: torch"
    done = refused(3, says, tmp_path, "net.py:Net", "--input", "x:2x64")
    assert "without its argument align_to_window, which is True here" in done.err
