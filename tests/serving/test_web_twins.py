"""What the page of ``--serve web`` does with files and outputs, beside Modelyard's own stages: the
same declarations, in Chromium and in Python."""

import json
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from PIL import Image

from converter.ir.model import TensorSpec
from converter.preparation.declared import Declaration
from converter.preparation.staged.base import Item, Seen
from converter.preparation.stages import Stages
from emitters.packaging.stages import stages_facts
from emitters.serving.web.server import PAGE
from tests.browser import Browser, Page, browser, needs_browser

pytestmark = needs_browser

PREPARE = """(async () => {
    const { prepare } = await import("./prepare.js");
    const { name, type, stages } = %s;
    const blob = await (await fetch(name)).blob();
    try {
        const { feeds, seen } = await prepare(stages, new File([blob], name, { type }));
        const told = Object.entries(feeds).map(([name, { dtype, shape, data }]) =>
            [name, { dtype, shape, data: Array.from(data, Number) }]);
        const { size, scale, offset, seconds } = seen;
        return { feeds: Object.fromEntries(told), seen: { size, scale, offset, seconds } };
    } catch (error) { return { refused: error.message, kind: error.constructor.name }; }
})()"""

ANSWER = """(async () => {
    const { answer } = await import("./answers.js");
    const { stages, outputs, seen } = %s;
    for (const tensors of [outputs, seen.feeds]) for (const one of Object.values(tensors)) {
        one.data = Float32Array.from(one.data);
    }
    const found = answer(stages, outputs, seen);
    if (found.masks) found.masks.pixels_of = Array.from(found.masks.pixels);
    return found;
})()"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's files, pictures and sounds."""
    folder = tmp_path_factory.mktemp("page")
    for file in PAGE.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    rng = np.random.default_rng(3)
    coarse = rng.integers(0, 256, (9, 12, 3), np.uint8)
    pixels = np.asarray(Image.fromarray(coarse).resize((83, 61), Image.Resampling.BICUBIC))
    pixels = (pixels * 0.9 + rng.integers(0, 25, pixels.shape)).astype(np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    Image.fromarray(pixels[..., 0]).save(folder / "gray.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(pixels).save(folder / "turned.jpg", quality=95, exif=turned)
    Image.fromarray(np.dstack([pixels, pixels[..., :1]])).save(folder / "clear.png")
    Image.fromarray(pixels[..., 0].astype(np.uint16) * 257).save(folder / "deep.png")
    Image.fromarray(pixels).convert("CMYK").save(folder / "ink.jpg")
    (folder / "cut.png").write_bytes((folder / "a.png").read_bytes()[:500])
    time = np.arange(24_000) / 16_000
    wave = np.sin(2 * np.pi * (300 + 900 * time) * time) * np.hanning(len(time)) * 0.7
    soundfile.write(folder / "pcm.wav", wave, 16_000)
    soundfile.write(folder / "a.wav", wave, 16_000, "FLOAT")
    soundfile.write(folder / "two.wav", np.stack([wave, wave[::-1] / 2], axis=1), 16_000, "FLOAT")
    time = np.arange(66_150) / 44_100
    soundfile.write(folder / "fast.wav", np.sin(2 * np.pi * 800 * time) * 0.5, 44_100)
    return folder


@pytest.fixture(scope="module")
def opened(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with (
        subprocess.Popen(
            [sys.executable, folder / "serve.py", "--port", "0"], stdout=subprocess.PIPE, text=True
        ) as server,
        browser(tmp_path_factory.mktemp("profile")) as chromium,
    ):
        assert server.stdout is not None
        page = opened_page(chromium, server.stdout.readline().strip())
        yield page
        server.terminate()


def opened_page(chromium: Browser, url: str) -> Page:
    """A page of the folder's origin that runs nothing."""
    page = chromium.page(f"{url}style.css")
    page.wait("document.readyState === 'complete'")
    return page


def facts_of(
    prepare: Any = (), answer: Any = (), stored: tuple[TensorSpec, ...] = ()
) -> dict[str, Any]:
    """``stages.json`` of a declaration."""
    return stages_facts(Declaration(prepare=prepare, answer=answer), stored, ())


def both(
    page: Page, folder: Path, name: str, facts: dict[str, Any]
) -> tuple[Any, dict[str, Any], Seen]:
    """What the page prepares of a file, and what stages do."""
    kind, said = ("sound", "audio/wav") if name.endswith("wav") else ("picture", "image/png")
    asked = json.dumps({"name": name, "type": said, "stages": facts})
    feeds, seen = Stages(facts).prepare(Item(kind, (folder / name).read_bytes(), name))
    return page.evaluate(PREPARE % asked), feeds, seen


PICTURES = {
    "as it is": {"layout": "CHW", "color": "rgb"},
    "straight": {"layout": "CHW", "color": "rgb", "height": 24, "width": 32},
    "cut": {"layout": "HWC", "color": "bgr", "height": 32, "width": 28, "resize": 40,
            "interpolation": "bicubic", "scale": 1 / 255, "mean": [0.5, 0.4, 0.3],
            "std": [0.2, 0.25, 0.3]},
    "grey": {"layout": "CHW", "color": "gray", "height": 40, "width": 40, "scale": 0.01,
             "interpolation": "lanczos"},
    "letterboxed": {"layout": "CHW", "color": "rgb", "height": 64, "width": 50, "fill": 114},
    "longest": {"layout": "HWC", "color": "rgb", "longest": 60, "multiple": 16},
    "nearest": {"layout": "HWC", "color": "rgb", "resize": [30, 120], "height": 30, "width": 120,
                "interpolation": "nearest"},
    "down first": {"layout": "HWC", "color": "rgb", "height": 20, "width": 100},
}  # fmt: skip


@pytest.mark.parametrize("way", PICTURES)
def test_pictures(way: str, opened: Page, folder: Path) -> None:
    known = {"kind": "picture", "input": "x", "mean": 0, "std": 1, **PICTURES[way]}
    facts = facts_of([known])
    for name in ("a.png", "gray.png"):
        found, feeds, seen = both(opened, folder, name, facts)
        assert found["feeds"]["x"]["shape"] == list(feeds["x"].shape)
        np.testing.assert_array_equal(np.float32(found["feeds"]["x"]["data"]), feeds["x"].ravel())
        assert found["seen"]["size"] == list(seen.size)
        assert found["seen"]["scale"] == list(seen.scale)
        assert found["seen"]["offset"] == list(seen.offset)


def test_a_phone_s_photo_is_turned(opened: Page, folder: Path) -> None:
    known = {"kind": "picture", "input": "x", "layout": "HWC", "color": "rgb", "mean": 0, "std": 1}
    found, feeds, _ = both(opened, folder, "turned.jpg", facts_of([known]))
    assert found["feeds"]["x"]["shape"] == [1, 83, 61, 3]
    away = np.abs(np.array(found["feeds"]["x"]["data"]) - feeds["x"].ravel())
    assert away.max() <= 2 and away.mean() < 0.5  # two decoders of JPEG


def test_integers_are_stored_as_the_artifact_has_them(opened: Page, folder: Path) -> None:
    known = {"kind": "picture", "input": "x", "layout": "HWC", "color": "rgb", "height": 16,
             "width": 16, "scale": 1 / 255, "mean": 0.5, "std": 0.25}  # fmt: skip
    for dtype, zero in (("int8", 3), ("uint8", 128)):
        spec = TensorSpec("x", dtype, (1, 16, 16, 3), scale=0.0151, zero_point=zero)
        found, feeds, _ = both(opened, folder, "a.png", facts_of([known], (), (spec,)))
        assert found["feeds"]["x"]["dtype"] == dtype == feeds["x"].dtype
        assert found["feeds"]["x"]["data"] == feeds["x"].ravel().tolist()


@pytest.mark.parametrize(
    ("name", "says"),
    [("clear.png", "transparent"), ("deep.png", "8 bits"), ("ink.jpg", "CMYK"),
     ("cut.png", "can't be read"), ("a.wav", "can't be read")],
)  # fmt: skip
def test_what_stages_refuse_the_page_does(name: str, says: str, opened: Page, folder: Path) -> None:
    known = {"kind": "picture", "input": "x", "layout": "HWC", "color": "rgb", "mean": 0, "std": 1}
    asked = {"name": name, "type": "image/png", "stages": facts_of([known])}
    found = opened.evaluate(PREPARE % json.dumps(asked))
    assert found["kind"] == "Refused" and says in found["refused"], found


SPECTRUM = {
    "size": 400,
    "hop": 160,
    "mels": 20,
    "log": "log10",
    "span": 8.0,
    "shift": 4,
    "gain": 0.25,
}
SOUNDS = {
    "whole": {},
    "windows": {"length": 4000, "hop": 3000, "before": 500, "after": 500, "channel": "first"},
    "one window": {"length": 30_000, "mask": "m", "normalize": True},
    "mels": {"length": 8000, "hop": 8000, "spectrum": {**SPECTRUM, "drop_last": True}},
    "bins": {"length": 8000, "spectrum": {"size": 256, "hop": 100, "window": "hamming",
             "center": False, "power": 1.0, "log": "db", "frames_first": True}},
    "htk": {"spectrum": {**SPECTRUM, "scale": "htk", "norm": False, "low": 50, "high": 7000}},
}  # fmt: skip


@pytest.mark.parametrize("way", SOUNDS)
def test_sounds(way: str, opened: Page, folder: Path) -> None:
    facts = facts_of([{"kind": "sound", "input": "x", "rate": 16_000, **SOUNDS[way]}])
    for name in ("a.wav", "two.wav"):
        found, feeds, seen = both(opened, folder, name, facts)
        assert abs(found["seen"]["seconds"] - seen.seconds) < 1e-3
        assert found["feeds"].keys() == feeds.keys()
        for key, array in feeds.items():
            assert found["feeds"][key]["shape"] == list(array.shape)
            given = np.float64(found["feeds"][key]["data"])
            np.testing.assert_allclose(given, array.ravel(), rtol=1e-5, atol=1e-6)


def test_integers_of_a_sound_are_a_step_off_at_most(opened: Page, folder: Path) -> None:
    """Chromium divides those above 0 by 32,767, and libsndfile all by 32,768."""
    facts = facts_of([{"kind": "sound", "input": "x", "rate": 16_000}])
    found, feeds, _ = both(opened, folder, "pcm.wav", facts)
    np.testing.assert_allclose(found["feeds"]["x"]["data"], feeds["x"].ravel(), atol=1 / 32_768)


def test_a_sound_of_another_rate(opened: Page, folder: Path) -> None:
    facts = facts_of([{"kind": "sound", "input": "x", "rate": 16_000}])
    found, feeds, _ = both(opened, folder, "fast.wav", facts)
    count = min(feeds["x"].size, len(found["feeds"]["x"]["data"])) - 200
    assert abs(feeds["x"].size - len(found["feeds"]["x"]["data"])) < 3
    away = np.array(found["feeds"]["x"]["data"][200:count]) - feeds["x"].ravel()[200:count]
    assert np.abs(away).max() < 2e-3  # of 0.5: two resamplers


RNG = np.random.default_rng(5)
LABELS = ["ant", "bee", "cat", "dog", "eel", "fox"]
ROWS = RNG.uniform(5, 60, (1, 40, 4)).astype(np.float32)
SCORES = RNG.uniform(-3, 3, (1, 40, 5)).astype(np.float32)
MAP = np.zeros((1, 1, 30, 40), np.float32)
MAP[..., 3:9, 4:20], MAP[..., 5:9, 25:37], MAP[..., 15:25, 10:14] = 0.9, 0.8, 0.7
ALONG = np.clip(np.convolve(RNG.uniform(0, 1, 400), np.ones(15) / 8, "same"), 0, 1)
ALONG = (ALONG > 1).astype(np.float32) * 0.9
ALONG[60:130] = ALONG[200:320] = 0.95
ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "softmax": ({"kind": "classes", "output": "y", "labels": LABELS, "activation": "softmax"},
                {"y": RNG.normal(0, 3, (1, 6))}),
    "rows": ({"kind": "classes", "output": "y", "activation": "sigmoid", "top": 2},
             {"y": RNG.normal(0, 3, (3, 6))}),
    "boxes": ({"kind": "boxes", "output": "y", "scores": "s", "activation": "sigmoid", "iou": 0.3,
               "format": "cxcywh", "labels": LABELS, "threshold": 0.4}, {"y": ROWS, "s": SCORES}),
    "boxes behind": ({"kind": "boxes", "output": "y", "transposed": True, "objectness": True,
                      "activation": "sigmoid", "format": "xywh", "iou": 0.5, "most": 7},
                     {"y": np.concatenate([ROWS, SCORES], -1).swapaxes(1, 2)}),
    "relative boxes": ({"kind": "boxes", "output": "y", "scores": "s", "activation": "softmax",
                        "background": True, "format": "yxyx", "relative": True},
                       {"y": ROWS / 64, "s": SCORES}),
    "boxes with classes": ({"kind": "boxes", "output": "y", "scores": "s", "classes": "c"},
                           {"y": ROWS, "s": SCORES[..., :1], "c": np.arange(40) % 6}),
    "regions": ({"kind": "regions", "output": "y"}, {"y": MAP}),
    "numbers": ({"kind": "numbers", "output": "y", "names": ["a", "b"], "unit": "m"},
                {"y": RNG.normal(0, 1, (1, 2))}),
    "vector": ({"kind": "embedding", "output": "y", "pool": "mean", "normalize": True},
               {"y": RNG.normal(0, 1, (1, 4, 3))}),
    "text": ({"kind": "text", "output": "y", "letters": ["", *"abc"], "activation": "softmax"},
             {"y": np.repeat(RNG.normal(0, 3, (1, 20, 4)), 2, axis=1)}),
    "path": ({"kind": "text", "output": "y", "letters": ["", "a", "b"], "scores": "s"},
             {"y": np.array([[1, -1, 2, 2]]), "s": np.array([[0.9, 0.8, 0.7, 0.6]])}),
    "series": ({"kind": "series", "output": "y", "rate": 20, "trim": 2, "names": ["a", "b"]},
               {"y": RNG.uniform(0, 1, (3, 24, 2))}),
    "one value a window": ({"kind": "series", "output": "y", "rate": 10, "name": "speech"},
                           {"y": RNG.uniform(0, 1, (40, 1))}),
    "segments": ({"kind": "segments", "output": "y", "rate": 100}, {"y": ALONG[:, None]}),
    "long segments": ({"kind": "segments", "output": "y", "rate": 100, "longest": 0.5},
                      {"y": ALONG[:, None]}),
    "masks": ({"kind": "masks", "output": "y", "labels": LABELS},
              {"y": RNG.normal(0, 1, (1, 4, 8, 10))}),
    "masks, channels last": ({"kind": "masks", "output": "y", "channels_last": True},
                             {"y": RNG.normal(0, 1, (1, 8, 10, 4))}),
    "keypoints": ({"kind": "keypoints", "output": "y", "relative": True, "order": "yx",
                   "names": ["ear"], "threshold": 0.3}, {"y": RNG.uniform(0, 1, (1, 9, 3))}),
    "nothing": ({}, {"y": RNG.normal(0, 1, (1, 2, 3))}),
}  # fmt: skip


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers(kind: str, opened: Page) -> None:
    known, given = ANSWERS[kind]
    facts = facts_of((), [known] if known else ())
    outputs = {
        name: np.asarray(array, np.int64 if array.dtype == np.int64 else np.float32)
        for name, array in given.items()
    }
    feeds = {"x": np.zeros((1, 3, 64, 48), np.float32)}
    seen = Seen((120, 90), (0.4, 0.5), (0, 9), 0.0 if kind.startswith("masks") else 4.0, feeds)
    wanted = json.loads(json.dumps(Stages(facts).answer(outputs, seen)))

    def plain(arrays: dict[str, Any]) -> dict[str, Any]:
        return {n: {"dtype": "float32", "shape": list(a.shape), "data": a.ravel().tolist()}
                for n, a in arrays.items()}  # fmt: skip

    there = {"size": seen.size, "scale": seen.scale, "offset": seen.offset,
             "seconds": seen.seconds, "feeds": plain(feeds)}  # fmt: skip
    asked = {"stages": facts, "outputs": plain(outputs), "seen": there}
    found = opened.evaluate(ANSWER % json.dumps(asked))
    if "masks" in wanted:
        file = BytesIO(b64decode(wanted["masks"].pop("png")))
        pixels = np.asarray(Image.open(file))
        assert found["masks"].pop("pixels_of") == pixels.ravel().tolist()
    if "boxes" in wanted and kind != "regions":
        assert len(wanted["boxes"]) > 2
    assert alike(found, wanted), (found, wanted)


def alike(a: Any, b: Any) -> bool:
    """Whether two values of JSON are the same, but for the last places of numbers."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= 1e-5 + 1e-5 * abs(b) or (abs(a - b) < 0.0101 and abs(b) > 1)
    return bool(a == b)
