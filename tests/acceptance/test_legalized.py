"""What a target hasn't, as what it has: in the report, between the steps, refused by its name."""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx_ir
import pytest

from converter import api
from converter.ir.model import Model
from converter.passes.legalize import REWRITES
from converter.passes.legalize.builder import Builder, Rewrite
from converter.runtime.ort import OrtSession
from tests.acceptance.cli import command, written
from tests.passes.models import noise

NET = """g (float[batch, 4, 4] x) => (float[batch, 4, 4] y) {
    mixed = Einsum <equation = "bij,jk->bki"> (x, w)
    turned = Einsum <equation = "bij,kj->bik"> (mixed, w)
    y = MatMul(turned, w)
}"""

IMAGES = """g (float[batch, 3, 8, 8] x) => (float[batch, 4, 4, 4] y) {
    c = Conv <pads = [1, 1, 1, 1]> (x, w) r = Relu (c)
    p = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (r) s = Sigmoid (p) y = Mul (p, s)
}"""

FLOW = """g (float[batch, 3, 24, 24] x) => (float[batch, 2, 24, 24] y) {
    LAYERS y = Conv (r4, w5)
}""".replace(
    "LAYERS",
    " ".join(
        f"c{i} = Conv <pads = [1, 1, 1, 1]> ({f'r{i - 1}' if i else 'x'}, w{i}, b{i}) "
        f"n{i} = InstanceNormalization (c{i}, one, none) r{i} = Relu (n{i})"
        for i in range(5)
    ),
)

ASK = ("--no-bench", "--samples", "random:8", "--few-samples", "--out", "out")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    weight = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    return written(tmp_path / "net.onnx", NET, w=weight)


def recorded(folder: Path) -> dict[str, dict[str, Any]]:
    """What the report's passes say of targets."""
    passes = json.loads((folder / "report.json").read_text())["passes"]
    return {item["name"]: item for item in passes if item["name"].startswith("legalize:")}


@pytest.mark.slow
def test_a_transform_is_not_held_to_the_runtimes_rounding(tmp_path: Path) -> None:
    """ONNX Runtime's own, of a length that is no power of two, is off by 2e-4."""
    graph = "g (float[1, 9600, 1] x) => (float[1, 13, 1201, 2] y) { y = STFT(x, step, window) }"
    window = np.hanning(2400).astype(np.float32)
    written(tmp_path / "net.onnx", graph, step=np.int64(600), window=window)
    command("convert", "net.onnx", "--to", "tflite", *ASK, cwd=tmp_path, code=0)
    (found,) = recorded(tmp_path / "out").values()
    assert found["status"] == "changed" and found["cosine"] > 0.99999


@pytest.mark.slow
def test_it_is_in_the_report_and_between_the_steps(net: Path) -> None:
    asked = ("--to", "tflite,coreml", "--precision", "fp32,int8", "--keep-steps", *ASK)
    command("convert", net.name, *asked, cwd=net.parent, code=0)
    out = net.parent / "out"
    found = recorded(out)
    assert found.keys() == {
        f"legalize:{target}:{precision}"
        for target in ("tflite", "coreml")
        for precision in ("fp32", "int8")
    }
    for name, item in found.items():
        assert item["status"] == "changed" and "2 Einsum" in item["detail"]
        assert ("compared without rounding; integers of " in item["detail"]) == ("int8" in name)
        assert item["cosine"] > 0.99999 and item["max_abs"] < 1e-4
    assert "legalize:coreml:int8" in (out / "report.html").read_text()
    feeds = {"x": np.random.default_rng(1).standard_normal((3, 4, 4)).astype(np.float32)}
    steps = out / "steps"
    expected = OrtSession(steps / "read.onnx").run(feeds)["y"]
    for target in ("tflite", "coreml"):
        kept = steps / f"{target}-fp32-legalized.onnx"
        np.testing.assert_allclose(OrtSession(kept).run(feeds)["y"], expected, atol=1e-5)
        difference = api.diff(str(steps / "simplified.onnx"), str(kept)).difference
        assert difference.first is None and difference.along


