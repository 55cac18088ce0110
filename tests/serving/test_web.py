"""``--serve web``: packages that a browser runs, opened in Chromium; what is refused."""

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from PIL import Image

import modelyard
from converter import api
from converter.commands.serve import Served
from emitters.serving.web.runtimes import RUNTIMES
from tests.acceptance.cli import command, converted_cnn, refused, small_cnn, typed, written
from tests.acceptance.test_prepare import detector
from tests.acceptance.test_sounds import spoken
from tests.artifacts import Made
from tests.browser import Browser, Page, browser, needs_browser
from zoo import catalogue

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="npm isn't installed")

WIDTHS = (400, 1400)
LAST = "document.addEventListener('answer', (event) => { window.last = event.detail; });"


@contextmanager
def shown(folder: Path, profile: Path, query: str = "") -> Iterator[tuple[Served, Browser, Page]]:
    """A package's page in a browser, ready."""
    with api.serve(str(folder), port=0) as served, browser(profile) as chromium:
        page = chromium.page(served.addresses["page"] + query)
        page.wait("document.body?.dataset.state === 'ready'")
        page.evaluate(LAST)
        yield served, chromium, page


def asked(page: Page, file: Path) -> Any:
    """What the page answers to a file."""
    page.evaluate("window.last = null")
    page.choose("#file", file)
    page.wait("window.last !== null && document.body.dataset.state === 'ready'")
    return page.evaluate("window.last")


def require_quiet(chromium: Browser, served: Served) -> None:
    """No errors, and no request to another host."""
    said = [text for text in chromium.troubles if not text.startswith(("INFO:", "WARNING:"))]
    assert said == []  # LiteRT.js tells all it does as errors
    asked = chromium.asked
    assert asked and all(url.startswith(served.addresses["page"]) for url in asked), asked


def require_fits(page: Page, width: int, dark: bool = False) -> None:
    """Nothing is wider than the page."""
    page.resize(width, 900, dark)
    wide = "[...document.body.querySelectorAll('*')].filter((one) => !one.closest('.scroll, pre')"
    wide += " && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML)"
    assert page.evaluate(wide) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@needs_browser
@pytest.mark.slow
@pytest.mark.smoke
def test_a_classifier_in_a_browser(
    artifact: Callable[[str, str, str], Made], tmp_path: Path
) -> None:
    """Labels and scores as the source gives them, the self-test, and all of it without a server."""
    net = artifact("efficientnet-lite0", "onnx", "fp32").path
    photos = catalogue.entries()["efficientnet-lite0"].files["photos"].fetch()
    ways = "--image-resize 256 --image-mean 0.498 --image-std 0.502 --name lite0"
    typed(f"convert {net} --samples {photos} {ways} --serve web --no-bench --out out", tmp_path)
    few = sorted(photos.iterdir())[:5]
    with (
        shown(tmp_path / "out", tmp_path / "profile", "?selftest") as (served, chromium, page),
        modelyard.load(tmp_path / "out") as model,
    ):
        page.wait("document.body.dataset.selftest")
        assert page.evaluate("document.body.dataset.selftest") == "passed"
        for photo in few:
            found, wanted = asked(page, photo)["classes"], model(photo).told["classes"]
            assert [one["label"] for one in found] == [one["label"] for one in wanted]
            for one, other in zip(found, wanted, strict=True):
                assert abs(one["score"] - other["score"]) < 0.05  # of logits: two JPEG decoders
        for width in WIDTHS:
            require_fits(page, width)
        require_quiet(chromium, served)
        assert page.evaluate("self.crossOriginIsolated") is True
        served.running.stop()
        page.call("Page.reload")
        page.wait("document.body?.dataset.state === 'ready' && !window.last")
        page.evaluate(LAST)
        assert asked(page, few[0])["classes"][0]["label"] == model(few[0]).label


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("target", ["onnx", "tflite"])
def test_boxes_are_the_source_s(target: str, tmp_path: Path) -> None:
    detector(tmp_path / "net.onnx")
    (tmp_path / "r.yaml").write_text(f"""
source: net.onnx
to: {target}
batch: 1
serve: web
bench: false
prepare: {{kind: picture, fill: 114}}
answer: {{kind: boxes, output: boxes, transposed: true, scores: scores, format: cxcywh,
         labels: [cat, dog], iou: 0.5}}
out: out
""")
    typed("run r.yaml", tmp_path)
    Image.new("RGB", (200, 100), (90, 60, 30)).save(tmp_path / "wide.png")
    (tmp_path / "bad.png").write_bytes(b"no picture")
    with (
        shown(tmp_path / "out", tmp_path / "profile") as (served, chromium, page),
        modelyard.load(tmp_path / "out") as net,
    ):
        wanted = net(tmp_path / "wide.png").boxes
        found = asked(page, tmp_path / "wide.png")["boxes"]
        assert len(found) == len(wanted) > 1
        for one, other in zip(found, wanted, strict=True):
            assert one["label"] == other["label"] and abs(one["score"] - other["score"]) < 1e-5
            np.testing.assert_allclose(one["box"], other["box"], atol=0.02)
        page.choose("#file", tmp_path / "bad.png")
        page.wait("!document.getElementById('trouble').hidden")
        assert "can't be read" in page.evaluate("document.getElementById('trouble').textContent")
        assert asked(page, tmp_path / "wide.png")["boxes"] == found
        for width in WIDTHS:
            require_fits(page, width, dark=True)
        require_quiet(chromium, served)


