"""``--layout``: what is changed, how that is found out, and that the reference goes along."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from converter import api
from converter.errors import UsageError
from converter.ir.model import LAYOUT_CHANGES, Model
from converter.pipeline.layout import LaidOutSession, change_layout
from converter.runtime.ort import OrtSession
from tests.passes.models import noise, run, text_model

TO_LAST = "Transpose<perm: ints = [0,2,3,1]>"
TO_FIRST = "Transpose<perm: ints = [0,3,1,2]>"
WEIGHTS = "float[2,3,1,1] w = {1,2,3,4,5,6}"

SEGMENTER = f"""
    m (float[batch,8,6,3] image, float[batch,2] extra)
    => (float[batch,8,6,2] mask, float[batch,2] y)
    <{WEIGHTS}, float scale = {{0.5}}, float[3] mean = {{0.1,0.2,0.3}}, int64[2] n = {{1,2}}> {{
        s = Mul(image, scale) d = Sub(s, mean) a = {TO_FIRST}(d) c = Conv(a, w) b = {TO_LAST}(c)
        mask = Sigmoid(b) r = ReduceMean<keepdims: int = 0>(b, n) y = Add(r, extra)
    }}"""


def segmenter() -> Model:
    return text_model(SEGMENTER)


def test_channels_come_first() -> None:
    model = segmenter()
    feeds = noise(model)
    before = run(model, feeds)
    changes = change_layout(model, "nchw")
    assert changes == {"image": [0, 3, 1, 2], "mask": [0, 3, 1, 2]} == model.source[LAYOUT_CHANGES]
    shapes = [("batch", 3, 8, 6), ("batch", 2), ("batch", 2, 8, 6), ("batch", 2)]
    assert [spec.shape for spec in (*model.inputs, *model.outputs)] == shapes
    assert [spec.layout for spec in model.inputs] == ["NCHW", None]
    after = run(model, {**feeds, "image": feeds["image"].transpose(0, 3, 1, 2)})
    np.testing.assert_array_equal(after["mask"], before["mask"].transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(after["y"], before["y"])
    assert change_layout(model, "nhwc") == {"image": [0, 2, 3, 1], "mask": [0, 2, 3, 1]}
    after = run(model, feeds)
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_what_has_it_already_stays() -> None:
    model = segmenter()
    count = model.node_count()
    assert change_layout(model, "nhwc") == {}
    assert model.node_count() == count
    assert model.inputs[0].layout == "NHWC"


def test_pools_norms_and_parsers_tell_what_images_are() -> None:
    for op in ("LpPool<kernel_shape = [1,1]>", "LRN<size = 3>", "GlobalLpPool"):
        size = "1,1" if op == "GlobalLpPool" else "4,6"
        model = text_model(f"m (float[1,3,4,6] x) => (float[1,3,{size}] y) {{ y = {op}(x) }}")
        assert change_layout(model, "nhwc")["x"] == [0, 2, 3, 1]
    model = text_model("""
        m (float[1,4,4,4,2] x) => (float[1,3,4,4,4] y) <float[3,2,1,1,1] w = {1,2,3,4,5,6}> {
            a = Transpose<perm: ints = [0,4,1,2,3]>(x) y = Conv(a, w)
        }""")
    assert change_layout(model, "nchw") == {"x": [0, 4, 1, 2, 3]}
    assert model.inputs[0].layout == model.outputs[0].layout == "NCDHW"
    model = text_model("m (float[1,4,6,3] x) => (float[1,4,6,3] y) { y = Relu(x) }")
    with pytest.raises(UsageError, match=r"x float32\[1, 4, 6, 3\]"):
        change_layout(model, "nchw")
    model.describe("x", layout="NHWC")
    assert change_layout(model, "nchw") == {"x": [0, 3, 1, 2]}
    assert [spec.shape for spec in model.outputs] == [(1, 4, 6, 3)]


@pytest.mark.parametrize("text", [
    "m (float[2,3,4,5] x) => (float[2,3,4,4] y) "  # a product of batches
    "{ t = Transpose<perm: ints = [0,1,3,2]>(x) y = MatMul(x, t) }",
    f"m (float[1,3,3,3] x) => (float[1,2,3,3] y) <{WEIGHTS}> "  # both at once
    f"{{ a = {TO_FIRST}(x) b = Conv(a, w) c = Conv(x, w) y = Add(b, c) }}",
    "m (float[1,36] x) => (float[1,2,2,6] y) "
    f"<{WEIGHTS}, int64[4] s = {{1,3,2,6}}> {{ a = Reshape(x, s) y = Conv(a, w) }}",
])  # fmt: skip
def test_unclear_inputs_are_named(text: str) -> None:
    model = text_model(text)
    with pytest.raises(UsageError, match=r"none of the inputs is known to be an image: x float32"):
        change_layout(model, "nhwc")


def test_a_session_goes_along() -> None:
    model = segmenter()
    feeds = noise(model)
    session = OrtSession(model.graph, plain=True)
    before = session.run(feeds)
    wrapped = LaidOutSession(session, {"image": [0, 3, 1, 2], "mask": [0, 3, 1, 2]})
    assert [spec.shape for spec in wrapped.inputs] == [("batch", 3, 8, 6), ("batch", 2)]
    assert wrapped.outputs[0].shape == ("batch", 2, 8, 6)
    first = {**feeds, "image": feeds["image"].transpose(0, 3, 1, 2)}
    np.testing.assert_array_equal(wrapped.run(first)["mask"], before["mask"].transpose(0, 3, 1, 2))
    assert len(wrapped.time(first, 3).ns) == 3
    wrapped.close()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A segmenter of one input, as a file."""
    text = SEGMENTER.replace(", float[batch,2] extra", "").replace("Add(r, extra)", "Neg(r)")
    text_model(text).save(tmp_path / "segmenter.onnx")
    return tmp_path / "segmenter.onnx"