@pytest.mark.slow
def test_a_wrong_rewrite_is_refused_by_its_node(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = REWRITES["Einsum"]

    def wrong(builder: Builder, node: onnx_ir.Node) -> Any:
        made = right(builder, node)
        assert isinstance(made, onnx_ir.Value)
        return builder.op("Neg", made) if node.outputs[0].name == "mixed" else made

    monkeypatch.setitem(cast(dict[str, Rewrite], REWRITES), "Einsum", wrong)
    for target in ("tflite", "coreml"):
        said = command("convert", net.name, "--to", target, *ASK, cwd=net.parent, code=3)
        (line,) = [line for line in said.err.splitlines() if "computes something else" in line]
        assert "Einsum_0" in line and "(Einsum) computes" in line and ": on sample" in line
        assert not (net.parent / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [False, True])
def test_silence_in_channels_of_one_number_is_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    """Five normalizations, of nothing but rounding in the middle of the image."""
    numbers = np.random.default_rng(0).standard_normal
    weights = {f"w{i}": numbers((12, 12 if i else 3, 3, 3)) / 6 for i in range(5)}
    weights |= {f"b{i}": numbers(12) / 3 for i in range(5)} | {"w5": numbers((2, 12, 1, 1))}
    weights |= {"one": np.ones(12), "none": np.zeros(12)}
    written(tmp_path / "flow.onnx", FLOW, **{k: v.astype(np.float32) for k, v in weights.items()})
    right = REWRITES["InstanceNormalization"]

    def rewrite(builder: Builder, node: onnx_ir.Node) -> Any:
        made = right(builder, node)
        assert isinstance(made, onnx_ir.Value)
        return builder.op("Mul", made, np.float32(1.001)) if wrong else made

    monkeypatch.setitem(cast(dict[str, Rewrite], REWRITES), "InstanceNormalization", rewrite)
    said = command("convert", "flow.onnx", "--to", "tflite", *ASK, cwd=tmp_path, code=3 * wrong)
    if wrong:
        assert "computes something else: on sample" in said.err
    else:
        told = recorded(tmp_path / "out")["legalize:tflite:fp32"]["detail"]
        assert "on zeros" in told and "rounding of the weights moves the original as much" in told


@pytest.mark.slow
def test_its_layout_is_between_the_steps(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    images = written(tmp_path / "images.onnx", IMAGES, w=weight)
    asked = ("--to", "tflite", "--precision", "fp32,fp16,int8", "--keep-steps", *ASK)
    command("convert", images.name, *asked, cwd=tmp_path, code=0)
    steps, feeds = tmp_path / "out" / "steps", noise(Model.load(images), 1, batch=3)
    expected = OrtSession(images).run(feeds)["y"]
    for precision, far in (("fp32", 1e-5), ("fp16", 1e-2), ("int8", 0.1)):
        item = recorded(tmp_path / "out")[f"legalize:tflite:{precision}"]
        assert "with channels last: 1 AveragePool, 1 Conv" in item["detail"]
        assert item["status"] == "changed"
        rounded = "compared without rounding; integers of " in item["detail"]
        assert rounded == (precision == "int8") and item["cosine"] > 0.9999
        kept = steps / f"tflite-{precision}-legalized.onnx"
        assert Model.load(kept).graph.functions
        np.testing.assert_allclose(OrtSession(kept).run(feeds)["y"], expected, atol=far)
    kept = steps / "tflite-fp32-legalized.onnx"
    difference = api.diff(str(steps / "simplified.onnx"), str(kept)).difference
    assert difference.first is None and difference.along
    command("convert", str(kept), "--to", "tflite", *ASK[:-1], "again", cwd=tmp_path, code=0)