@needs_browser
@pytest.mark.slow
def test_speech_is_found_window_by_window(tmp_path: Path) -> None:
    typed("convert zoo:silero-vad-ifless --serve web --no-bench --out out", tmp_path)
    wave = spoken([(0.5, 1.7), (2.4, 3.4)], 4.0, 16_000)
    soundfile.write(tmp_path / "said.wav", wave, 16_000)
    with (
        shown(tmp_path / "out", tmp_path / "profile") as (served, chromium, page),
        modelyard.load(tmp_path / "out") as net,
    ):
        found, wanted = asked(page, tmp_path / "said.wav"), net(tmp_path / "said.wav").told
        assert len(found["segments"]) == len(wanted["segments"]) == 2
        for one, other in zip(found["segments"], wanted["segments"], strict=True):
            np.testing.assert_allclose([*one.values()], [*other.values()], atol=1e-3)
        values = np.array(found["speech"]["values"])
        np.testing.assert_allclose(values, wanted["speech"]["values"], atol=1e-3)
        require_quiet(chromium, served)


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("target", ["onnx", "tflite"])
def test_lower_precisions(target: str, tmp_path: Path) -> None:
    """Each passes the self-test in the page."""
    line = f"convert zoo:ccexam-mnist --to {target} --batch 1 --precision fp16,int8 --serve web"
    typed(f"{line} --no-bench --out out", tmp_path)
    for facts in sorted((tmp_path / "out/serving/web").rglob("web.json")):
        precision = json.loads(facts.read_text())["precision"]
        query = f"?selftest&threads={1 if precision == 'fp16' else 2}"
        with shown(facts.parent, tmp_path / precision, query) as (served, chromium, page):
            page.wait("document.body.dataset.selftest")
            assert page.evaluate("document.body.dataset.selftest") == "passed"
            used = page.evaluate("document.getElementById('how').textContent")
            assert used.endswith("1 thread" if precision == "fp16" else "2 threads")
            require_quiet(chromium, served)


@needs_browser
@pytest.mark.slow
def test_a_wrong_model_misses_the_selftest(tmp_path: Path) -> None:
    folder = converted_cnn(tmp_path, "--serve web --out out")
    package = next((folder / "out/serving/web").iterdir())
    expected = sorted((package / "expected").glob("*.npy"))[0]
    np.save(expected, -np.load(expected))
    with shown(package, tmp_path / "profile", "?selftest") as (_, _, page):
        page.wait("document.body.dataset.selftest")
        assert page.evaluate("document.body.dataset.selftest") == "missed"
        assert "MISSED" in page.evaluate("document.getElementById('rows').textContent")


# -- without a browser ---------------------------------------------------------------------


