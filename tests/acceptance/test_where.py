"""A missed gate names where: the step, the operator, the framework's module and line."""

import runpy
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from tests.acceptance.cli import images, small_cnn, typed, written

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\n"

# What a trace makes of these isn't what torch does: as a wrong translation has it.
MEANS = """class Means(nn.Module):
    def forward(self, x, pos):
        x = x * 2
        zeros = torch.zeros(9, 5)
        mean = zeros.scatter_reduce(
            0, pos, x, "mean", include_self=torch.compiler.is_exporting())
        return mean + 1

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.line, self.means, self.last = nn.Linear(5, 5), Means(), nn.Linear(5, 5)
    def forward(self, x, pos):
        return self.last(self.means(self.line(x).relu(), pos))
"""

BETWEEN = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(6, 6, 1), nn.BatchNorm1d(6)
        self.norm.running_mean += 0.5
        self.last = nn.Linear(5, 5)
    def forward(self, x, pos):
        x = self.norm(self.conv(x[None]))[0]
        wrong = torch.compiler.is_exporting()
        return self.last(torch.zeros(9, 5).scatter_reduce(0, pos, x, "mean", include_self=wrong))
"""

ATTENTION = """class Attn(nn.Module):
    def forward(self, q, mask):
        if torch.compiler.is_exporting():
            mask = mask | ~mask.any(-1, keepdim=True)
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleDict({"attn": Attn()})
        self.line = nn.Linear(8, 8)
    def forward(self, q, mask):
        return self.line(self.encoder["attn"](self.line(q), mask))
"""

TINY = """class Tiny(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x - 17)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.line, self.tiny = nn.Linear(5, 5), Tiny()
    def forward(self, x):
        return self.tiny(self.line(x)) * 1e7
"""

WRAPPED = """class Spoilt(nn.Module):
    def forward(self, x, by):
        return (x + 0.5 * torch.compiler.is_exporting()).sigmoid() * by

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.spoilt = nn.Conv2d(3, 4, 3), Spoilt()
    def forward(self, x, by):
        return self.spoilt(self.conv(x), by).relu()
"""

NEGATIVE = """g (float[batch, 4] x) => (float[batch, 4] y) {
    [relu] a = Relu(x) [square] b = Mul(a, a) [last] y = Neg(b) }"""

SAMPLES = """import numpy as np

def means():
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = rng.standard_normal((6, 5)).astype("f")
        yield {"x": x, "pos": rng.integers(0, 9, (6, 5))}

def masks():
    rng = np.random.default_rng(0)
    for _ in range(3):
        mask = rng.random((1, 1, 5, 5)) > 0.3
        mask[..., 0], mask[..., 2, :] = True, False
        yield {"q": rng.standard_normal((1, 2, 5, 8)).astype("f"), "mask": mask}
