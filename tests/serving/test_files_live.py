"""Packages that prepare users' files, on their real servers: a picture's file in, labels out, and
a bad file told so, after which the server goes on."""

import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from PIL import Image
from sklearn.datasets import load_sample_image

import modelyard
from converter import api
from converter.commands.serve import Served
from tests.acceptance.cli import small_cnn, typed, written
from tests.acceptance.test_sounds import spoken
from tests.huggingface.models import save
from tests.huggingface.test_texts import with_tokenizer
from tests.serving.test_files_package import asked
from tests.serving.test_python_live import post
from tests.serving.test_python_package import SERVERS

pytestmark = pytest.mark.slow

NAMES = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of pictures, and every server's package of it."""
    folder = tmp_path_factory.mktemp("files")
    small_cnn(folder / "cnn.onnx")
    (folder / "photos").mkdir()
    rng = np.random.default_rng(0)
    for index in range(10):
        pixels = rng.integers(0, 256, (24, 20 + index, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"photos/{index}.jpg")
    (folder / "names.txt").write_text("\n".join(NAMES))
    options = (
        "--label-names names.txt --image-mean 0.5 --image-std 0.25 --prepare server --no-bench"
    )
    servers = ",".join(SERVERS)
    typed(f"convert cnn.onnx --samples photos {options} --serve {servers} --out out", folder)
    return folder


@pytest.fixture(scope="module", params=SERVERS)
def served(request: pytest.FixtureRequest, folder: Path) -> Iterator[Served]:
    with api.serve(str(folder / "out" / "serving" / request.param / "cnn"), port=0) as running:
        yield running


def address(served: Served, file: str = "cat.jpg") -> str:
    """Where files are sent to, as the README's line has it."""
    readme = (served.folder / "README.md").read_text()
    line = next(line for line in readme.splitlines() if f"--data-binary @{file}" in line)
    given = served.addresses.get("json") or served.addresses["v2"]
    return "/".join([*given.split("/")[:3], *line.split()[-1].split("/")[3:]])


def curl(*line: str | Path) -> tuple[int, Any]:
    """What curl is answered: the status, and the JSON."""
    done = subprocess.run(["curl", "-s", "-w", "\n%{http_code}", *line], capture_output=True,
                          text=True, timeout=60, check=True)  # fmt: skip
    said, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(said)


def untyped(url: str, body: bytes) -> tuple[int, str]:
    """What a body is answered of which nobody says what it is."""
    _, _, host, path = url.split("/", 3)
    connection = HTTPConnection(host, timeout=60)
    connection.request("POST", f"/{path}", body)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def assert_same(answer: Any, right: modelyard.Answer) -> None:
    """Labels are equal, and scores to 1e-3."""
    assert [item["label"] for item in answer["classes"]] == [str(i.label) for i in right.classes]
    found, known = ([i["score"] for i in answer["classes"]], [i.score for i in right.classes])
    np.testing.assert_allclose(found, known, atol=1e-3)


def test_curl_sends_a_picture(served: Served, folder: Path) -> None:
    url, typed = address(served), ["-H", "Content-Type: image/jpeg"]
    files = [folder / f"photos/{index}.jpg" for index in range(10)]
    untold = [] if served.server != "torchserve" else typed
    with modelyard.load(folder / "out") as net:
        right = net(files)
        for number, header in ((3, untold), (4, typed)):
            status, answer = curl(*header, "--data-binary", f"@{files[number]}", url)
            assert status == 200, answer
            assert_same(answer, right[number])
        untaken = ["-X", "POST"] if served.server == "mlserver" else []
        for way in ([*untaken, "-T"], ["-X", "POST", "-T"]):
            status, answer = curl(*way, files[5], url)
            assert status == 200, answer
            assert_same(answer, right[5])
        status, answer = untyped(url, files[2].read_bytes())
        assert status == 200, answer
        assert_same(json.loads(answer), right[2])
        form = [part for n, file in enumerate(files) for part in ("-F", f"f{n}=@{file}")]
        status, answer = curl(*form, url)
        assert status == 200 and len(answer["answers"]) == 10, answer
        for one, known in zip(answer["answers"], right, strict=True):
            assert_same(one, known)
        status, answer = curl("-F", f"f=@{files[6]}", url)
        assert status == 200, answer
        assert_same(answer, right[6])
        arrays = {"image": np.zeros((1, 3, 16, 16)).tolist()}
        if "json" in served.addresses:  # as without files
            status, said = post(served.addresses["json"], json.dumps(arrays).encode())
            zeros = net(image=np.zeros((1, 3, 16, 16), np.float32))["scores"]
            np.testing.assert_allclose(json.loads(said)["scores"], zeros, atol=1e-5)


def test_many_at_once_and_the_self_test(served: Served, folder: Path) -> None:
    """Of 24 callers three send no picture: each is told its own; arrays are taken as before."""
    url, files = address(served), [folder / f"photos/{n % 10}.jpg" for n in range(24)]
    bodies = [b"none" if n % 8 == 7 else file.read_bytes() for n, file in enumerate(files)]
    with modelyard.load(folder / "out") as net, ThreadPoolExecutor(24) as pool:
        answers = pool.map(lambda body: post(url, body, **{"Content-Type": "image/jpeg"}), bodies)
        for number, (status, answer) in enumerate(answers):
            assert status == (400 if number % 8 == 7 else 200), answer
            if status == 200:
                assert_same(json.loads(answer), net(files[number]))
    base = "/".join(url.split("/")[:3])
    line = [sys.executable, str(served.folder / "selftest.py"), "--url", base]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (done.stderr, done.stdout)


def bad_pictures(good: bytes) -> dict[str, tuple[bytes, str, int, str]]:
    """Bodies that no model takes: with its content type, the status, and what is told."""
    jpeg = "image/jpeg"
    return {
        "broken": (good[: len(good) // 2], jpeg, 400, "cut short"),
        "no picture": (b"GIF, or so it says", jpeg, 400, "can't be read"),
        "empty": (b"", jpeg, 400, "empty"),
        "CMYK": (saved(Image.new("CMYK", (20, 20)), "JPEG"), jpeg, 400, "CMYK"),
        "16 bits": (saved(Image.new("I;16", (20, 20)), "PNG"), "image/png", 400, "8 bits"),
        "100 megapixels": (huge_png(10_000, 10_000), "image/png", 413, "64,000,000"),
        "250 megapixels": (huge_png(50_000, 5_000), "image/png", 413, "pixels"),
        "a text": (good, "text/plain", 415, "text/plain"),
        "a sound": (good, "audio/wav", 415, "audio/wav"),
        "a JSON": (good, "application/json", 400, ""),
        "no form": (good, "multipart/form-data; boundary=x", 400, ""),
        "curl's": (good, "application/x-www-form-urlencoded", 200, ""),
    }


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    into = BytesIO()
    image.save(into, kind, **options)
    return into.getvalue()


def huge_png(width: int, height: int) -> bytes:
    """A small file of many grey pixels."""
    rows = zlib.compress(b"\0" * (width + 1) * height, 1)
    parts = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), (b"IDAT", rows),
             (b"IEND", b""))  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )


