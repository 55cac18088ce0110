"""``--ort-extensions``: an ONNX file that takes files of pictures and sounds."""

from __future__ import annotations

import json
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import soundfile
from PIL import Image
from sklearn.datasets import load_sample_image

import modelyard
from converter.preparation.inputs import Spectrum
from converter.preparation.staged.sounds import spectra
from tests.acceptance.cli import small_cnn, typed, written
from tests.acceptance.test_prepare_graph import expected
from tests.acceptance.test_prepare_sound_graph import NET

RECIPE = """
source: cnn.onnx
bench: false
samples: photos
ort_extensions: true
probes: false
prepare:
- graph
- {kind: picture, color: bgr, resize: 20, mean: [0.5, 0.4, 0.3], std: [0.2, 0.25, 0.3]}
answer: {kind: classes, activation: softmax, top: 3, labels: [a, b, c, d, e, f, g, h, i, j]}
out: out
"""

Array = np.ndarray[Any, Any]


def session_on(file: Path) -> onnxruntime.InferenceSession:
    """As its report says."""
    import onnxruntime_extensions

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def run(session: onnxruntime.InferenceSession, file: Path) -> list[Array]:
    """What it gives for a file."""
    name = session.get_inputs()[0].name
    found: list[Array] = session.run(None, {name: np.fromfile(file, np.uint8)[np.newaxis]})
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that takes files of photos."""
    folder = tmp_path_factory.mktemp("extensions")
    small_cnn(folder / "cnn.onnx")
    (folder / "photos").mkdir()
    photos = (load_sample_image(f"{name}.jpg") for name in ("china", "flower"))
    china, flower = (Image.fromarray(photo[150:280, 200:360]) for photo in photos)
    china.save(folder / "photos/china.jpg", quality=90, subsampling=0)
    china.convert("L").save(folder / "photos/grey.jpg")
    flower.convert("P", palette=Image.Palette.ADAPTIVE).save(folder / "photos/flower.png")
    flower.save(folder / "photos/flower.jpg", quality=95)
    (folder / "r.yaml").write_text(RECIPE)
    said = typed("run r.yaml", folder)
    assert "onnxruntime-extensions" in said.out + said.err
    return folder


def expected_of(folder: Path, file: Path) -> Array:
    """Probabilities by Pillow, numpy and ONNX Runtime on the source."""
    Image.open(file).convert("RGB").save(folder / "upright.png")
    return expected(folder, folder / "upright.png")


def test_a_file_goes_in_and_labels_come_out(made: Path) -> None:
    session = session_on(made / "out/onnx/fp32/model.onnx")
    [taken] = session.get_inputs()
    assert (taken.name, taken.type, taken.shape) == ("image_file", "tensor(uint8)", [1, "bytes"])
    files = sorted((made / "photos").iterdir())
    with modelyard.load(made / "out", "onnx:fp32") as net:
        for file, answer in zip(files, net(files), strict=True):
            right, subsampled = expected_of(made, file), file.name == "flower.jpg"
            scores = run(session, file)[0][0]
            np.testing.assert_allclose(scores, right, atol=1e-3 if subsampled else 1e-4)
            np.testing.assert_array_equal(answer["scores"][0], scores)
            assert answer.label == "abcdefghij"[right.argmax()]


def test_it_is_checked_from_the_file_and_told(made: Path) -> None:
    report = json.loads((made / "out/report.json").read_text())
    assert report["verdict"] == "passed"
    for artifact in report["artifacts"]:
        [taken] = artifact["inputs"]
        assert (taken["name"], taken["type"]) == ("image_file", "uint8[1, bytes]")
        assert artifact["outputs"][0]["type"] == "float32[1, 10]"
    told = (made / "out/report.html").read_text()
    for words in ("register_custom_ops_library", "ends the process", "picture: decode", "EXIF"):
        assert words in told
    [picture] = json.loads((made / "out/manifest.json").read_text())["declared"]["prepare"]
    assert picture["input"] == "image_file" and picture["fused"][0] == "decode"
    file = "out/onnx/fp32/model.onnx"
    said = typed(f"check {file} --against cnn.onnx --samples photos --no-probes", made)
    assert "4 images of photos" in said.out
    small_cnn(made / "other.onnx", channels=4)
    typed(f"check {file} --against other.onnx --samples photos --no-probes", made, 4)


def encoded(image: Image.Image, form: str, **how: Any) -> bytes:
    kept = BytesIO()
    image.save(kept, form, **how)
    return kept.getvalue()


WAYS: list[tuple[str, dict[str, Any], float, float, float]] = [
    ("PNG", {}, 0, 0, 0),
    ("JPEG", {"quality": 90, "subsampling": 0}, 1, 1, 0.001),
    ("JPEG", {"quality": 90, "subsampling": 2}, 64, 16, 1),
    ("JPEG", {"quality": 90, "subsampling": 1, "progressive": True}, 64, 16, 1),
]
"""What files are, and how far off Pillow pixels are at most, at the 99.9th percentile, in the
mean: DecodeImage takes the nearest colour of those that are stored for several pixels."""


@pytest.fixture(scope="module")
def pixels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that gives the pixels that it is given."""
    folder = tmp_path_factory.mktemp("pixels")
    text = "g (float[batch, 3, h, w] x) => (float[batch, 3, h, w] y) { y = Identity(x) }"
    written(folder / "m.onnx", text)
    typed(
        "convert m.onnx --prepare graph --ort-extensions --image-scale 1 --no-bench --out out",
        folder,
    )
    return folder / "out/onnx/fp32/model.onnx"


