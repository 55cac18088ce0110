"""A loaded artifact takes what users have: a picture's file, a text."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pandas
import pytest
from PIL import Image

import modelyard
from tests.acceptance.cli import small_cnn, typed, written
from tests.huggingface.models import save
from tests.huggingface.test_texts import with_tokenizer

NAMES = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]
PREPARED = "--image-mean 0.5,0.4,0.3 --image-std 0.2 --image-color bgr --image-resize 20"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of pictures with names, on ONNX and TFLite, and in 8 bits."""
    folder = tmp_path_factory.mktemp("ask")
    small_cnn(folder / "cnn.onnx")
    (folder / "photos").mkdir()
    rng = np.random.default_rng(0)
    for index in range(10):
        pixels = rng.integers(0, 256, (24, 20 + index, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"photos/{index}.png")
    (folder / "names.txt").write_text("\n".join(NAMES))
    typed("convert cnn.onnx --to onnx,tflite --precision fp32,int8 --samples photos --label-names "
          f"names.txt --no-bench {PREPARED} --out out", folder)  # fmt: skip
    return folder


def expected(file: Path) -> np.ndarray:
    """The model's input, as the options say, by Pillow alone."""
    image = Image.open(file)
    shorter = min(image.size)
    size = [20 * side // shorter for side in image.size]
    image = image.resize((size[0], size[1]), Image.Resampling.BILINEAR)
    left, top = ((side - 16) / 2 for side in image.size)
    image = image.crop((round(left), round(top), round(left) + 16, round(top) + 16))
    values = np.asarray(image, np.float64)[..., ::-1] / 255
    return ((values - [0.5, 0.4, 0.3]) / 0.2).transpose(2, 0, 1)[np.newaxis].astype(np.float32)


@pytest.mark.parametrize("artifact", ["onnx:fp32", "tflite:fp32", "onnx:int8", "tflite:int8"])
def test_a_picture_becomes_labels(made: Path, artifact: str) -> None:
    file = made / "photos/7.png"
    with modelyard.load(made / "out", artifact) as net:
        answer = net(file)
        assert isinstance(answer, modelyard.Answer)
        right = net(expected(file))["scores"][0]
        np.testing.assert_allclose(answer["scores"][0], right, atol=1e-6)
        order = np.argsort(-right, kind="stable")[:5]
        assert [item.label for item in answer.classes] == [NAMES[index] for index in order]
        assert answer.label == NAMES[order[0]] and answer.classes[0].index == order[0]
        for same in (str(file), file.read_bytes()):
            np.testing.assert_array_equal(net(same)["scores"], answer["scores"])
        several = [made / f"photos/{index}.png" for index in (3, 7, 5)]
        page = (made / "out/report.html").read_text()
        assert "bgr 16x16, the shorter side resized to 20" in page and "10 names" in page
        answers = net(several)
        assert [item.label for item in answers] == [net(item).label for item in several]
        np.testing.assert_allclose(answers[1]["scores"], answer["scores"], atol=1e-5)


def test_usual_values_have_names(tmp_path: Path) -> None:
    small_cnn(tmp_path / "m.onnx")
    typed(
        "convert m.onnx --no-bench --image-mean imagenet --image-std ImageNet --out out", tmp_path
    )
    made = modelyard.convert(tmp_path / "m.onnx", image_mean="imagenet", image_std="imagenet",
                             bench=False, out=tmp_path / "other")  # fmt: skip
    assert made.report is not None and made.report.declared is not None
    (picture,) = made.report.declared.prepare
    assert picture.kind == "picture" and picture.mean == (0.485, 0.456, 0.406)
    with modelyard.load(tmp_path / "out") as net, modelyard.load(tmp_path / "other") as same:
        Image.new("RGB", (20, 20), (200, 100, 50)).save(tmp_path / "a.png")
        found = net(tmp_path / "a.png")["scores"]
        np.testing.assert_array_equal(found, same(tmp_path / "a.png")["scores"])
    said = typed("convert m.onnx --no-bench --image-mean imagenot --out out", tmp_path, code=2)
    assert "imagenot" in said.err


def test_what_is_no_picture_is_refused(made: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.png").write_bytes((made / "photos/1.png").read_bytes()[:200])
    (tmp_path / "page.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n")
    pages, page = BytesIO(), Image.new("RGB", (20, 20))
    page.save(pages, "TIFF", save_all=True, append_images=[page])
    head, width, tail = pages.getvalue().rpartition(b"\0\1\4\0")  # the second page's
    (tmp_path / "wide.tif").write_bytes(head + b"\xfe" + width[1:] + tail)
    with modelyard.load(made / "out", "onnx:fp32") as net:
        for given, says in (
            (tmp_path / "wide.tif", "can't be read"),
            (tmp_path / "gone.png", "there is no picture"),
            (tmp_path / "cut.png", "can't be read"),
            (tmp_path / "page.eps", "can't be read"),
            (b"", "the picture can't be read"),
        ):
            with pytest.raises(modelyard.UsageError, match=says):
                net(given)
        with pytest.raises(modelyard.UsageError, match="takes picture"):
            net.ask(("a", "b"))


def test_a_model_of_which_nothing_is_known(tmp_path: Path) -> None:
    text = "g (float[batch, 4] x) => (float[batch, 4] y) { y = Relu(x) }"
    written(tmp_path / "m.onnx", text)
    typed("convert m.onnx --no-bench --out out", tmp_path)
    with (
        modelyard.load(tmp_path / "out") as net,
        pytest.raises(
            modelyard.UsageError, match="has no description of how a file becomes an input"
        ),
    ):
        net("cat.jpg")


def test_a_table_s_columns_are_inputs(tmp_path: Path) -> None:
    text = """g (float[batch, 1] age, float[batch, 1] height, float[batch, 1] weight)
        => (float[batch, 1] index) { a = Mul(height, height) b = Div(weight, a)
        index = Add(b, age) }"""
    written(tmp_path / "m.onnx", text)
    typed("convert m.onnx --no-bench --out out", tmp_path)
    table = pandas.DataFrame({"height": [2.0, 1.0], "weight": [80.0, 20.0], "age": [1, 2]})
    with modelyard.load(tmp_path / "out") as net:
        assert net(table)["index"].tolist() == [[21.0], [22.0]]
        with pytest.raises(modelyard.UsageError, match="missing: weight"):
            net(table.drop(columns="weight"))
    written(tmp_path / "x.onnx", "g (float[batch, 3] x) => (float[batch, 3] y) { y = Neg(x) }")
    typed("convert x.onnx --no-bench --out one", tmp_path)
    with modelyard.load(tmp_path / "one") as net:
        assert net(table)["y"].tolist() == [[-2.0, -80.0, -1.0], [-1.0, -20.0, -2.0]]


@pytest.mark.slow
def test_a_text_becomes_its_tokens(tmp_path: Path) -> None:
    """By the model's own tokenizer: as transformers does it."""
    folder = with_tokenizer(save("bert-classes", tmp_path / "net"))
    modelyard.convert(folder, bench=False, out=tmp_path / "out")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    with modelyard.load(tmp_path / "out") as net:
        names = [spec.name for spec in net.inputs]
        for text in ("the cat, sees", ("a cow", "the dog sees")):
            pair = text if isinstance(text, tuple) else (text,)
            tokens = {name: [row] for name, row in tokenizer(*pair).items()}
            answer = net.ask(text)
            right = net({name: np.array(tokens[name]) for name in names})
            for name, array in right.items():
                np.testing.assert_array_equal(answer[name], array)
            assert answer.label and abs(sum(item.score for item in answer.classes) - 1) < 1e-6
