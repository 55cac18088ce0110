"""``--prepare server`` on a real Triton: users' files in, answers in JSON out."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tritonclient.grpc
import tritonclient.http
import yaml
from PIL import Image
from tritonclient.utils import InferenceServerException

import modelyard
from converter import api
from emitters.serving.triton.validate import validate_folder
from tests.acceptance.cli import small_cnn, typed, written
from tests.acceptance.test_flows import RECIPE, flow_files
from tests.acceptance.test_prepare import SOUND
from tests.huggingface.models import save
from tests.huggingface.test_texts import with_tokenizer
from tests.serving.test_files_package import TURNS
from tests.serving.test_flow_packages import asked

RAW = {"Inference-Header-Content-Length": "0"}
NAMES = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]
LEVELS = {
    "preparation": [
        {"kind": "sound", "input": "x", "rate": 16000, "length": 8, "hop": 6, "before": 2},
        {"kind": "constant", "input": "bias", "shape": [1, 1], "value": 2},
    ],
    "answer": {"kind": "series", "rate": 16000 / 6, "name": "level"},
    "dims": {"windows": 3},
}
PRICES = {
    "preparation": [{"kind": "row", "inputs": [
        {"name": "size", "columns": ["height", "width"], "dtype": "float32"},
        {"name": "age", "columns": ["age"], "dtype": "int64"},
    ]}],
    "answer": {"kind": "numbers", "names": ["price"], "unit": "EUR"},
}  # fmt: skip
RISES = {
    "preparation": [
        {"kind": "sound", "input": "x", "rate": 16000, "length": 8, "hop": 8},
        {"kind": "state", "input": "state", "next": "left", "shape": [1, 1]},
        {"kind": "constant", "input": "gain", "shape": [], "value": 2},
    ],
    "answer": {"kind": "series", "output": "y", "rate": 2000, "name": "level"},
    "check": False,
}
PRICE = """g (float[batch, 2] size, int64[batch, 1] age) => (float[batch, 1] y) {
    a = Cast<to = 1>(age) s = ReduceSum<keepdims = 1>(size, axis) y = Mul(a, s) }"""


@dataclass(frozen=True)
class Place:
    """Where the models lie, and where they are served."""

    folder: Path
    web: str
    grpc: str

    def ask(self, model: str, body: bytes) -> Any:
        """A file's answer, as curl gets it."""
        url = f"http://{self.web}/v2/models/{model}/infer"
        with urllib.request.urlopen(urllib.request.Request(url, body, RAW), timeout=60) as reply:
            return json.loads(reply.read().splitlines()[-1])

    def refused(self, model: str, body: bytes) -> str:
        """Why it refuses a file, as a 400."""
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.ask(model, body)
        assert caught.value.code == 400
        return str(json.loads(caught.value.read())["error"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four models, each published to ``repository`` and kept under its own name."""
    folder = tmp_path_factory.mktemp("files")
    small_cnn(folder / "cnn.onnx")
    written(folder / "level.onnx", SOUND)
    written(folder / "rise.onnx", TURNS, axis=np.array([1]))
    written(folder / "price.onnx", PRICE, axis=np.array([1]))
    (folder / "names.txt").write_text("\n".join(NAMES))
    (folder / "photos").mkdir()
    rng = np.random.default_rng(0)
    for index in range(3):
        pixels = rng.integers(0, 256, (9, 12 + index, 3), np.uint8)
        image = Image.fromarray(pixels).resize((80, 60), Image.Resampling.BICUBIC)
        image.save(folder / f"photos/{index}.jpg", quality=95)
    line = "--no-bench --repository repository --out"
    typed("convert cnn.onnx --samples photos --label-names names.txt --image-resize 20 "
          f"--serve triton --prepare server {line} cnn", folder)  # fmt: skip
    for name, said in {"level": LEVELS, "rise": RISES, "price": PRICES}.items():
        recipe = {"source": f"{name}.onnx", "serve": "triton", "prepare": "server", **said}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(recipe))
        typed(f"run {name}.yaml {line} {name}", folder)
    return folder


@contextmanager
def served(path: Path, folder: Path) -> Iterator[Place]:
    """A package or a repository on its server."""
    with api.serve(str(path), port=0) as running:
        found = {name.split()[-1]: place.split("/")[2] for name, place in running.addresses.items()}
        yield Place(folder, found["v2"], found["grpc"])


@pytest.fixture(scope="module")
def place(folder: Path) -> Iterator[Place]:
    with served(folder / "repository", folder) as running:
        yield running


def test_a_photo_becomes_labels(place: Place) -> None:
    photos = sorted((place.folder / "photos").iterdir())
    with modelyard.load(place.folder / "cnn") as net:
        for photo in photos:
            right = net(photo)
            (found,) = place.ask("cnn", photo.read_bytes()).values()
            assert [item["label"] for item in found] == [item.label for item in right.classes]
            scores = [item["score"] for item in found]
            np.testing.assert_allclose(scores, [item.score for item in right.classes], atol=1e-3)
    with ThreadPoolExecutor(8) as pool:  # at once, each with its own answer
        bodies = [photo.read_bytes() for photo in photos]
        alone = [place.ask("cnn", body) for body in bodies]
        for number, found in enumerate(pool.map(lambda b: place.ask("cnn", b), bodies * 20)):
            first, same = alone[number % 3]["classes"][0], found["classes"][0]
            assert first["label"] == same["label"]
            assert first["score"] == pytest.approx(same["score"], abs=1e-5)


def test_triton_s_clients_send_files(place: Place) -> None:
    body = (place.folder / "photos/1.jpg").read_bytes()
    for library, url in ((tritonclient.http, place.web), (tritonclient.grpc, place.grpc)):
        with library.InferenceServerClient(url) as client:
            file = library.InferInput("file", [1], "BYTES")
            file.set_data_from_numpy(np.array([body], object))
            answer = json.loads(client.infer("cnn", [file]).as_numpy("answer")[0])
            assert answer == place.ask("cnn", body)
            file.set_data_from_numpy(np.array([b"no picture"], object))
            with pytest.raises(InferenceServerException, match="can't be read"):
                client.infer("cnn", [file])


def test_what_is_no_photo_is_refused_and_the_server_goes_on(place: Place) -> None:
    body = (place.folder / "photos/0.jpg").read_bytes()
    right = place.ask("cnn", body)
    bomb = BytesIO()
    Image.new("1", (12_000, 12_000)).save(bomb, "PNG")
    for bad, says in {
        body[:400]: "can't be read",
        b"": "the body is empty",
        b"%!PS-Adobe-3.0 EPSF-3.0\n": "can't be read",
        bomb.getvalue(): "pixels",
        bytes(8 << 20): "can't be read",  # tritonserver 2.51 ends at 4 MB, with usual stacks
        bytes(65 << 20): "the limit is 67,108,864",
    }.items():
        assert says in place.refused("cnn", bad)
        assert place.ask("cnn", body) == right
    for mode, kind, says in (("CMYK", "JPEG", "colour space CMYK"), ("I;16", "PNG", "8 bits")):
        file = BytesIO()
        Image.new(mode, (1, 1)).save(file, kind)
        assert says in place.refused("cnn", file.getvalue())
    file = BytesIO()
    Image.new("L", (1, 1)).save(file, "PNG")
    assert len(place.ask("cnn", file.getvalue())["classes"]) == 5
    exif, turned = Image.Exif(), BytesIO()
    exif[0x0112] = 6  # it lies on its side
    Image.open(BytesIO(body)).save(turned, "JPEG", exif=exif)
    with modelyard.load(place.folder / "cnn") as net:
        known = net(turned.getvalue()).classes
    found = place.ask("cnn", turned.getvalue())["classes"]
    assert [item["label"] for item in found] == [item.label for item in known]


def test_windows_and_lines_are_as_many_rows_as_there_are(place: Place, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    wave = rng.standard_normal((4800, 2)).astype(np.float32) / 8
    soundfile.write(tmp_path / "a.wav", wave, 48000, subtype="FLOAT")
    for name in ("level", "rise"):  # the latter's windows hand on a state
        with modelyard.load(place.folder / name) as net:
            right = net(tmp_path / "a.wav").told["level"]
        found = place.ask(name, (tmp_path / "a.wav").read_bytes())["level"]
        assert found["rate"] == right["rate"] and len(found["values"]) >= 200
        np.testing.assert_allclose(found["values"], right["values"], atol=1e-5)
    assert "can't be read as a sound" in place.refused("level", b"RIFF but no sound")
    lines = [f"{age},x,1,2.5" for age in range(20)]
    told = place.ask("price", "\n".join(["age,name,width,height", *lines]).encode())
    assert told == {"numbers": [{"price": 3.5 * age} for age in range(20)], "unit": "EUR"}
    assert "lacks the columns height" in place.refused("price", b"age,width\n2,1\n")


def test_the_package_is_two_folders(folder: Path) -> None:
    package = folder / "cnn/serving/triton/cnn"
    behind = package.with_name("cnn_model")
    assert validate_folder(package) == [] == validate_folder(behind)
    manifest = json.loads((folder / "cnn/manifest.json").read_text())
    assert [item["path"] for item in manifest["packages"]] == ["serving/triton/cnn"]
    readme = (package / "README.md").read_text()
    assert "cnn_model" in readme and "pillow==" in readme and "curl" in readme
    assert "pillow==" in (package / "Dockerfile").read_text()
    assert not (folder / "price/serving/triton/price/Dockerfile").exists()
    (behind / "config.pbtxt").rename(behind / "away")
    assert "it asks cnn_model, which isn't beside it" in validate_folder(package)
    (behind / "away").rename(behind / "config.pbtxt")


def test_an_output_is_served_and_checked(folder: Path) -> None:
    """Both models of it: files are asked of one, tensors of the other."""
    with served(folder / "cnn", folder) as place:
        done = typed(f"check cnn --server http://{place.web}", folder)
        assert "passed" in done.out
        assert len(place.ask("cnn", (folder / "photos/0.jpg").read_bytes())["classes"]) == 5


def test_a_model_of_which_nothing_is_known_is_refused(tmp_path: Path) -> None:
    text = "g (float[batch, 4] x) => (float[batch, 4] y) { y = Relu(x) }"
    written(tmp_path / "m.onnx", text)
    line = "convert m.onnx --no-bench --serve triton --prepare server --out out"
    assert "there is no description of how files become" in typed(line, tmp_path, code=2).err


def test_a_second_version_joins_the_first(folder: Path, tmp_path: Path) -> None:
    line = "--no-bench --repository repository --out"
    for version in ("1", "2"):
        typed(f"run {folder / 'price.yaml'} {line} out{version}", tmp_path)
        for name in ("price", "price_model"):
            assert (tmp_path / "repository" / name / version).is_dir()
    (tmp_path / "m").mkdir()
    written(tmp_path / "m/price.onnx", PRICE, axis=np.array([1]))
    said = typed(f"convert m/price.onnx --serve triton {line} other", tmp_path, code=2).err
    assert "has another interface" in said


TEXTS = """
name: page
bench: false
serve: triton,litserve
prepare: server
parts: {bert: {source: bert}}
flow: [bert, {part: bert, name: again}]
"""


@pytest.mark.slow
def test_a_sentence_becomes_a_class(tmp_path: Path) -> None:
    """By a model, and by a flow, which has its parts' tokenizers with it."""
    with_tokenizer(save("bert-classes", tmp_path / "bert"))
    (tmp_path / "r.yaml").write_text(TEXTS)
    typed("run r.yaml --out out", tmp_path)
    out, sent = tmp_path / "out", b"the cat, sees"
    with modelyard.load(out) as flow:
        told = flow(sent.decode())
    right = told["bert"]["classes"]
    assert told["again"]["classes"] == right
    two = json.dumps({"text": "the cat", "pair": "a cow"}).encode()
    with modelyard.load(out / "bert") as net:
        pair = net(("the cat", "a cow")).told["classes"]
    [(status, found), (_, both)] = asked(
        out / "serving/litserve/page", (sent, "text/plain"), (two, "application/json")
    )
    assert status == 200
    with served(out / "serving/triton", tmp_path) as place:
        by_flow = place.ask("page", sent)
        for same in (found["again"], by_flow["bert"], by_flow["again"], place.ask("bert", sent)):
            assert [item["label"] for item in same["classes"]] == [i["label"] for i in right]
            scores = [item["score"] for item in same["classes"]]
            np.testing.assert_allclose(scores, [item["score"] for item in right], atol=1e-3)
        for same in (both["bert"], place.ask("bert", two), place.ask("page", two)["again"]):
            for one, known in zip(same["classes"], pair, strict=True):
                assert one["label"] == known["label"]
                assert one["score"] == pytest.approx(known["score"], abs=1e-3)
        assert "isn't text in UTF-8" in place.refused("bert", b"\xff\xfe\x00")
        assert "the limit is 100,000" in place.refused("bert", b"a" * 100_001)


def test_a_flow_takes_a_page_through_its_parts(made_flow: Path) -> None:
    """One request: what finds boxes, and what says the colour of each."""
    page = (made_flow / "page.png").read_bytes()
    with modelyard.load(made_flow / "out") as flow:
        right = flow(page)
    manifest = json.loads((made_flow / "out/manifest.json").read_text())
    assert [item["path"] for item in manifest["packages"]] == [
        "serving/triton/find", "serving/triton/color", "serving/triton/page",
    ]  # fmt: skip
    with served(made_flow / "out", made_flow) as place:
        found = place.ask("page", page)
        assert [box["paint"]["classes"][0]["label"] for box in found["find"]["boxes"]] == [
            "red", "blue"]  # fmt: skip
        for box, known in zip(found["find"]["boxes"], right["find"]["boxes"], strict=True):
            assert box["box"] == known["box"] and box["label"] == known["label"]
        assert "can't be read" in place.refused("page", b"no page")
        assert place.ask("color", page)["classes"][0]["label"] == "red"
        package = made_flow / "out/serving/triton/page"
        test = [sys.executable, str(package / "selftest.py"), "--url", f"http://{place.web}"]
        for expected, code in (('"index": 2', 0), ('"index": 1', 1)):
            file = package / "expected/0.json"
            file.write_text(file.read_text().replace('"index": 2', expected))
            done = subprocess.run(test, capture_output=True, text=True, check=False)
            assert done.returncode == code, done
        client = (package / "client_requests.py").read_text().replace("localhost:8000", place.web)
        line = [sys.executable, "-c", client, str(made_flow / "page.png")]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == found


@pytest.mark.slow
def test_a_flow_joins_a_repository_with_its_parts_or_not_at_all(made_flow: Path) -> None:
    models = ("find", "find_model", "color", "color_model", "page")
    place = made_flow / "repository"
    for version in ("1", "2"):
        typed(f"run r.yaml --repository repository --out out{version}", made_flow)
        for name in models:
            assert sorted(item.name for item in (place / name).iterdir() if item.is_dir()
                          and item.name.isdigit())[-1] == version  # fmt: skip
        assert validate_folder(place / "page") == []
    page = json.loads((made_flow / "out2/manifest.json").read_text())["packages"][-1]
    assert "added to the repository as 2" in page["decisions"]
    config = place / "page/config.pbtxt"
    config.write_text(config.read_text().replace('"answer"', '"said"'))
    said = typed("run r.yaml --repository repository --out out3", made_flow, code=2).err
    assert "page has another interface" in said
    assert not any((place / name / "3").exists() for name in models)
    config.write_text(config.read_text().replace('"said"', '"answer"'))
    with served(place, made_flow) as running:
        boxes = running.ask("page", (made_flow / "page.png").read_bytes())["find"]["boxes"]
        assert [box["paint"]["classes"][0]["label"] for box in boxes] == ["red", "blue"]


@pytest.fixture
def made_flow(tmp_path: Path) -> Path:
    flow_files(tmp_path)
    said = f"name: page\nserve: triton\nprepare: server\n{RECIPE}"
    (tmp_path / "r.yaml").write_text(said)
    typed("run r.yaml --out out", tmp_path)
    return tmp_path