@pytest.mark.parametrize(("form", "how", "most", "high", "mean"), WAYS)
def test_pixels_are_pillow_s(
    pixels: Path, tmp_path: Path, form: str, how: dict[str, Any], most: float, high: float,
    mean: float,
) -> None:  # fmt: skip
    session, file = session_on(pixels), tmp_path / "photo"
    for name in ("china", "flower"):
        file.write_bytes(encoded(Image.fromarray(load_sample_image(f"{name}.jpg")), form, **how))
        right = np.asarray(Image.open(file), np.float32).transpose(2, 0, 1)
        apart = np.abs(run(session, file)[0][0] - right)
        assert apart.max() <= most and apart.mean() <= mean
        assert np.quantile(apart, 0.999) <= high


def test_what_is_no_picture_is_an_error_and_no_end(pixels: Path, tmp_path: Path) -> None:
    photo = Image.fromarray(load_sample_image("china.jpg"))
    session, file = session_on(pixels), tmp_path / "file"
    bad = {"is_no_JPEG_or_PNG": b"hello, hello", "Expand": encoded(photo.convert("CMYK"), "JPEG")}
    for words, data in {**bad, "Equal": b""}.items():
        file.write_bytes(data)
        with pytest.raises(Exception, match=words):
            run(session, file)
    file.write_bytes(encoded(photo, "JPEG")[:7000])
    assert run(session, file)[0].shape == (1, 3, 427, 640)


def test_a_damaged_head_ends_the_process_and_load_refuses_it(pixels: Path, tmp_path: Path) -> None:
    """Why no server is made: where this fails, onnxruntime-extensions has become better."""
    data = encoded(Image.fromarray(load_sample_image("china.jpg")), "JPEG")[:200]
    (tmp_path / "head.jpg").write_bytes(data)
    code = (
        "import sys, numpy, onnxruntime, onnxruntime_extensions as more; "
        "options = onnxruntime.SessionOptions(); "
        "options.register_custom_ops_library(more.get_library_path()); "
        "session = onnxruntime.InferenceSession(sys.argv[1], options); "
        "session.run(None, {'x_file': numpy.fromfile(sys.argv[2], 'u1')[None]})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, pixels, tmp_path / "head.jpg"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "Improper call to JPEG library" in done.stderr
    assert "Traceback" not in done.stderr
    exif = Image.Exif()
    exif[0x0112] = 6
    small = Image.new("RGB", (9, 9))
    with modelyard.load(pixels.parents[2]) as net:
        for refused, words in (
            (data, "Truncated"),
            (encoded(small, "BMP"), "is BMP"),
            (encoded(small, "JPEG", exif=exif), "rotated"),
        ):
            with pytest.raises(modelyard.UsageError, match=words):
                net(refused)


REFUSED = [
    ("--to onnx,tflite", "tflite has no operators that decode files"),
    (
        "--serve triton",
        "no server here loads the decoder, because a damaged JPEG would end its process",
    ),
    ("--bench --bench-batch 1,2", "a run takes one file, and --bench-batch asks for more"),
]


@pytest.mark.parametrize(("options", "why"), REFUSED)
def test_what_cannot_be_decoded_is_refused(made: Path, options: str, why: str) -> None:
    asked = f"--prepare graph --ort-extensions --image-size 16x16 --samples photos {options}"
    said = typed(f"convert cnn.onnx {asked} --out refused", made, 2)
    assert f"--ort-extensions: {why}" in " ".join(said.err.split())


def test_grey_pictures_and_windows_of_a_sound_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "m.onnx", "g (float[b, 1, h, w] x) => (float[b, 1, h, w] y) { y = Neg(x) }")
    written(tmp_path / "s.onnx", "g (float[b, 5, 3] x) => (float[b, 5, 3] y) { y = Neg(x) }")
    spectrum = "spectrum: {size: 8, hop: 4}"
    for file, known, why in (
        ("m", "{kind: picture, mean: 0, std: 1}", "the model takes gray"),
        ("s", f"{{kind: sound, rate: 8000, length: 8, hop: 8, {spectrum}}}", "is one window"),
    ):
        text = f"source: {file}.onnx\nort_extensions: true\nprepare: [graph, {known}]\nout: out\n"
        (tmp_path / "r.yaml").write_text(text)
        said = typed("run r.yaml", tmp_path, 2)
        assert why in " ".join(said.err.split())