def test_bad_pictures(served: Served, folder: Path) -> None:
    url, good = address(served), (folder / "photos/7.jpg").read_bytes()
    with modelyard.load(folder / "out") as net:
        right = net(good)
    for name, (body, kind, wanted, told) in bad_pictures(good).items():
        status, answer = post(url, body, **{"Content-Type": kind})
        if name == "curl's" and served.server == "torchserve":
            wanted, told = 500, ""  # its frontend takes it apart for a form's fields, and fails
        assert status == wanted and told in answer, (name, status, answer[:500])
        assert status == 200 or 10 < len(answer) < 1000, (name, answer)
        status, answer = post(url, good, **{"Content-Type": "image/jpeg"})
        assert status == 200, (name, answer)
        assert_same(json.loads(answer), right)


def test_unusual_pictures(served: Served, folder: Path) -> None:
    """A photo that lies on its side is turned; one of a pixel is one."""
    url = address(served)
    image = Image.open(folder / "photos/9.jpg")
    exif = Image.Exif()
    exif[0x0112] = 6
    with modelyard.load(folder / "out") as net:
        for body in (saved(image, "JPEG", exif=exif), saved(Image.new("RGB", (1, 1)), "PNG")):
            status, answer = post(url, body, **{"Content-Type": "image/png"})
            assert status == 200, answer
            assert_same(json.loads(answer), net(body))


def test_too_large_a_body(served: Served, folder: Path) -> None:
    status, answer = post(address(served), bytes(65 << 20), **{"Content-Type": "image/jpeg"})
    assert status == 413, (status, answer[:500])
    good = (folder / "photos/7.jpg").read_bytes()
    assert post(address(served), good, **{"Content-Type": "image/jpeg"})[0] == 200


SOUND = """g (float[windows, 8] x, float[1, 1] bias) => (float[windows] y) {
    m = ReduceMean<keepdims = 0, axes = [1]>(x) b = Squeeze(bias) y = Add(m, b) }"""