"""

TO_MEANS = "--input x:6x5 --input pos:int64:6x5 --samples data.py:means"
TO_MASKS = "--input q:1x2x5x8 --input mask:bool:1x1x5x5 --samples data.py:masks"


def spoiled(path: Path, node: str, op: str) -> Path:
    """The model with another operator at one node."""
    proto = onnx.load(path)
    (found,) = [item for item in proto.graph.node if item.name == node]
    found.op_type = op
    onnx.save(proto, path.with_name("spoiled.onnx"))
    return path.with_name("spoiled.onnx")


def write(folder: Path, code: str) -> None:
    """``net.py`` with a ``Net``, and ``data.py``."""
    (folder / "net.py").write_text(HEAD + code)
    (folder / "data.py").write_text(SAMPLES)


def missed(folder: Path, code: str, line: str) -> list[str]:
    """The gates that a conversion of ``net.py:Net`` missed."""
    write(folder, code)
    line = f"convert net.py:Net {line} --to onnx --no-bench --out out"
    return [text for text in typed(line, folder, 4).err.splitlines() if text.startswith("  - ")]


def test_check_names_the_operator(tmp_path: Path) -> None:
    spoiled(small_cnn(tmp_path / "net.onnx"), "relu0", "Elu")
    images(tmp_path / "s.npz")
    said = typed(
        "check spoiled.onnx --against net.onnx --samples s.npz --precision fp32", tmp_path, 4
    )
    cosine, scale, *_ = [text for text in said.err.splitlines() if text.startswith("  - ")]
    at = "it parts at the Relu relu0 (tensor b, which the Elu relu0 makes afterwards)"
    assert cosine.startswith("  - cosine: ") and cosine.endswith(f"; {at}")
    assert "parts at" not in scale


def test_check_names_the_operator_on_inputs_beside_blind_samples(tmp_path: Path) -> None:
    """On the samples everything is zero, in a wrong artifact too."""
    spoiled(written(tmp_path / "net.onnx", NEGATIVE), "square", "Add")
    np.savez(tmp_path / "s.npz", x=-np.ones((3, 4), np.float32))
    line = "check spoiled.onnx --against net.onnx --samples s.npz --precision fp32 --no-probes"
    missed_, *_ = [t for t in typed(line, tmp_path, 4).err.splitlines() if t.startswith("  - ")]
    assert "on other inputs: " in missed_ and "it is zero on all 3 samples" in missed_
    at = "it parts at the Mul square (tensor b, which the Add square makes afterwards)"
    assert missed_.endswith(f"; {at}")


@pytest.mark.slow
def test_check_of_what_no_parser_reads_misses_as_ever(tmp_path: Path) -> None:
    spoiled(small_cnn(tmp_path / "net.onnx"), "relu0", "Elu")
    images(tmp_path / "s.npz")
    typed("convert net.onnx --samples s.npz --to ort --no-bench --out out", tmp_path)
    said = typed("check out --against spoiled.onnx --samples s.npz", tmp_path, 4)
    assert "ort fp32 missed" in said.err and "it parts" not in said.err


def test_a_step_is_named_where_no_operator_stands_out(tmp_path: Path) -> None:
    small_cnn(tmp_path / "net.onnx")
    images(tmp_path / "s.npz")
    options = "--precision int8 --max-abs-error 1e-4 --no-bench --out out"
    said = typed(f"convert net.onnx --samples s.npz {options}", tmp_path, 4)
    line, *_ = [text for text in said.err.splitlines() if "max-abs-error" in text]
    assert line.endswith("; it parts in the step quantize to int8"), said.err


@pytest.mark.slow
@pytest.mark.smoke
def test_an_argument_that_the_export_loses(tmp_path: Path) -> None:
    cosine, *others = missed(tmp_path, MEANS, TO_MEANS)
    at = "; the graph parts from torch in the module means (Means, net.py:9)"
    assert cosine.startswith("  - cosine: ") and cosine.endswith(at)
    assert not any("parts from" in text for text in others)


@pytest.mark.slow
def test_what_lies_between_modules_isnt_laid_to_the_next(tmp_path: Path) -> None:
    """The convolution's own output isn't in the graph: its normalization was folded into it."""
    cosine, *_ = missed(tmp_path, BETWEEN, TO_MEANS)
    assert cosine.endswith("; the graph parts from torch in the module Net (net.py:14)")


@pytest.mark.slow
def test_a_mask_that_leaves_nothing(tmp_path: Path) -> None:
    cosine, *_ = missed(tmp_path, ATTENTION, TO_MASKS)
    at = "; the graph parts from torch in the module encoder.attn (Attn, net.py:9)"
    assert cosine.endswith(at)


@pytest.mark.slow
def test_a_source_with_a_fixed_input_in_another_layout(tmp_path: Path) -> None:
    line = "--input x:1x3x8x8 --input by:1 --samples random:3 --fix by=2 --layout nhwc"
    cosine, *_ = missed(tmp_path, WRAPPED, line)
    assert cosine.endswith("; the graph parts from torch in the module spoilt (Spoilt, net.py:7)")


@pytest.mark.slow
def test_check_names_the_module(tmp_path: Path) -> None:
    write(tmp_path, ATTENTION)
    typed(f"convert net.py:Net {TO_MASKS} --min-cosine 0 --no-bench --out out", tmp_path)
    said = typed(f"check out --against net.py:Net {TO_MASKS} --min-cosine 0.9999", tmp_path, 4)
    assert "; the graph parts from torch in the module encoder.attn (Attn, net.py:9)" in said.err


@pytest.mark.slow
def test_an_exported_program_names_the_code_that_it_was_made_of(tmp_path: Path) -> None:
    """ONNX Runtime's Sigmoid is off by 5e-8, which is as much as this one gives."""
    write(tmp_path, TINY)
    module = runpy.run_path(str(tmp_path / "net.py"))["Net"]().eval()
    torch.export.save(torch.export.export(module, (torch.ones(6, 5),)), tmp_path / "net.pt2")
    line = "convert net.pt2 --trust-source --samples random:3 --to onnx --no-bench --out out"
    said = typed(line, tmp_path, 4).err
    assert "; the graph parts from torch in the module tiny (Tiny, net.py:7)" in said
