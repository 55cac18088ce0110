"""Operators that torch's own way to ONNX hasn't, or has otherwise: files give what eager gives."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from parsers.pytorch.child.decompositions import bags

from .client import Client
from .conftest import Write, check_equal, eager, export, in_onnxruntime, network, spec

RESIZED = """
    exact = F.interpolate(x, size=(64, 27), mode="nearest-exact")
    by = F.interpolate(x, scale_factor=(0.37, 1.7), mode="nearest")
    return F.interpolate(x, size=(64, 27)), exact, by, F.interpolate(x, scale_factor=2)"""

RECURRENT = """
    y, (h, c) = self.lstm(x)
    return y, h, c, self.lstm(x, (first, cell))[0]"""

SPECTRAL = """
    spectrum = torch.stft(x, 64, 16, window=self.window, return_complex=True)
    return torch.istft(spectrum / 2, 64, 16, window=self.window, length=x.shape[-1])"""

DISTANCES = """
    exponents = 0, 1, 1.5, 2, 3, float("inf")
    return *[torch.cdist(x, y, p) for p in exponents], torch.cdist(x.round(), y.round(), 0)"""

ELEMENTS = """
    signs = torch.signbit(x), torch.signbit(x * 0), torch.copysign(x, -x), torch.copysign(x, -2.0)
    y = torch.where(x > 0.5, float("nan"), x)
    kept = torch.fmax(y, -x), torch.fmin(y, x.flip(-1)), torch.fmax(y, y)
    products = x.cumprod(-1), x.round().long().cumprod(1), x.cumprod(0, dtype=torch.float64)
    picked = x.masked_select(torch.tensor([[True], [False], [True]])), x[:, :1].masked_select(x > 0)
    edges = [F.pad(x, p, mode="replicate") for p in ((-4, 5), (2, -3), (-1, -2), (1, 2))]
    edges += F.pad(x, (-1, 2), value=3.0), F.pad(x, (1, 2), mode="reflect")
    norm = torch.linalg.vector_norm
    lone = [norm(x[0, 0, 0], p, 0, keep) for p in (0, 1, 2, -3.5) for keep in (False, True)]
    lone += norm(x[0, 0, 0] * 0, 0, -1), norm(x[0, 0, 0], dim=()), norm(x, 3, -1)
    picked += (torch.linalg.matrix_power(x[:, :, :3], 0),)
    tails = torch.special.erfcx(9 * x), torch.special.log_ndtr(20 * x), torch.special.log_ndtr(x)
    return *signs, *kept, *products, *picked, *edges, *lone, *tails"""

TRANSPOSED = """
    grown = [layer(x) for layer in self.grown]
    row, kernel = x[:, :, 0], torch.arange(6.0).reshape(2, 1, 3)
    grown += F.conv_transpose1d(row, kernel, None, 1, 1, 2, 1, 3), self.grown[1](x[0])
    grown += (torch.convolution(row, kernel, None, [2], [0], [4], True, [3], 1),)
    return *grown, self.plain(x)"""

CASES: dict[str, tuple[str, list[dict[str, Any]], dict[str, int]]] = {
    "resized": (network(RESIZED), [spec("x", "batch", 2, 26, 10)], {"batch": 3}),
    "recurrent": (
        network(RECURRENT, "self.lstm = nn.LSTM(4, 7, 2, proj_size=3, bidirectional=True)",
                takes="x, first, cell"),
        [spec("x", "time", "batch", 4), spec("first", 4, "batch", 3), spec("cell", 4, "batch", 7)],
        {"time": 5, "batch": 3},
    ),
    "distances": (
        network(DISTANCES, takes="x, y"),
        [spec("x", "batch", 5, 3), spec("y", "batch", 7, 3)], {"batch": 2},
    ),
    "elements": (network(ELEMENTS), [spec("x", 4, 3, 5)], {}),
    "transposed": (
        network(
            TRANSPOSED, "up = nn.ConvTranspose2d",
            "self.grown = nn.ModuleList([up(2, 4, 3, (3, 2), (1, 2), (2, 3), 2, dilation=4),"
            " up(2, 3, (2, 3), 2, 0, (5, 1), dilation=(6, 1), bias=False)])",
            "self.plain = up(2, 3, 3, 2, 1, 1)",
        ),
        [spec("x", "batch", 2, "height", 5)], {"batch": 2, "height": 4},
    ),
    "spectral": (
        network(SPECTRAL, 'self.register_buffer("window", torch.hann_window(64))'),
        [spec("x", "batch", 400)], {"batch": 2},
    ),
}  # fmt: skip

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"


@pytest.mark.parametrize("case", CASES)
def test_as_eager(worker: Client, write: Write, case: str) -> None:
    text, inputs, sizes = CASES[case]
    made = export(worker, write(text, head=HEAD), inputs)
    assert made["exporter"] == "dynamo", made["reasons"]
    check_equal(worker, made, **sizes)


BAGS = network("""
    even = self.sum(ids, per_sample_weights=weights), self.mean(ids), self.max(ids)
    return *even, self.sum(flat, offsets), self.mean(flat, offsets), self.max(flat, offsets)""",
    'self.sum = nn.EmbeddingBag(20, 4, mode="sum")',
    'self.mean = nn.EmbeddingBag(20, 4, mode="mean", padding_idx=0)',
    'self.max = nn.EmbeddingBag(20, 4, mode="max")',
    takes="ids, weights, flat, offsets")  # fmt: skip


def test_bags(worker: Client, write: Write, tmp_path: Path) -> None:
    whole = {"dtype": "int64"}
    inputs = [spec("ids", "batch", 5, **whole), spec("weights", "batch", 5),
              spec("flat", "words", **whole), spec("offsets", "bags", **whole)]  # fmt: skip
    made = export(worker, write(BAGS), inputs)
    assert made["exporter"] == "dynamo", made["reasons"]
    rng = np.random.default_rng(0)
    ids, flat = rng.integers(0, 20, (3, 5)), rng.integers(0, 20, 9)
    ids[0] = 0  # a bag of padding alone; and one without anything
    feeds = {"ids": ids, "weights": rng.random((3, 5)).astype("f"), "flat": flat,
             "offsets": np.array([0, 2, 2, 7])}  # fmt: skip
    want, got = eager(worker, tmp_path, feeds), in_onnxruntime(Path(made["out"]), feeds)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, 1e-5, 1e-6, err_msg=name, strict=True)


ENCODER = network("""
    return self.encoder(x, src_key_padding_mask=hidden)""",
    "layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)",
    "self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8))",
    takes="x, hidden")  # fmt: skip


def test_an_encoder_drops_padding_at_the_ends(worker: Client, write: Write, tmp_path: Path) -> None:
    inputs = [spec("x", "batch", 4, 8), spec("hidden", "batch", 4, dtype="bool")]
    made = export(worker, write(ENCODER), inputs)
    x = np.random.default_rng(0).standard_normal((2, 4, 8)).astype("f")
    for rows in ([0, 0, 1, 1], [1, 1, 1, 1]), ([0, 0, 0, 0], [0, 1, 0, 1]), ([0, 0, 0, 1],) * 2:
        feeds = {"x": x, "hidden": np.array(rows, bool)}
        want, got = eager(worker, tmp_path, feeds), in_onnxruntime(Path(made["out"]), feeds)
        np.testing.assert_allclose(got["output"], want["output"], 1e-4, 1e-5)
        assert np.isfinite(want["output"]).all()


@pytest.mark.parametrize("mode", [0, 1, 2], ids=["sum", "mean", "max"])
def test_bags_by_offsets_are_torch_s(mode: int) -> None:
    """Empty bags, padding, a last offset before the end: what torch's own kernels give."""
    generator = torch.Generator().manual_seed(mode)
    for padding, last, weighted in itertools.product((-1, 0, 4), (False, True), (False, True)):
        for _ in range(10):
            table = torch.randn(5, 5, generator=generator)
            ids = torch.randint(0, 5, (6,), generator=generator)
            offsets = torch.randint(0, 7, (3,), generator=generator).sort()[0]
            offsets[0] = 0
            scales = torch.randn(6, generator=generator) if weighted and mode == 0 else None
            given = (table, ids, offsets, False, mode, False, scales, last, padding)
            expected = torch.ops.aten._embedding_bag_forward_only(*given)[0]
            torch.testing.assert_close(bags._embedding_bag(*given)[0], expected)
