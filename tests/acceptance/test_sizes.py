"""Sizes: what a file declares wrongly, what is left free, what a user wrote and what follows."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from converter.runtime.ort import OrtSession
from tests.acceptance.cli import Said, command, typed, written

COUNTED = """
import torch

class Net(torch.nn.Module):
    def forward(self, x, lengths: torch.Tensor):
        if int(lengths.max()) != x.size(1):
            raise ValueError("expected " + str(x.size(1)) + ", got " + str(int(lengths.max())))
        mask = (torch.arange(x.size(1))[None] < lengths[:, None]).float()
        return (x * mask[:, :, None]).sum(1) / lengths[:, None].float()

torch.jit.script(Net()).save("net.pt")
"""


def declared(path: Path, **shapes: list[int | str]) -> None:
    """Has the model declare other shapes of its outputs and inner values."""
    model = onnx.load(path)
    outputs = {value.name: value for value in model.graph.output}
    for name, shape in shapes.items():
        info = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        (outputs[name].CopyFrom if name in outputs else model.graph.value_info.append)(info)
    onnx.save(model, path)


def convert(folder: Path, *args: str | Path, code: int = 0) -> Said:
    line = ("convert", *args, "--no-bench", "--out", "out", "--json")
    return command(*line, cwd=folder, code=code)


def alerts(said: Said) -> dict[str, bool]:
    """What the report says at its top, and whether loudly."""
    return {alert["text"]: alert["loud"] for alert in said.json["report"]["alerts"]}


def shape_of(folder: Path) -> tuple[int | str, ...] | None:
    return OrtSession(folder / "out/onnx/fp32/model.onnx").inputs[0].shape


# -- declared shapes that are wrong ------------------------------------------------------


@pytest.mark.parametrize("wrong", ["middle", "y"])
def test_a_declared_rank_that_only_a_later_opset_s_rules_contradict(
    tmp_path: Path, wrong: str
) -> None:
    graph = """g (float[n, 12] x) => (float y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[2] rest = {3, 4}> {
        s = Shape(x) size = Slice(s, zero, one) shape = Concat<axis = 0>(size, rest)
        middle = Reshape(x, shape) y = Relu(middle) }"""
    declared(written(tmp_path / "net.onnx", graph, 12), **{"y": ["n", 3, 4], wrong: ["n", 12]})
    alerts(convert(tmp_path, "net.onnx"))
    made = OrtSession(tmp_path / "out/onnx/fp32/model.onnx")
    assert made.outputs[0].shape == ("batch", 3, 4)


# -- numbers of axes that hang on sizes --------------------------------------------------

SQUEEZED = """g (float[1, steps, 4] x) => (float[steps, 5] y) {
    t = Transpose<perm = [1, 0, 2]>(x) a, last = GRU<hidden_size = 5>(t, w, r)
    [drop] b = Squeeze(a) y = MatMul(b, m) }"""
BRANCHED = """g (float[1, steps, 4] x) => (float y) <int64 one = {1}> {
    s = Shape(x) steps = Gather(s, one) [is_one] c = Equal(steps, one)
    [choice] b = If(c) <
        then_branch = t () => (float[1, 4] d) { ax = Constant<value = int64[1] {1}>() d = Squeeze(x, ax) },
        else_branch = e () => (float[1, steps, 4] f) { f = Identity(x) }>
    y = MatMul(b, m) }"""  # noqa: E501


def test_a_squeeze_without_axes_is_settled_by_a_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {"w": (1, 15, 4), "r": (1, 15, 5), "m": (5, 5)}
    weights = {
        name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }
    written(tmp_path / "net.onnx", SQUEEZED, 20, **weights)
    to = ("net.onnx", "--to", "coreml,tflite", "--dim")
    said = convert(tmp_path, *to, "steps=6")
    loud = [text for text, is_loud in alerts(said).items() if is_loud and "drop drops" in text]
    assert [text.split(":")[0] for text in loud] == ["coreml fp32", "tflite fp32"]
    assert "at steps=6 (--dim)" in loud[0]
    package = said.json["report"]["artifacts"][0]
    assert any("steps 2 to" in line for line in package["decisions"])
    refused = convert(tmp_path, *to, "steps=1", "--overwrite", code=3)
    assert "--dim NAME=SIZE" in refused.err
    none = convert(tmp_path, *to, "steps=0", "--overwrite", code=2)
    assert "--dim steps=0: a size is at least 1" in none.err


def test_an_if_over_a_size_is_settled_by_it(tmp_path: Path) -> None:
    m = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    written(tmp_path / "net.onnx", BRANCHED, 20, m=m)
    said = convert(tmp_path, "net.onnx", "--to", "tflite,coreml", "--dim", "steps=6")
    assert sum("choice only has its else_branch" in text for text in alerts(said)) == 2
    less = BRANCHED.replace("one = {1}", "one = {1}, int64 ten = {10}")
    less = less.replace("Equal(steps, one)", "Less(steps, ten)")
    above = written(tmp_path / "above.onnx", less, 20, m=m)
    convert(tmp_path, above, "--to", "coreml", "--dim", "steps=6", "--overwrite", code=3)


# -- what the user wrote -----------------------------------------------------------------


def test_a_number_for_a_file_s_free_batch(tmp_path: Path) -> None:
    written(tmp_path / "net.onnx", "g (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }")
    said = command(
        "convert", "net.onnx", "--input", "x:1x3", "--no-bench", "--out", "out", cwd=tmp_path
    )
    assert shape_of(tmp_path) == (1, 3)
    assert said.out.count("the batch is 1, as written; --input x:batchx3 leaves it free") == 1


@pytest.mark.slow
def test_tracing_takes_the_first_sample(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(COUNTED)
    subprocess.run([sys.executable, "counted.py"], cwd=tmp_path, check=True)
    x = np.random.default_rng(0).standard_normal((4, 50, 4)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x, lengths=np.full(4, 50))
    inputs = ("--input", "x:Nxtx4", "--input", "lengths:int64:N")
    alerts(convert(tmp_path, "net.pt", "--trust-source", *inputs, "--samples", "samples.npz"))
    (tmp_path / "net.py").write_text(
        COUNTED.replace("!= x.size(1)", "!= 7").partition("\ntorch.jit")[0]
    )
    for samples, told in ((), "lengths all 0"), (("--samples", "samples.npz"), "first sample"):
        said = convert(tmp_path, "net.py:Net", *inputs, *samples, "--overwrite", code=3)
        assert told in said.err, said.err


def test_a_resize_that_keeps_what_it_is_asked_to_keep(tmp_path: Path) -> None:
    """The batch of its sizes is that of its input, whatever the output's is called."""
    text = """g (float[batch, high, wide, 3] x) => (float[rows, 9, 7, 3] y)
        <int64[1] zero = {0}, int64[1] two = {2}, int64[2] wanted = {9, 7}> {
        one = Relu (x) t = Transpose <perm = [0, 3, 1, 2]> (one) s = Shape (t)
        kept = Slice (s, zero, two) sizes = Concat <axis = 0> (kept, wanted)
        r = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (t, , , sizes)
        y = Transpose <perm = [0, 2, 3, 1]> (r) }"""
    written(tmp_path / "m.onnx", text, 18)
    options = "--dim high=5 --dim wide=6 --samples random:2 --to tflite --no-bench --out out"
    typed(f"convert m.onnx {options}", tmp_path)