def test_sounds(tmp_path: Path) -> None:
    """A stereo sound of another rate in windows, of which there are more than a batch holds."""
    written(tmp_path / "s.onnx", SOUND)
    modelyard.convert(
        tmp_path / "s.onnx", bench=False, out=tmp_path / "out", dims={"windows": 3},
        prepare=["server", {"kind": "sound", "input": "x", "rate": 16000, "length": 8, "hop": 6},
                 {"kind": "constant", "input": "bias", "shape": [1, 1], "value": 2}],
        answer={"kind": "series", "rate": 16000 / 6, "name": "level"}, serve="litserve",
    )  # fmt: skip
    wave = np.random.default_rng(0).standard_normal((4800, 2)).astype(np.float32) / 8
    soundfile.write(tmp_path / "a.wav", wave, 48000, subtype="FLOAT")
    good = (tmp_path / "a.wav").read_bytes()
    bad = {
        "10 hours": (wav(36000 * 16000, bytes(3200)), 400, "cut short"),
        "10 hours, and all of it": (flac(36000, 1), 413, "3,600"),
        "broken": (good[:40], 400, "can't be read"),
        "empty": (b"", 400, "empty"),
        "silence of no length": (wav(0, b""), 400, "no sound"),
    }
    with (
        api.serve(str(tmp_path / "out/serving/litserve/s"), port=0) as served,
        modelyard.load(tmp_path / "out") as net,
    ):
        url, right = served.addresses["json"], net(tmp_path / "a.wav").told["level"]["values"]
        for name, (body, wanted, told) in {"good": (good, 200, "level"), **bad}.items():
            status, answer = post(url, body, **{"Content-Type": "audio/wav"})
            assert status == wanted and told in answer, (name, status, answer[:500])
            status, answer = post(url, good, **{"Content-Type": "audio/wav"})
            values = json.loads(answer)["level"]["values"]
            np.testing.assert_allclose(values, right, atol=1e-6, err_msg=name)
            assert len(right) > 200


def test_a_48_khz_stereo_recording(tmp_path: Path) -> None:
    """silero-vad, whose windows hand on a state: two callers at once are each told their own."""
    spans = [[(0.5, 1.6)], [(0.9, 2.4)]]
    for number, speech in enumerate(spans):
        wave = spoken(speech, 3.0, 48000)
        stereo = np.stack([wave, wave * 0.5], 1)
        soundfile.write(tmp_path / f"{number}.wav", stereo, 48000, subtype="FLOAT")
    options = "--no-bench --no-check --prepare server --serve litserve --out out"
    typed(f"convert zoo:silero-vad {options}", tmp_path)
    files = [tmp_path / f"{number}.wav" for number in (0, 1)]
    with (
        api.serve(str(tmp_path / "out/serving/litserve/silero-vad"), port=0) as served,
        modelyard.load(tmp_path / "out") as net,
        ThreadPoolExecutor(4) as pool,
    ):
        url = address(served, "speech.wav")
        right = [net(file).told for file in files] * 2
        answers = pool.map(
            lambda file: post(url, file.read_bytes(), **{"Content-Type": "audio/wav"}), files * 2
        )
        for (status, answer), known in zip(answers, right, strict=True):
            assert status == 200, answer
            told = json.loads(answer)
            assert len(told["segments"]) == 1 and told["segments"] == known["segments"]
            values = (of["speech"]["values"] for of in (told, known))
            np.testing.assert_allclose(*values, atol=1e-5)


def wav(frames: int, data: bytes) -> bytes:
    """A WAV file of 16 kHz and 16 bits whose header tells of so many frames."""
    size, form = 2 * frames, struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16)
    head = b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt " + form
    return head + b"data" + struct.pack("<I", size) + data


def flac(seconds: int, rate: int) -> bytes:
    """A FLAC file of silence."""
    into = BytesIO()
    soundfile.write(into, np.zeros(seconds * rate, np.int16), rate, format="FLAC")
    return into.getvalue()