def test_a_package_of_one_run_is_that_of_another(tmp_path: Path) -> None:
    """To the byte; its own files are those of the page, and its self-test runs without it."""
    folders = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        converted_cnn(folder, "--serve web --out out")
        folders.append(next((folder / "out/serving/web").iterdir()))
    one, two = ({str(f.relative_to(p)): f.read_bytes() for f in p.rglob("*") if f.is_file()}
                for p in folders)  # fmt: skip
    assert one == two
    shell = json.loads(re.search(r"SHELL = (\[.*?\])", one["sw.js"].decode(), re.DOTALL)[1])  # type: ignore[index]
    assert all(name == "./" or name in one for name in shell)
    assert {*RUNTIMES["onnx"].packages[0].files.values()} <= {
        name.removeprefix("runtime/") for name in one
    }
    text = "".join(one[name].decode() for name in shell if name.endswith((".js", ".html")))
    assert not re.findall(r"https?://(?!www\.w3\.org)", text)
    done = subprocess.run([sys.executable, folders[0] / "selftest.py"], check=False)
    assert done.returncode == 0


def test_the_server_shows_the_folder_and_nothing_else(tmp_path: Path) -> None:
    from emitters.serving.web.server import PAGE

    shutil.copy(PAGE / "serve.py", tmp_path / "serve.py")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/a.wasm").write_bytes(b"\0asm")
    line = [sys.executable, tmp_path / "serve.py", "--port", "0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd="/") as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        with urllib.request.urlopen(f"{url}inner/a.wasm") as answer:
            assert answer.headers["Content-Type"] == "application/wasm"
            assert answer.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
        for path in ("inner/", "../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "none"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{url}{path}")
        server.terminate()


SAID = {
    "prepare: {kind: sound, rate: 4000}": "browsers decode to 8000 to 96000",
    "prepare: {kind: row, inputs: [{name: x, columns: [a, b, c, d], dtype: float32}]}": "tables",
    "answer: {kind: step, step: own.py:told}": "no function in Python",
}


@pytest.mark.parametrize("declared", SAID)
def test_what_a_page_can_t_do_is_refused_by_name(declared: str, tmp_path: Path) -> None:
    written(tmp_path / "m.onnx", "g (float[batch, 4] x) => (float[batch, 4] y) { y = Tanh(x) }")
    (tmp_path / "own.py").write_text("def told(outputs, seen):\n    return {}\n")
    (tmp_path / "r.yaml").write_text(f"source: m.onnx\nserve: web\nout: out\n{declared}\n")
    said = command("run", tmp_path / "r.yaml", "--trust-recipe", cwd=tmp_path)
    assert said.code == 3 and SAID[declared] in said.err, said.err
    assert not (tmp_path / "out").exists()


def test_types_that_a_runtime_lacks_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "m.onnx", "g (int64[2, 4] x) => (int64[2, 4] y) { y = Neg(x) }")
    refused(
        3, "takes float32, int32, uint8", tmp_path, "m.onnx", "--to", "tflite", "--serve", "web"
    )
    small_cnn(tmp_path / "cnn.onnx")
    two = ("cnn.onnx", "--batch", "2", "--image-mean", "0.5", "--samples", "photos")
    (tmp_path / "photos").mkdir()
    for name in ("a.png", "b.png"):
        Image.new("RGB", (24, 24)).save(tmp_path / "photos" / name)
    refused(3, "one picture", tmp_path, *two, "--serve", "web")
    refused(3, "can't have free sizes", tmp_path, "cnn.onnx", "--to", "tflite", "--serve", "web")


def test_without_npm_it_is_said_before_anything_is_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_cnn(tmp_path / "cnn.onnx")
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path / "cache"))
    offline = refused(5, "nothing may be fetched", tmp_path, "cnn.onnx", "--serve", "web",
                      "--offline")  # fmt: skip
    assert "onnxruntime-web 1.30.0" in offline.err
    monkeypatch.setenv("PATH", str(tmp_path))
    refused(5, "needs npm", tmp_path, "cnn.onnx", "--serve", "web")
