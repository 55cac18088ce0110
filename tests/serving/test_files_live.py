"""Packages that prepare users' files, on their real servers: a picture's file in, labels out, and
a bad file told so, after which the server goes on."""

import json
import struct
import subprocess
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import modelyard
from converter import api
from converter.commands.serve import Served
from tests.acceptance.cli import small_cnn, typed
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
    options = "--label-names names.txt --no-bench --image-mean 0.5 --image-std 0.25"
    servers = ",".join(SERVERS)
    line = f"convert cnn.onnx --samples photos {options} --prepare server --serve {servers}"
    typed(f"{line} --out out", folder)
    return folder


@pytest.fixture(scope="module", params=SERVERS)
def served(request: pytest.FixtureRequest, folder: Path) -> Iterator[Served]:
    with api.serve(str(folder / "out" / "serving" / request.param / "cnn"), port=0) as running:
        yield running


def address(served: Served) -> str:
    """Where files are sent to, as the README's line has it."""
    readme = (served.folder / "README.md").read_text()
    line = next(line for line in readme.splitlines() if "--data-binary @cat.jpg" in line)
    given = served.addresses.get("json") or served.addresses["v2"]
    return "/".join([*given.split("/")[:3], *line.split()[-1].split("/")[3:]])


def curl(*line: str | Path) -> tuple[int, Any]:
    """What curl is answered: the status, and the JSON."""
    done = subprocess.run(["curl", "-s", "-w", "\n%{http_code}", *line], capture_output=True,
                          text=True, timeout=60, check=True)  # fmt: skip
    said, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(said)


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
        status, answer = curl("-X", "POST", "-T", files[5], url)
        assert status == 200, answer
        assert_same(answer, right[5])
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


def bad_pictures(good: bytes) -> dict[str, tuple[bytes, str, int, str]]:
    """Bodies that no model takes: with its content type, the status, and what is told."""
    jpeg = "image/jpeg"
    return {
        "broken": (good[: len(good) // 2], jpeg, 400, "truncated"),
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
        if name == "curl's" and served.server == "torchserve":  # its frontend takes it apart
            wanted, told = 415, ""
        if name == "no form" and served.server == "torchserve":
            wanted = status
        assert status == wanted and told in answer, (name, status, answer[:500])
        assert status < 500 and (status == 200 or 10 < len(answer) < 1000), (name, answer)
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