SPECTRUM = {"size": 512, "hop": 160, "mels": 40, "log": "log10", "drop_last": True}
HEARD = [("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "FLOAT"), ("FLAC", "PCM_16")]


def test_a_sound_s_file_goes_in(tmp_path: Path) -> None:
    """As libsndfile reads it, longer and shorter than the model's window, of one channel and two;
    what AudioDecoder reads otherwise is refused before."""
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal((40 * 100, 3)) / 40).astype(np.float32)
    written(tmp_path / "net.onnx", NET, w=weights, b=np.zeros(3, np.float32))
    (tmp_path / "sounds").mkdir()
    for number, (form, kind) in enumerate(HEARD):
        wave = rng.standard_normal((12000 + 3000 * number, 1 + number % 2)) * 0.1
        file = tmp_path / f"sounds/{number}.{form.lower()}"
        soundfile.write(file, wave, 16000, format=form, subtype=kind)
    sound = f"{{kind: sound, rate: 16000, length: 16000, spectrum: {json.dumps(SPECTRUM)}}}"
    text = f"source: net.onnx\nsamples: sounds\nort_extensions: true\nprepare: [graph, {sound}]\n"
    (tmp_path / "r.yaml").write_text(f"{text}bench: false\nprobes: false\nout: out\n")
    said = typed("run r.yaml", tmp_path)
    assert "AudioDecoder reads WAV" in " ".join(said.out.split())
    session = session_on(tmp_path / "out/onnx/fp32/model.onnx")
    source = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    with modelyard.load(tmp_path / "out") as net:
        for file in sorted((tmp_path / "sounds").iterdir()):
            wave = soundfile.read(file, dtype="float32", always_2d=True)[0].mean(1)[:16000]
            window = np.pad(wave, (0, 16000 - len(wave)))[np.newaxis]
            known = Spectrum.model_validate(SPECTRUM).model_dump()
            bands = spectra(known, window, 16000).astype(np.float32)
            [right] = source.run(None, {"x": bands})
            np.testing.assert_allclose(run(session, file)[0], right, atol=1e-3)
            np.testing.assert_array_equal(net(file)["y"], run(session, file)[0])
        for rate, kind, words in ((8000, "PCM_16", "8000 samples"), (48000, "PCM_16", "48000"),
                                  (16000, "PCM_U8", "WAV PCM_U8")):  # fmt: skip
            kept = BytesIO()
            soundfile.write(kept, wave, rate, format="WAV", subtype=kind)
            with pytest.raises(modelyard.UsageError, match=words):
                net(kept.getvalue())
        with pytest.raises(modelyard.UsageError, match="can't be read"):
            net(b"hello, hello")


def test_without_the_package_it_says_what_installs_it(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime_extensions", None)
    asked = "convert cnn.onnx --prepare graph --ort-extensions --image-size 16x16 --out none"
    assert "pip install 'modelyard[extensions]'" in typed(asked, made, 5).err
    with pytest.raises(modelyard.DependencyError, match="onnxruntime-extensions"):
        modelyard.load(made / "out", "onnx:fp32")


def test_the_file_keeps_to_official_operators_but_for_one(made: Path) -> None:
    model = onnx.load(made / "out/onnx/fp32/model.onnx")
    others = [node.op_type for node in model.graph.node if node.domain]
    assert others == ["DecodeImage"]
