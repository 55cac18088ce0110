"""What is written: code that a person would read, and that computes what the source does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.acceptance.cli import command
from tests.pytorch_emitter.models import converted, loaded, model, reference

torch = pytest.importorskip("torch", reason="torch isn't installed")

_BLOCKS = """net (float[batch,8,6,6] image) => (float[batch,8,6,6] y) {
  a = Conv<pads=[1,1,1,1]>(image, w0, b0)
  b = Relu(a)
  c = Conv<pads=[1,1,1,1]>(b, w1, b1)
  d = Add(c, image)
  e = Conv<pads=[1,1,1,1]>(d, w2, b2)
  f = Relu(e)
  g = Conv<pads=[1,1,1,1]>(f, w3, b3)
  y = Add(g, d)
}"""
_BLOCK_WEIGHTS = {
    "w0": (4, 8, 3, 3),
    "b0": (4,),
    "w1": (8, 4, 3, 3),
    "b1": (8,),
    "w2": (6, 8, 3, 3),
    "b2": (6,),
    "w3": (8, 6, 3, 3),
    "b3": (8,),
}
_BLOCK_NAMES = tuple(
    f"blocks.{block}{node}" for block in (0, 1) for node in (".narrow", "/Relu", ".widen", "/Add")
)

_LAYERS = """net (float[batch,1,8,8] image) => (float[batch,10] scores) {
  c0 = Conv<pads=[1,1,1,1]>(image, w0)
  n0 = BatchNormalization(c0, g0, h0, m0, variance0)
  r0 = Relu(n0)
  c1 = Conv<pads=[1,1,1,1], strides=[2,2]>(r0, w1)
  n1 = BatchNormalization(c1, g1, h1, m1, variance1)
  r1 = Relu(n1)
  pooled = GlobalAveragePool(r1)
  flat = Flatten(pooled)
  dropped = Dropout(flat, ratio)
  scores = Gemm<transB=1>(dropped, w2, b2)
}"""
_LAYER_WEIGHTS = {
    "w0": (4, 1, 3, 3),
    "w1": (8, 4, 3, 3),
    "w2": (10, 8),
    "b2": (10,),
    "ratio": (),
    **{f"{name}0": (4,) for name in ("g", "h", "m", "variance")},
    **{f"{name}1": (8,) for name in ("g", "h", "m", "variance")},
}


def _images(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).random(shape, dtype=np.float32)


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """Two blocks, in both precisions: the model, and the folder of fp32's code."""
    proto = model(_BLOCKS, _BLOCK_WEIGHTS, _BLOCK_NAMES)
    folder = tmp_path_factory.mktemp("blocks")
    return proto, converted(proto, folder, "--precision", "fp32,fp16", check=True)


def test_blocks_are_one_class(blocks: tuple[Any, Path]) -> None:
    """Blocks that differ in a number are one class, called with it; modules have the source's
    names; the text is as Ruff would have it."""
    proto, folder = blocks
    text = (folder / "model.py").read_text()
    assert text.count("(nn.Module)") == 2
    assert "self.blocks = nn.Sequential(" in text and "Block(narrow_out_channels=6)" in text
    net, image = loaded(folder), _images(3, 8, 6, 6)
    assert "blocks.1.narrow.weight" in dict(net.named_parameters())
    with torch.no_grad():
        found = net(torch.from_numpy(image)).numpy()
    np.testing.assert_allclose(found, reference(proto, {"image": image})[0], rtol=0, atol=1e-5)
    ruff = [sys.executable, "-m", "ruff"]
    told = ["--isolated", "--line-length", "100", str(folder / "model.py")]
    subprocess.run([*ruff, "format", "--check", *told], check=True)
    subprocess.run([*ruff, "check", "--select", "E,F,I,B", *told], check=True)


def test_trainable_keeps_what_trains(tmp_path: Path) -> None:
    """BatchNorm and Dropout are layers, eval() gives what the source gives, a gradient reaches
    every parameter, and training changes what BatchNorm has counted."""
    proto = model(_LAYERS, _LAYER_WEIGHTS)
    folder = converted(proto, tmp_path, "--trainable")
    net, image = loaded(folder), _images(5, 1, 8, 8)
    kinds = [type(module).__name__ for module in net.modules()]
    assert kinds.count("BatchNorm2d") == 2 and kinds.count("Dropout") == 1
    with torch.no_grad():
        found = net(torch.from_numpy(image)).numpy()
    np.testing.assert_allclose(found, reference(proto, {"image": image})[0], rtol=0, atol=1e-5)
    net.train()
    before = net.norm.running_mean.clone()
    net(torch.from_numpy(image)).square().sum().backward()
    without = [name for name, p in net.named_parameters() if p.grad is None or not p.grad.any()]
    assert not without
    assert not torch.equal(before, net.norm.running_mean)