def options(tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {"bench": False, "cache": False, "out": str(tmp_path / "out"), **more}


@pytest.mark.slow  # loads the simplifiers
def test_a_conversion_with_images_and_its_check(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 6, 3), np.uint8)
    for index, image in enumerate(pixels):
        Image.fromarray(image).save(folder / f"{index}.png")
    asked = options(tmp_path, samples=str(folder))
    kept = api.convert(str(source), **asked).report
    assert kept is not None
    assert [(a.transposes_before, a.transposes_after) for a in kept.artifacts] == [(2, 2)]
    assert kept.source.inputs[0].type == "float32[batch, 8, 6, 3]"
    report = api.convert(str(source), **asked, layout="nchw", overwrite=True).report
    assert report is not None and report.verdict == "passed"
    assert [(a.transposes_before, a.transposes_after) for a in report.artifacts] == [(4, 0)]
    assert report.source.inputs[0].type == "float32[batch, 3, 8, 6]"
    assert report.source.inputs[0].layout == "NCHW"
    assert report.source.outputs[0].type == "float32[batch, 2, 8, 6]"
    made = tmp_path / "out" / report.artifacts[0].path
    more = {"cache": False, "samples": str(folder), "layout": "nchw"}
    checked = api.check(str(made), str(source), **more)
    assert checked.accuracy.comparison.cosine == pytest.approx(1)
    measured = api.bench(str(made), str(source), **more, bench_seconds=0.1, bench_batches=[1])
    assert {point.role for point in measured.latency.points} == {"artifact", "source"}
    assert api.inspect(str(source), layout="nchw").inputs[0]["layout"] == "NCHW"


NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
    def forward(self, image):
        return {"mask": torch.relu(self.conv(image))}
"""


@pytest.mark.slow  # starts PyTorch
def test_the_cache_keeps_the_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text(NET)
    asked = {"inputs": ["image:batch,3,8,6"], "layout": "nhwc", "cache": True}
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path / "cache"))
    for seed in (0, 1):  # other samples: the model is kept, the reference's outputs aren't
        more = options(tmp_path, **asked, seed=seed, overwrite=True, reuse_source=bool(seed))
        report = api.convert(f"{tmp_path / 'net.py'}:Net", **more).report
        assert report is not None and report.verdict == "passed"
        assert report.source.inputs[0].type == "float32[batch, 8, 6, 3]"
        assert report.source.outputs[0].type == "float32[batch, 8, 6, 4]"
        cached = {timing.step: timing.cached for timing in report.timings}
        assert (cached["parse"], cached["reference"]) == (bool(seed), False)
