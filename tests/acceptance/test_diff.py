"""``modelyard diff`` as a user types it."""

import json
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from tests.acceptance.cli import images, modelyard, names, typed, written


def spoiled(path: Path, weight: str, name: str = "spoiled.onnx") -> Path:
    """The model with one value of a weight changed."""
    proto = onnx.load(path)
    (tensor,) = [item for item in proto.graph.initializer if item.name == weight]
    array = numpy_helper.to_array(tensor).copy()
    array.flat[0] += 1
    tensor.CopyFrom(numpy_helper.from_array(array, weight))
    onnx.save(proto, path.with_name(name))
    return path.with_name(name)


def test_the_first_different_tensor_is_named(model: Path) -> None:
    other = spoiled(model, "w1")
    said = typed(f"diff model.onnx {other.name} --samples random:3", model.parent)
    lines = said.out.splitlines()
    assert lines[0].startswith("Compared on RANDOM inputs only")
    assert lines[1].startswith("They part at c: off by ")
    assert "in A it is computed by Conv conv1" in said.out
    assert "before it, b is off by 0 of its largest value" in said.out


def test_json_page_and_gate(model: Path) -> None:
    other = spoiled(model, "w2")
    images(model.parent / "s.npz")
    line = f"diff model.onnx {other.name} --samples s.npz --json --gate --out diff.html"
    said = typed(line, model.parent, 4)
    assert "They part at scores" in said.err
    result, _ = json.JSONDecoder().raw_decode(said.out)
    assert result["first"]["tensor"]["name"] == "scores"
    assert result["first"]["nodes_b"] == [{"name": "fc", "op": "Gemm", "outputs": ["scores"]}]
    assert result["samples"] == 8
    assert result["based_on"] == "Compared on the first 8 of 12 samples (s.npz)."
    assert len(result["along"]) == 8
    page = (model.parent / "diff.html").read_text()
    assert "They part at scores" in page and page.count("<circle") == 8


def test_equal_models_pass_the_gate(model: Path) -> None:
    said = typed("diff model.onnx model.onnx --gate", model.parent)
    assert "No difference: every output agrees within 0.0001." in said.out


@pytest.mark.slow
def test_a_pytorch_source_and_its_artifact(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        torch.manual_seed(0)\n"
        "        self.one, self.two = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)\n"
        "    def forward(self, x):\n"
        "        return self.two(torch.tanh(self.one(x)))\n"
    )
    source = "net.py:Net --input x:batchx8"
    typed(f"convert {source} --no-bench --out out", tmp_path)
    artifact = tmp_path / "out/onnx/fp32/model.onnx"
    proto = onnx.load(artifact)
    weights = [t.name for t in proto.graph.initializer if list(t.dims) == [4, 8]]
    other = spoiled(artifact, weights[0])
    said = typed(f"diff {source.replace(' ', f' {other} ', 1)} --samples random:2 --json", tmp_path)
    first = said.json["first"]
    assert first["nodes_b"][-1]["op"] == "Gemm"
    assert all(error["error"] < 1e-6 for error in first["before"])
    assert "two" in " ".join(weights)


@pytest.mark.parametrize(("line", "code", "words"), [
    ("missing.onnx", 2, "there is no missing.onnx"),
    ("cut.onnx", 3, "cut.onnx"),
    ("narrow.onnx", 2, "image is float32[batch, 3, 16, 16] in A"),
    ("model.onnx --tolerance -1", 2, "--tolerance"),
    ("model.onnx --out no/such/folder.html", 2, "folder.html"),
])  # fmt: skip
def test_what_is_wrong_is_said(model: Path, line: str, code: int, words: str) -> None:
    model.with_name("cut.onnx").write_bytes(model.read_bytes()[:-2000])
    narrow = "g (float[batch, 1, 16, 16] image) => (float[batch, 1, 1, 1] scores)"
    written(model.with_name("narrow.onnx"), f"{narrow} {{ scores = GlobalAveragePool(image) }}")
    assert words in typed(f"diff model.onnx {line}", model.parent, code).err


@pytest.mark.slow
def test_a_missed_gate_leaves_the_steps_that_were_asked_for(model: Path) -> None:
    asked = "--precision int8-dynamic --no-bench --keep-steps --max-abs-error 1e-9 --out out"
    typed(f"convert model.onnx {asked}", model.parent, 4)
    failed = model.parent / "out.failed"
    assert names(failed) == ["manifest.json", "report.html", "report.json", "steps"]
    assert (failed / "steps/int8-dynamic.onnx").is_file()
    listed = json.loads((failed / "manifest.json").read_text())["files"]
    assert {item["path"].split("/")[0] for item in listed} == {"steps"}
    report = json.loads((failed / "report.json").read_text())
    (read, lowered) = report["along"]
    assert (read["before"], read["after"]) == ("read", "simplified")
    assert lowered["after"] == "int8-dynamic"
    assert lowered["points"][-1]["name"] == "scores" and lowered["points"][-1]["error"] > 1e-9
    assert all(point["error"] == 0 for point in lowered["points"][:-1])


def test_debug_says_what_passes_made(tmp_path: Path) -> None:
    written(tmp_path / "m.onnx", "g (float[batch, 4] x) => (float[batch, 4] y) { y = Tanh(x) }")
    line = ("convert", "m.onnx", "--no-bench", "--no-check", "--overwrite")
    made = "cleanup: unchanged, 1 nodes became 1"
    assert made in modelyard(*line, "--debug", cwd=tmp_path, code=0).err.splitlines()
    assert made not in modelyard(*line, cwd=tmp_path, code=0).err


@pytest.mark.slow
def test_debug_says_why_passes_left_something_alone(tmp_path: Path) -> None:
    text = """g (float[batch, 4] x) => (float[batch, 4] y) <float three = {3}> {
        [scaled] d = Mul(x, three) [larger] y = Max(d, x) }"""
    written(tmp_path / "near.onnx", text)
    line = "convert near.onnx --no-bench --out out"
    said = typed(f"{line} --debug", tmp_path)
    lines = said.err.splitlines()
    start = lines.index("left alone:")
    assert lines[start + 1] == "  fuse-activation, leaky-relu"
    assert "slope is 3" in lines[start + 2] and lines[start + 2].endswith(": larger")
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert [miss["node"] for miss in report["near_misses"]] == ["larger"]
    again = typed(f"{line} --overwrite", tmp_path)
    assert "left alone" not in again.err
    cached = json.loads((tmp_path / "out/report.json").read_text())
    assert [item["cached"] for item in cached["timings"] if item["step"] == "simplify"] == [True]
    assert cached["near_misses"] == report["near_misses"]