def test_package_and_way_back(blocks: tuple[Any, Path], tmp_path: Path) -> None:
    """The package tests itself; the code is a source again, and gives the same to 1e-5."""
    proto, folder = blocks
    done = subprocess.run(
        [sys.executable, "selftest.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run([sys.executable, "usage.py"], cwd=folder, check=True, capture_output=True)
    back = tmp_path / "back"
    said = command(
        *("convert", f"{folder / 'model.py'}:Model", "--weights", folder / "model.safetensors"),
        *("--input", "image:batchx8x6x6", "--no-bench", "--no-check", "--out", back),
    )
    assert said.code == 0, said.err
    again = onnx.load(back / "onnx" / "fp32" / "model.onnx")
    feeds = {"image": _images(2, 8, 6, 6)}
    found, right = reference(again, feeds)[0], reference(proto, feeds)[0]
    np.testing.assert_allclose(found, right, rtol=0, atol=1e-5)


def test_halves_and_what_it_lacks(blocks: tuple[Any, Path], tmp_path: Path) -> None:
    """fp16 is stored so and counted in the file; int8 is refused with why."""
    out = blocks[1].parent.parent
    report = json.loads((out / "report.json").read_text())
    half = next(item for item in report["artifacts"] if item["precision"] == "fp16")
    assert "float16" in json.dumps(half)
    net = loaded(out / "pytorch" / "fp16")
    assert {p.dtype for p in net.parameters()} == {torch.float16}
    said = command(
        *("convert", out.parent / "source.onnx", "--to", "pytorch", "--precision", "int8"),
        *("--out", tmp_path / "whole"),
    )
    assert said.code == 2 and "pytorch has no int8: layers compute in floats" in said.err


def test_all_refusals_at_once(tmp_path: Path) -> None:
    """Every node that there is no code for is named, with why."""
    text = """net (float[2] x) => (float[2] y, float[2] z) {
      y = RandomNormalLike(x)
      n = RandomUniformLike(x)
      z = Add(n, x)
    }"""
    onnx.save(model(text, {}), tmp_path / "random.onnx")
    said = command("convert", tmp_path / "random.onnx", "--to", "pytorch", "--out", tmp_path / "o")
    assert said.code == 3
    assert "RandomNormalLike" in said.err and "RandomUniformLike" in said.err


def test_names_that_mean_something(tmp_path: Path) -> None:
    """Inputs and modules called as Python's and PyTorch's own words are; more outputs than a line
    has room for."""
    others = [f"forward_{number}_of_several_outputs" for number in range(5)]
    declared = "".join(f", float[batch,4] {name}" for name in others)
    nodes = "\n".join(
        f"{name} = {op}(b)"
        for name, op in zip(others, ("Tanh", "Sin", "Cos", "Exp", "Neg"), strict=True)
    )
    text = f"""net (float[batch,4] lambda) => (float[batch,4] forward{declared}) {{
      a = MatMul(lambda, w0)
      b = Relu(a)
      forward = MatMul(b, w1)
      {nodes}
    }}"""
    proto = model(text, {"w0": (4, 4), "w1": (4, 4)}, ("self", "train/Relu", "class"))
    folder = converted(proto, tmp_path)
    x = _images(2, 4)
    with torch.no_grad():
        found = loaded(folder)(torch.from_numpy(x))
    for mine, right in zip(found, reference(proto, {"lambda": x}), strict=True):
        np.testing.assert_allclose(mine.numpy(), right, rtol=0, atol=1e-5)


def test_tied_weights_are_one_tensor(tmp_path: Path) -> None:
    """An embedding that is the last layer's matrix too is stored once, and trained as one."""
    text = """net (int64[batch,5] ids) => (float[batch,5,12] scores) {
      x = Gather(table, ids)
      flat = Reshape(x, rows)
      y = Gemm<transB=1>(flat, table)
      scores = Reshape(y, whole)
    }"""
    proto = model(text, {"table": (12, 6)})
    for name, sizes in (("rows", [-1, 6]), ("whole", [-1, 5, 12])):
        tensor = onnx.numpy_helper.from_array(np.asarray(sizes, np.int64), name)
        proto.graph.initializer.append(tensor)
    folder = converted(proto, tmp_path)
    net = loaded(folder)
    assert len(list(net.parameters())) == 1
    assert (folder / "model.safetensors").stat().st_size < 2 * 12 * 6 * 4
    ids = np.arange(10, dtype=np.int64).reshape(2, 5)
    with torch.no_grad():
        found = net(torch.from_numpy(ids)).numpy()
    np.testing.assert_allclose(found, reference(proto, {"ids": ids})[0], rtol=0, atol=1e-5)
