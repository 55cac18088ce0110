"""TorchServe's archives: made by its own archiver and by ours, converted, compared, refused."""

import json
import subprocess
import textwrap
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from PIL import Image

import modelyard
from converter.protocols.server import Environment
from converter.serving import environments
from tests.acceptance.cli import command, refused, small_cnn, typed

ARCHIVER = Environment("archiver", ("torch-model-archiver==0.12.0",), 1)

MODEL = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, stride=4)
        self.fc = torch.nn.Linear(8, 6)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).mean((2, 3)))
"""

MANIFEST = "MAR-INF/MANIFEST.json"
ANIMALS = ("owl", "fox", "elk", "ant", "bee", "cod")
NAMES = {str(n): [f"n{n:08}", name] for n, name in enumerate(ANIMALS)}


def net(folder: Path) -> torch.nn.Module:
    """The model of ``model.py``, seeded; its weights in ``net.pt``, and traced in ``script.pt``."""
    (folder / "model.py").write_text(MODEL)
    known: dict[str, Any] = {"__name__": "model"}
    exec(MODEL, known)
    torch.manual_seed(0)
    made: torch.nn.Module = known["Net"]().eval()
    torch.save(made.state_dict(), folder / "net.pt")
    torch.jit.trace(made, torch.zeros(2, 3, 224, 224)).save(str(folder / "script.pt"))
    (folder / "index_to_name.json").write_text(json.dumps(NAMES))
    return made


def photo(path: Path) -> Path:
    """A picture of 300 x 400."""
    values = np.random.default_rng(1).integers(0, 256, (30, 40, 3), np.uint8)
    Image.fromarray(values).resize((400, 300), Image.Resampling.BICUBIC).save(path)
    return path


def archived(folder: Path, *options: str) -> Path:
    """``net.mar`` by torch-model-archiver itself."""
    home = environments.set_up(ARCHIVER, lambda text: None)
    line = [home / "bin" / "torch-model-archiver", "--model-name", "net", "--version", "1.0"]
    subprocess.run([*line, *options], cwd=folder, check=True, capture_output=True)
    return folder / "net.mar"


def classified(model: torch.nn.Module, path: Path) -> dict[str, float]:
    """What TorchServe's image_classifier answers, by its steps done here."""
    picture = Image.open(path).convert("RGB")
    width, height = picture.size
    scale = 256 / min(width, height)
    picture = picture.resize((int(width * scale), int(height * scale)), Image.Resampling.BILINEAR)
    left, top = ((side - 224) // 2 for side in picture.size)
    values = np.asarray(picture.crop((left, top, left + 224, top + 224)), np.float32) / 255
    mean, std = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]], np.float32)
    x = torch.tensor(((values - mean) / std).transpose(2, 0, 1)[None])
    with torch.no_grad():
        scores, best = torch.topk(torch.softmax(model(x), 1)[0], 5)
    return {NAMES[str(i)][-1]: s for i, s in zip(best.tolist(), scores.tolist(), strict=True)}


def alerts(report: Mapping[str, Any]) -> list[str]:
    """The texts that a report begins with."""
    return [item["text"] for item in report["alerts"]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["script", pytest.param("code", marks=pytest.mark.smoke)])
def test_an_image_classifier_of_the_archiver_s(kind: str, tmp_path: Path) -> None:
    """Scripted, and weights with the class's file: a photo's answer is TorchServe's."""
    model = net(tmp_path)
    files = {"script": ["script.pt"], "code": ["net.pt", "--model-file", "model.py"]}[kind]
    more = ("--handler", "image_classifier", "--extra-files", "index_to_name.json")
    archived(tmp_path, "--serialized-file", *files, *more)
    untrusted = refused(3, "--trust-source", tmp_path, "net.mar")
    assert (kind == "code") == ("model.py" in untrusted.err)
    typed("convert net.mar --trust-source --no-bench --out out", tmp_path)
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["artifacts"][0]["accuracy"]["outputs"][0]["max_abs"] < 1e-6
    assert not [text for text in alerts(report) if "NOT TAKEN" in text]
    wanted = classified(model, photo(tmp_path / "photo.png"))
    with modelyard.load(tmp_path / "out") as loaded:
        told = loaded(tmp_path / "photo.png").classes
    assert [item.label for item in told] == list(wanted)
    assert [item.score for item in told] == pytest.approx(list(wanted.values()), abs=1e-5)


def test_an_archive_of_ours_has_what_it_declared(tmp_path: Path) -> None:
    """An ONNX file whose server prepared pictures: the same answer in the end, and no warning."""
    small_cnn(tmp_path / "cnn.onnx")
    images = "--image-mean 0.4 --image-std 0.2 --prepare server --no-bench --no-check"
    typed(f"convert cnn.onnx {images} --serve torchserve --out first", tmp_path)
    archive = tmp_path / "first/serving/torchserve/cnn/model_store/cnn.mar"
    typed(f"convert {archive} --no-bench --out second", tmp_path)
    report = json.loads((tmp_path / "second/report.json").read_text())
    assert not [text for text in alerts(report) if "NOT TAKEN" in text]
    path, answers = photo(tmp_path / "photo.png"), []
    for name in ("first", "second"):
        with modelyard.load(tmp_path / name) as loaded:
            answers.append(loaded(path)["scores"])
    np.testing.assert_array_equal(*answers)


def _written(path: Path, files: Mapping[str, str | bytes], **model: str) -> Path:
    """An archive as it is told, with a manifest."""
    named = {"modelName": "net", "handler": "base_handler", "modelVersion": "1.0", **model}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {MANIFEST: json.dumps({"model": named}), **files}.items():
            archive.writestr(name, content)
    return path