def test_texts(tmp_path: Path) -> None:
    """On TorchServe, whose archive has the tokenizer."""
    with_tokenizer(save("bert-classes", tmp_path / "bert", max_position_embeddings=20))
    typed("convert bert --no-bench --prepare server --serve torchserve,bentoml --out out", tmp_path)
    beside = tmp_path / "out/serving/bentoml/bert"
    assert "tokenizer/tokenizer.json" in (beside / "bentofile.yaml").read_text()
    sent = ["the cat, sees", "a cow", "the dog sees the cat"]
    bad = {
        "a million letters": (b"the cat " * 125_000, "text/plain", 413, "100,000"),
        "no text": (b"\xff\xfe\xfd", "application/octet-stream", 400, "UTF-8"),
        "a picture": (b"abc", "image/png", 415, "image/png"),
        "no second text": (b'{"text": "a", "pair": 5}', "application/json", 400, "pair of text 1"),
        "curl's": (b"the cat, sees", "application/x-www-form-urlencoded", 415, "Content-Type"),
    }
    line = [sys.executable, "-c", "from asking import *; print(Asking(Interface()).openapi)"]
    said = subprocess.run(line, cwd=beside, capture_output=True, text=True, check=True).stdout
    assert "'application/json': {'schema': {'oneOf'" in said
    with (
        api.serve(str(tmp_path / "out/serving/torchserve/bert"), port=0) as served,
        modelyard.load(tmp_path / "out") as net,
    ):
        url, right = served.addresses["json"], net(sent)
        for (_, answer), known in zip(
            asked(beside, *((text, "text/plain") for text in sent)), right, strict=True
        ):
            assert_same(answer, known)
        for text, known in zip(sent, right, strict=True):
            status, answer = post(url, text.encode(), **{"Content-Type": "text/plain"})
            assert status == 200, answer
            assert_same(json.loads(answer), known)
        status, answer = untyped(url, sent[0].encode())
        assert status == 200, answer
        assert_same(json.loads(answer), right[0])
        pairs = [{"text": sent[1], "pair": sent[0]}, {"text": sent[2]}]
        both = [net((sent[1], sent[0])), right[2]]
        for status, told in (
            (200, asked(beside, (json.dumps(pairs), "application/json"))[0][1]),
            curl("-H", "Content-Type: application/json", "-d", json.dumps(pairs), url),
        ):
            assert status == 200, told
            for one, known in zip(told["answers"], both, strict=True):
                assert_same(one, known)
        form = [part for n, text in enumerate(sent) for part in ("-F", f"t{n}={text}")]
        status, answer = curl(*form, url)
        assert status == 200 and len(answer["answers"]) == 3, answer
        for one, known in zip(answer["answers"], right, strict=True):
            assert_same(one, known)
        for name, (body, kind, wanted, told) in bad.items():
            status, answer = post(url, body, **{"Content-Type": kind})
            assert status == wanted and told in answer, (name, status, answer[:500])
            status, answer = post(url, sent[0].encode(), **{"Content-Type": "text/plain"})
            assert status == 200, (name, answer)
            assert_same(json.loads(answer), right[0])


def test_a_network_of_the_catalogue(tmp_path: Path) -> None:
    """EfficientNet-Lite0 from a JPEG to ImageNet's labels: what ``load`` says, three servers and a
    device's ``usage.py`` say."""
    files = []
    for name in ("china", "flower"):
        files.append(tmp_path / f"{name}.jpg")
        Image.fromarray(load_sample_image(files[-1].name)).save(files[-1], quality=95)
    servers = ["torchserve", "mlserver", "triton"]
    options = f"--to onnx,tflite --prepare server --serve {','.join(servers)} --no-bench --out out"
    typed(f"convert zoo:efficientnet-lite0 {options}", tmp_path)
    with modelyard.load(tmp_path / "out", "onnx") as net:
        right = net(files)
    assert len({answer.label for answer in right}) == 2
    for name in servers:
        package = tmp_path / "out/serving" / name / "efficientnet-lite0"
        header = "Content-Type: image/jpeg"
        with api.serve(str(package), port=0) as running:
            if name == "triton":
                header = "Inference-Header-Content-Length: 0"
                places = {item.split()[-1]: at for item, at in running.addresses.items()}
                url = f"{places['v2'].rsplit('/', 1)[0]}/efficientnet-lite0/infer"
            else:
                url = address(running)
            for file, known in zip(files, right, strict=True):
                line = ("-H", header, "--data-binary", f"@{file}", url)
                done = subprocess.run(["curl", "-sf", *line], capture_output=True, check=True)
                lines = done.stdout.splitlines()  # Triton's own header stands before the answer
                said = lines[-1] if name == "triton" else done.stdout
                assert_same(json.loads(said), known)
    usage = tmp_path / "out/tflite/fp32/usage.py"
    for file, known in zip(files, right, strict=True):
        line = [sys.executable, str(usage), str(file)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
        assert str(known.label) in done.stdout.splitlines()[0]
