"""``--prepare graph``: a model that takes pictures as pixels, and gives answers."""

from __future__ import annotations

import json
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from PIL import Image
from sklearn.datasets import load_sample_image

import modelyard
from converter.preparation.inputs import Picture
from converter.preparation.staged.base import Item
from converter.preparation.stages import Stages
from tests.acceptance.cli import small_cnn, typed, written

RECIPE = """
source: cnn.onnx
bench: false
samples: photos
prepare:
- graph
- {kind: picture, color: bgr, resize: 20, mean: [0.5, 0.4, 0.3], std: [0.2, 0.25, 0.3]}
answer: {kind: classes, activation: softmax, top: 3, labels: [a, b, c, d, e, f, g, h, i, j]}
"""


def photos(folder: Path) -> Path:
    """Two photos of scikit-learn, lying and standing, and small pieces of them."""
    folder.mkdir()
    china, flower = (load_sample_image(f"{name}.jpg") for name in ("china", "flower"))
    Image.fromarray(china).save(folder / "china.png")
    Image.fromarray(np.rot90(flower).copy()).save(folder / "flower.png")
    for number in range(6):
        at = 40 * number
        piece = china[at : at + 60 + 7 * number, at : at + 120 - 9 * number]
        Image.fromarray(piece).save(folder / f"piece{number}.png")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with its preparation in its graph: for ONNX alone, and for three targets."""
    folder = tmp_path_factory.mktemp("graph")
    small_cnn(folder / "cnn.onnx")
    photos(folder / "photos")
    (folder / "any.yaml").write_text(f"{RECIPE}\nprecision: [fp32, fp16, int8]\nout: any\n")
    targets = "to: [onnx, tflite, coreml]\nprecision: [fp32, int8]\nout: one\n"
    (folder / "one.yaml").write_text(f"{RECIPE}\n{targets}")
    (folder / "engine.yaml").write_text(f"{RECIPE}\nto: tensorrt-rtx\nout: engine\n")
    typed("run any.yaml", folder)
    typed("run one.yaml", folder)
    return folder


def expected(folder: Path, file: Path) -> np.ndarray[Any, Any]:
    """Probabilities by Pillow, numpy and ONNX Runtime on the source."""
    image = Image.open(file)
    size = [20 * side // min(image.size) for side in image.size]
    image = image.resize((size[0], size[1]), Image.Resampling.BILINEAR)
    left, top = (round((side - 16) / 2) for side in image.size)
    values = np.asarray(image.crop((left, top, left + 16, top + 16)))[..., ::-1] / 255
    x = ((values - [0.5, 0.4, 0.3]) / [0.2, 0.25, 0.3]).transpose(2, 0, 1)
    session = onnxruntime.InferenceSession(folder / "cnn.onnx")
    [[logits]] = session.run(None, {"image": x[np.newaxis].astype(np.float32)})
    return np.asarray(np.exp(logits) / np.exp(logits).sum())


ARTIFACTS = [
    ("any", "onnx:fp32", 1e-4), ("any", "onnx:fp16", 1e-3), ("any", "onnx:int8", 0.01),
    ("one", "onnx:fp32", 1e-5), ("one", "onnx:int8", 0.01),
    ("one", "tflite:fp32", 1e-5), ("one", "tflite:int8", 0.01),
]  # fmt: skip


@pytest.mark.parametrize(("out", "artifact", "near"), ARTIFACTS)
def test_a_file_becomes_labels(made: Path, out: str, artifact: str, near: float) -> None:
    files = sorted((made / "photos").iterdir())
    with modelyard.load(made / out, artifact) as net:
        assert net.inputs[0].dtype == "uint8" and net.inputs[0].shape[-1] == 3  # type: ignore[index]
        for file, answer in zip(files, net(files), strict=True):
            right = expected(made, file)
            np.testing.assert_allclose(answer["scores"][0], right, atol=near)
            best = [item.index for item in answer.classes]
            assert answer.label == "abcdefghij"[right.argmax()] and len(best) == 3
            np.testing.assert_array_equal(answer["scores_top"][0], answer["scores"][0][best])
            assert answer["scores_top_index"][0].tolist() == best


def test_an_artifact_is_checked_again_from_pictures(made: Path) -> None:
    for file in ("any/onnx/fp32/model.onnx", "one/tflite/int8/model.tflite"):
        said = typed(f"check {file} --against cnn.onnx --samples photos --no-probes", made)
        assert "8 images of photos" in said.out
    small_cnn(made / "other.onnx", channels=4)
    said = typed(f"check {file} --against other.onnx --samples photos --no-probes", made, 4)
    assert "cosine" in said.err


@pytest.mark.parametrize("file", ["any/onnx/int8", "one/tflite/fp32"])
def test_an_artifact_is_measured_by_itself(made: Path, file: str) -> None:
    said = typed(f"bench {file} --bench-seconds 0.05", made)
    assert "p50 ms" in said.out


def test_what_is_where_is_told(made: Path) -> None:
    for out, size, resize in (("any", (None, None), None), ("one", (16, 16), 20)):
        manifest = json.loads((made / out / "manifest.json").read_text())
        (picture,) = manifest["declared"]["prepare"]
        assert (picture["height"], picture["width"], picture["resize"]) == (*size, resize)
        assert picture["mean"] == [0.0] * 3 and picture["color"] == "rgb"
        assert ("resize" in picture["fused"]) is (resize is None)
        (classes,) = manifest["declared"]["answer"]
        assert classes["fused"] == ["softmax", "top"] and classes["activation"] == ""
        report = json.loads((made / out / "report.json").read_text())
        assert report["verdict"] == "passed"
        told = (made / out / "report.html").read_text()
        assert "outside of it: decoding pictures" in told
        assert ("resizing and cutting them" in told) is (resize is not None)
    gates = json.loads((made / "one/report.json").read_text())["artifacts"]
    assert {(item["target"], item["precision"]) for item in gates} >= {("coreml", "int8")}


def test_the_graph_is_official_and_a_scale_goes_into_the_convolution(made: Path) -> None:
    """Its mean doesn't: the convolution pads with zeros."""
    model = onnx.load(made / "any/onnx/fp32/model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} <= {"", "ai.onnx"}
    operators = [node.op_type for node in model.graph.node]
    before = operators[: operators.index("Conv")]
    assert "Resize" in before and before[-1] == "Sub"
    assert [i.type.tensor_type.elem_type for i in model.graph.input] == [onnx.TensorProto.UINT8]


def test_a_device_s_package_tests_itself(made: Path) -> None:
    import subprocess
    import sys

    folder = made / "one/tflite/int8"
    said = subprocess.run([sys.executable, "selftest.py"], cwd=folder, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert said.returncode == 0, said.stdout + said.stderr


def test_sides_are_multiples_within_the_longest(tmp_path: Path) -> None:
    text = "g (float[1, 3, h, w] x) => (float[1, 3, h, w] y) { y = Identity(x) }"
    written(tmp_path / "m.onnx", text)
    how = "longest: 50, multiple: 32, mean: 0, std: 1"
    recipe = f"source: m.onnx\nbench: false\nprepare: [graph, {{kind: picture, {how}}}]\nout: out\n"
    (tmp_path / "r.yaml").write_text(recipe)
    typed("run r.yaml", tmp_path)
    with modelyard.load(tmp_path / "out") as net:
        for size, right in (((640, 427), (32, 64)), ((20, 60), (64, 32)), ((10, 10), (32, 32))):
            Image.new("RGB", size, (255, 0, 0)).save(tmp_path / "a.png")
            found = net(tmp_path / "a.png")["y"]
            assert found.shape == (1, 3, *right) and found.max() == 1


WAYS = [
    ("resize: 256, interpolation: bilinear", 1),
    ("resize: [480, 640], interpolation: bicubic", 1),
    ("interpolation: bilinear", 1),
    ("interpolation: nearest", 0),
    ("fill: 114, interpolation: bilinear", 1),
]


@pytest.mark.parametrize(("way", "most"), WAYS)
def test_pixels_are_pillow_s(tmp_path: Path, way: str, most: int) -> None:
    """The model gives the pixels that it is given."""
    text = "g (float[batch, 3, 224, 224] x) => (float[batch, 3, 224, 224] y) { y = Identity(x) }"
    written(tmp_path / "m.onnx", text)
    known = f"kind: picture, scale: 1, mean: 0, std: 1, {way}"
    recipe = f"source: m.onnx\nbench: false\nprepare: [graph, {{{known}}}]\nout: out\n"
    (tmp_path / "r.yaml").write_text(recipe)
    typed("run r.yaml", tmp_path)
    said = {**yaml.safe_load(f"{{{known}}}"), "layout": "CHW", "color": "rgb", "input": "x"}
    declared = {**said, "height": 224, "width": 224}
    by_pillow = Stages({"prepare": [Picture(**declared).model_dump()], "answer": []})
    with modelyard.load(tmp_path / "out") as net:
        for file in sorted(photos(tmp_path / "photos").iterdir())[:4]:
            right, _ = by_pillow.prepare(Item("picture", file, file.name))
            apart = np.abs(right["x"] - net(file)["y"])
            assert apart.shape == (1, 3, 224, 224)
            assert np.quantile(apart, 0.999) <= most and apart.mean() <= 0.3


def test_an_engine_takes_pixels(made: Path) -> None:
    """TensorRT takes uint8 from outside alone, into a Cast."""
    typed("run engine.yaml", made)
    report = json.loads((made / "engine/report.json").read_text())
    (artifact,) = report["artifacts"]
    assert (made / "engine" / artifact["path"]).stat().st_size > 0
    assert {gate["name"]: gate["status"] for gate in artifact["gates"]}["cosine"] == "passed"
    assert artifact["inputs"][0]["type"].startswith("uint8")


DETECTOR = """
g (float[batch, 3, 64, 64] x) => (float[batch, 64, 4] boxes, float[batch, 64, 3] scores) {
    m = AveragePool<kernel_shape = [8, 8], strides = [8, 8]>(x)
    f = Reshape(m, shape) t = Transpose<perm = [0, 2, 1]>(f)
    c = Add(t, less) scores = Mul(c, times)
    s = Mul(t, small) w = MatMul(s, into) boxes = Add(w, places)
}"""
"""Finds what is bright, in a grid of 8 x 8 boxes that overlap."""


def detector(path: Path) -> Path:
    at = np.arange(8, dtype=np.float32) * 8 + 4
    y, x = np.meshgrid(at, at, indexing="ij")
    places = np.stack([x, y, np.full_like(x, 15), np.full_like(x, 15)], -1).reshape(1, 64, 4)
    return written(
        path, DETECTOR, shape=np.array([0, 3, 64]), less=np.float32(-0.3), times=np.float32(9),
        small=np.float32(3), into=np.eye(3, 4, dtype=np.float32), places=places,
    )  # fmt: skip


def test_a_detector_s_boxes_come_out_of_the_graph(tmp_path: Path) -> None:
    detector(tmp_path / "net.onnx")
    photos(tmp_path / "photos")
    recipe = """
source: net.onnx
bench: false
samples: photos
prepare: {kind: picture, fill: 20}
answer: {kind: boxes, output: boxes, scores: scores, format: cxcywh, activation: sigmoid,
         labels: [red, green, blue], threshold: 0.6, iou: 0.3, most: 20}
out: plain
"""
    graph = recipe.replace("fill: 20}", "fill: 20}]").replace("prepare: ", "prepare: [graph, ")
    (tmp_path / "plain.yaml").write_text(recipe)
    (tmp_path / "graph.yaml").write_text(graph.replace("out: plain", "out: graph"))
    typed("run plain.yaml", tmp_path)
    typed("run graph.yaml", tmp_path)
    model = onnx.load(tmp_path / "graph/onnx/fp32/model.onnx")
    assert "NonMaxSuppression" in {node.op_type for node in model.graph.node}
    Image.new("RGB", (50, 40)).save(tmp_path / "black.png")
    files = [*sorted((tmp_path / "photos").iterdir()), tmp_path / "black.png"]
    with modelyard.load(tmp_path / "plain") as one, modelyard.load(tmp_path / "graph") as other:
        counts = []
        for file in files:
            first, second = one(file).boxes, other(file).boxes
            counts.append(len(first))
            assert [item["label"] for item in second] == [item["label"] for item in first]
            for a, b in zip(first, second, strict=True):
                np.testing.assert_allclose(b["box"], a["box"], atol=0.5)
                assert abs(a["score"] - b["score"]) < 1e-3
        assert counts[-1] == 0 and max(counts) > 3
        raw = other(files[0])
        assert raw["boxes"].shape == (counts[0], 4) and raw["boxes_classes"].dtype == np.int64
    outside = graph.replace("most: 20", "most: 20, outside: true").replace("out: plain", "out: raw")
    (tmp_path / "raw.yaml").write_text(f"{outside}to: [onnx, tflite]\nprecision: int8\n")
    typed("run raw.yaml", tmp_path)
    for artifact in ("onnx", "tflite"):
        with modelyard.load(tmp_path / "raw", artifact) as net:
            assert net.inputs[0].dtype == "uint8" and net(files[0])["boxes"].shape == (1, 64, 4)
            found = net(files[0]).boxes
        assert abs(len(found) - counts[0]) < 3 and {item["label"] for item in found}


def test_vectors_are_pooled_and_of_length_1(tmp_path: Path) -> None:
    text = """g (int64[batch, tokens] ids, int64[batch, tokens] mask)
        => (float[batch, tokens, 5] states) { states = Gather(table, ids)
        m = Cast<to = 1>(mask) }"""
    table = np.random.default_rng(0).standard_normal((30, 5)).astype(np.float32)
    written(tmp_path / "m.onnx", text, table=table)
    (tmp_path / "r.yaml").write_text("""
source: m.onnx
bench: false
prepare: graph
dims: {tokens: 6}
answer: {kind: embedding, pool: mean, mask: mask, normalize: true}
out: out
""")
    typed("run r.yaml", tmp_path)
    ids, mask = np.array([[3, 4, 5], [6, 7, 0]]), np.array([[1, 1, 1], [1, 1, 0]])
    with modelyard.load(tmp_path / "out") as net:
        found = net(ids=ids, mask=mask)["states"]
    pooled = np.stack([table[[3, 4, 5]].mean(0), table[[6, 7]].mean(0)])
    right = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    np.testing.assert_allclose(found, right, atol=1e-6)


PLACES = """
g (float[batch, 3, 24, 32] x) => (float[batch, 3, 12, 16] parts, float[batch, 2, 3] points,
    float[batch, 12, 16] path) {
    halves = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(x) parts = Mul(halves, apart)
    m = ReduceMean<keepdims = 0, axes = [2, 3]>(parts) r = Unsqueeze(m, one)
    points = Add(r, place) c = ReduceMean<keepdims = 0, axes = [1]>(parts) path = Add(c, said) }"""
ANSWERS = """
answer:
- {kind: masks, output: parts, labels: [red, green, blue]}
- {kind: keypoints, output: points, relative: true, order: yx, names: [ear, eye], threshold: 0.1}
- {kind: text, output: path, letters: ["", a, b, c, d, e, f, g, h, i, j, k, l, m, n, o]}
"""


def test_masks_points_and_letters_come_out_of_the_graph(tmp_path: Path) -> None:
    """As stages make them: in the picture's own places where it is resized in the graph."""
    apart = np.array([1, 1.1, 0.8], np.float32)[:, None, None]  # greys are no matter of rounding
    said = 2 * np.eye(16, dtype=np.float32)[[3, 3, 0, 1, 1, 0, 0, 2, 5, 5, 0, 5]]
    place = np.array([[[0.1, 0.6, 0.3], [0.4, 0.2, 0.05]]], np.float32)
    written(tmp_path / "net.onnx", PLACES, one=np.array([1]), place=place, apart=apart, said=said)
    photos(tmp_path / "photos")
    outs = {"plain": ("picture, fill: 9", "onnx"), "whole": ("picture, fill: 9", "onnx"),
            "sized": ("picture", "[tflite, coreml]")}  # fmt: skip
    for out, (picture, to) in outs.items():
        graph = "" if out == "plain" else "graph, "
        (tmp_path / "r.yaml").write_text(
            f"source: net.onnx\nbench: false\nprobes: false\nsamples: photos\nto: {to}\n"
            "samples_limit: 2\n"
            f"out: {out}\n"
            f"prepare: [{graph}{{kind: {picture}, mean: 0, std: 1}}]{ANSWERS}"
        )
        typed("run r.yaml", tmp_path)
        said = (tmp_path / out / "report.html").read_text()
        assert ("masks: argmax, size" in said) is (out == "whole")
        assert ("making PNGs of masks, joining letters" in said) is (out != "plain")
    files, labels = sorted((tmp_path / "photos").iterdir()), set[str]()
    with modelyard.load(tmp_path / "plain") as one:
        for out, artifact in (("whole", "onnx"), ("sized", "tflite")):
            with modelyard.load(tmp_path / out, artifact) as other:
                for file in files[:4]:
                    right, found = one(file) if out == "whole" else None, other(file)
                    size = Image.open(file).size
                    told = found.told["masks"]
                    assert (told["width"], told["height"]) == size
                    assert found["parts"].shape == (1, *(size[::-1] if right else (12, 16)))
                    assert found["path"].dtype == np.int64 and found["path"].shape == (1, 12)
                    if right is not None:
                        assert_alike(found.told, right.told)
                        labels |= {item["label"] for item in told["classes"]}
    assert labels >= {"red", "green"}


def assert_alike(found: Any, right: Any) -> None:
    pngs = (b64decode(told["masks"]["png"]) for told in (found, right))
    first, second = (np.asarray(Image.open(BytesIO(png))) for png in pngs)
    assert (first == second).mean() > 0.99
    for a, b in zip(found["keypoints"], right["keypoints"], strict=True):
        assert a["name"] == b["name"]
        np.testing.assert_allclose([a["x"], a["y"]], [b["x"], b["y"]], atol=2)
    assert found["text"] == right["text"] == "cabee"
    assert found["score"] == pytest.approx(right["score"], abs=0.01)


@pytest.mark.parametrize(("said", "told"), [
    ("graph", "there is no description of how pictures become the model's inputs"),
    ("graph\nanswer: {kind: numbers}", "no description of how pictures"),
    ("[graph, {kind: picture, interpolation: lanczos}]", "no filter lanczos"),
    ("[graph, {kind: picture, resize: 20, crop: false}]", "isn't cropped"),
    ("[graph, {kind: picture, resize: [8, 8]}]", "smaller than the model's"),
    ("[graph, server, {kind: picture}]", "prepare"),
])  # fmt: skip
def test_what_operators_can_t_do_is_refused(tmp_path: Path, said: str, told: str) -> None:
    small_cnn(tmp_path / "m.onnx")
    recipe = f"source: m.onnx\nbench: false\nout: out\nprepare: {said}\n"
    (tmp_path / "r.yaml").write_text(recipe)
    assert told in typed("run r.yaml", tmp_path, code=2).err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_network_of_the_catalogue_s_labels_are_its_own_pipeline_s(tmp_path: Path) -> None:
    """From JPEG to ImageNet's labels."""
    recipe = """
source: zoo:efficientnet-lite0
bench: false
few_samples: true
prepare: graph
answer: {kind: classes, activation: softmax}
"""
    folder = photos(tmp_path / "photos")
    for index, file in enumerate(sorted(folder.glob("*.png"))):
        Image.open(file).save(tmp_path / f"{index}.jpg", quality=90)
    files = sorted(tmp_path.glob("*.jpg"))
    plain = recipe.replace("prepare: graph\n", "")
    (tmp_path / "plain.yaml").write_text(f"{plain}out: plain\n")
    (tmp_path / "any.yaml").write_text(f"{recipe}out: any\n")
    (tmp_path / "one.yaml").write_text(f"{recipe}to: [tflite, coreml]\nout: one\n")
    for name in ("plain", "any", "one"):
        typed(f"run {name}.yaml", tmp_path)
    with modelyard.load(tmp_path / "plain") as net:
        right = net(files)
    assert len({answer.label for answer in right}) > 3
    for out, artifact in (("any", "onnx"), ("one", "tflite")):
        with modelyard.load(tmp_path / out, artifact) as net:
            for answer, known in zip(net(files), right, strict=True):
                assert answer.label == known.label
                np.testing.assert_allclose(answer["scores"], _softmax(known["scores"]), atol=1e-3)


def _softmax(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    powers = np.exp(values - values.max())
    return np.asarray(powers / powers.sum())