def test_a_handler_of_its_own_is_named(tmp_path: Path) -> None:
    """It isn't run; what it does is left to whoever converts the archive."""
    (tmp_path / "ran").mkdir()
    code = textwrap.dedent(f"""
        from pathlib import Path
        Path({str(tmp_path / "ran/it")!r}).touch()
    """)
    files = {"cnn.onnx": small_cnn(tmp_path / "cnn.onnx").read_bytes(), "mine.py": code}
    _written(tmp_path / "net.mar", files, serializedFile="cnn.onnx", handler="mine.py")
    typed("convert net.mar --no-bench --no-check --out out", tmp_path)
    report = json.loads((tmp_path / "out/report.json").read_text())
    (text,) = (text for text in alerts(report) if "NOT TAKEN" in text)
    assert "mine.py is code of the archive's own" in text
    assert not [*(tmp_path / "ran").iterdir()]


@pytest.mark.parametrize(("files", "model", "says"), [
    ({"../cnn.onnx": ""}, {}, "'../cnn.onnx' would be outside"),
    ({"/cnn.onnx": ""}, {}, "'/cnn.onnx' would be outside"),
    ({"a\\..\\b": ""}, {}, "would be outside"),
    ({}, {"serializedFile": "cnn.onnx"}, "names cnn.onnx, which isn't in it"),
    ({}, {}, "names no model"),
    ({"cnn.onnx": "", "index_to_name.json": "[1]"}, {"serializedFile": "cnn.onnx"},
     "is a list, not an object"),
    ({"cnn.onnx": "", "index_to_name.json": '{"a": "b"}'}, {"serializedFile": "cnn.onnx"},
     "keys that aren't class numbers"),
    ({"cnn.onnx": "", "index_to_name.json": '{"99999999999": "b"}'}, {"serializedFile": "cnn.onnx"},
     "keys that aren't class numbers"),
    ({"cnn.onnx": "", "index_to_name.json": '{"object_type_names": 3}'},
     {"serializedFile": "cnn.onnx"}, "lists no names"),
    ({MANIFEST: "{}"}, {}, "names no model"),
    ({MANIFEST: "["}, {}, "isn't JSON"),
    ({"n.xyz": "?"}, {"serializedFile": "n.xyz"}, "can't read the format of"),
])  # fmt: skip
def test_what_cannot_be_read(
    files: dict[str, Any], model: dict[str, str], says: str, tmp_path: Path
) -> None:
    _written(tmp_path / "net.mar", files, **model)
    refused(3, says, tmp_path, "net.mar")


def test_code_of_two_classes_and_a_damaged_archive(tmp_path: Path) -> None:
    two = MODEL + "\n\nclass Other:\n    pass\n"
    path = _written(tmp_path / "net.mar", {"m.py": two, "w.pt": ""}, serializedFile="w.pt",
                    modelFile="m.py")  # fmt: skip
    refused(3, "has 2 classes", tmp_path, "net.mar", "--trust-source")
    refused(
        2, "--weights only works with a PyTorch class", tmp_path, "net.mar", "--weights", "w.pt"
    )
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("big.bin", bytes(1000))
        archive.filelist[-1].file_size = 1 << 40
    refused(3, "big.bin: it unpacks to 1,099,511,627,776 bytes", tmp_path, "net.mar")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused(3, "isn't a whole archive", tmp_path, "net.mar")


def test_a_segmenter_and_a_detector_say_what_their_outputs_are(tmp_path: Path) -> None:
    """By ONNX files with the outputs that torchvision's models have."""
    masks = """g (float[batch, 3, 224, 224] image) => (float[batch, 3, 224, 224] out) {
        out = Neg(image) }"""
    boxes = """g (float[1, 3, 32, 48] image) => (float[1, 2, 4] boxes, float[1, 2] scores,
        int64[1, 2] labels) {
        m = ReduceMean<keepdims = 0>(image) boxes = Add(m, b) scores = Add(m, s)
        labels = Cast<to = 7>(scores) }"""
    weights = {"b": np.zeros((1, 2, 4), np.float32), "s": np.ones((1, 2), np.float32)}
    cases = {"image_segmenter": (masks, {}), "object_detector": (boxes, weights)}
    labels = json.dumps({"0": "sky", "1": "sea", "2": "sand"})
    for handler, (text, values) in cases.items():
        head = '<ir_version: 8, opset_import: ["" : 17]>'
        proto = onnx.parser.parse_model(f"{head} {text}")
        for name, array in values.items():
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        files = {"m.onnx": proto.SerializeToString(), "index_to_name.json": labels}
        _written(tmp_path / "net.mar", files, serializedFile="m.onnx", handler=handler)
        typed("convert net.mar --no-bench --no-check --overwrite --out out", tmp_path)
        declared = json.loads((tmp_path / "out/manifest.json").read_text())["declared"]
        (answer,), (picture,) = declared["answer"], declared["prepare"]
        assert answer["labels"] == ["sky", "sea", "sand"]
        if handler == "image_segmenter":
            assert (answer["kind"], picture["resize"], picture["height"]) == ("masks", 256, 224)
        else:
            assert (answer["kind"], answer["threshold"]) == ("boxes", 0.5)
            assert (picture["resize"], picture["mean"]) == (None, [0.0, 0.0, 0.0])


def test_inspect_reads_one(tmp_path: Path) -> None:
    files = {"cnn.onnx": small_cnn(tmp_path / "cnn.onnx").read_bytes()}
    _written(tmp_path / "net.zip", files, serializedFile="cnn.onnx")  # by content, not by name
    said = command("inspect", "net.zip", cwd=tmp_path, code=0)
    assert "image" in said.out
