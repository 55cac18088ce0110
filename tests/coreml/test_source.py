"""A Core ML file as a source: its Model, its reference, and whole conversions."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import modelyard
from converter import api
from converter.errors import UsageError
from converter.options.request import Request
from converter.runtime.ort import OrtSession
from modelyard.containers.coreml import coremltools
from parsers.coreml.parser import CoremlParser
from parsers.coreml.source import CoremlSource
from tests.acceptance.cli import typed
from tests.coreml.running import agrees, write
from tests.coreml.test_interface import stateful

RNG = np.random.default_rng(10)
X = RNG.standard_normal((2, 3)).astype(np.float32)
WEIGHT = RNG.standard_normal((16, 3)).astype(np.float32)

Open = Callable[..., CoremlSource]

not_on_a_mac = pytest.mark.skipif(sys.platform == "darwin", reason="there Core ML itself runs")


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Open]:
    """Opens files as sources, and closes them."""
    with ExitStack() as opened:

        def opening(path: Path, **options: Any) -> CoremlSource:
            request = Request(str(path), **options)
            return opened.enter_context(closing(CoremlParser().open(request, tmp_path, print)))

        yield opening


def _body(mb: Any, x: Any) -> Any:
    return mb.relu(x=mb.linear(x=x, weight=WEIGHT))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with weights and a free batch."""
    return write(tmp_path_factory.mktemp("package"), _body, {"x": X}, free={"x": [0]})


def test_what_a_result_depends_on(package: Path) -> None:
    identity = CoremlParser().identify(Request(str(package)))
    assert identity.name == "model" and identity.format == "coreml"
    assert set(identity.files) == {
        "model.mlpackage/Manifest.json",
        "model.mlpackage/Data/com.apple.CoreML/model.mlmodel",
        "model.mlpackage/Data/com.apple.CoreML/weights/weight.bin",
    }
    assert {"coremltools", "onnxruntime"} <= set(identity.versions)


def test_what_isnt_there_and_options_that_mean_nothing(package: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        CoremlParser().identify(Request(str(tmp_path / "none.mlmodel")))
    with pytest.raises(UsageError, match="--weights"):
        CoremlParser().identify(Request(str(package), weights="a.pt"))


@not_on_a_mac
def test_the_interface_that_was_asked_for(package: Path, source: Open) -> None:
    opened = source(package, inputs=["feature:batch,3"], outputs=["score"])
    model = opened.parse()
    assert [(spec.name, spec.shape) for spec in model.inputs] == [("feature", ("batch", 3))]
    assert [spec.name for spec in model.outputs] == ["score"]
    assert model.source["shapes"] == {"x": {"from": [[1, 3]], "to": [[64, 3]]}}
    (found,) = opened.reference().run({"feature": X}).values()
    agrees(found, np.maximum(X @ WEIGHT.T, 0))
    runtime = opened.reference().runtime
    assert runtime["name"] == "onnxruntime" and runtime["stands_for"] == "model.mlpackage"
    assert "The reading itself isn't checked" in runtime["not_run"]
    assert opened.warnings[0].startswith("THE REFERENCE ISN'T CORE ML: ")


@not_on_a_mac
def test_a_fixed_batch_can_be_freed(tmp_path: Path, source: Open) -> None:
    opened = source(write(tmp_path, _body, {"x": X[:1]}), batch="dynamic")
    assert opened.parse().inputs[0].shape == ("batch", 3)
    (found,) = opened.reference().run({"x": X}).values()
    agrees(found, np.maximum(X @ WEIGHT.T, 0))


@not_on_a_mac
@pytest.mark.slow
def test_a_whole_conversion(package: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    api.convert(str(package), out=str(out), to=["onnx", "tflite"], bench=False)
    report = json.loads((out / "report.json").read_text())
    said = [alert["text"] for alert in report["alerts"] if alert["loud"]]
    assert any(text.startswith("THE REFERENCE ISN'T CORE ML") for text in said)
    (found,) = OrtSession(next(out.rglob("*.onnx"))).run({"x": X}).values()
    agrees(found, np.maximum(X @ WEIGHT.T, 0))


@not_on_a_mac
def test_a_state(tmp_path: Path, source: Open) -> None:
    opened = source(stateful(tmp_path))
    model = opened.parse()
    meanings = {spec.name: spec.meaning for spec in (*model.inputs, *model.outputs)}
    assert meanings["total"] == meanings["total_out"] == "state"
    assert any(text.startswith("STATE IS EXPLICIT") for text in opened.warnings)
    ones = np.ones((2, 3), np.float16)
    agrees(opened.reference().run({"x": ones, "total": ones})["total_out"], 3 * ones)


# -- what a file says of itself ----------------------------------------------------------


TOLD = {
    "author": "A. Author", "license": "Apache-2.0", "version": "1.2",
    "short_description": "Tells animals apart", "user_defined_metadata": {"note": "a note"},
    "input_description": {"x": "a picture"},
}  # fmt: skip
"""All that an author can write."""


@not_on_a_mac
def test_a_classifier_of_images(tmp_path: Path, source: Open) -> None:
    bias, classes = [-0.1, -0.2, -0.3], ["cat", "dog", "owl"]
    image = {"color_layout": "BGR", "scale": 1 / 255, "bias": bias}
    pixels = RNG.integers(0, 256, (1, 3, 4, 5)).astype(np.float32)
    path = write(
        tmp_path, lambda mb, x: mb.softmax(x=mb.reduce_mean(x=x, axes=[2, 3]), name="scores"),
        {"x": pixels}, target=16, passes=True, told=TOLD,
        options=lambda ct: {
            "inputs": [ct.ImageType("x", pixels.shape, **image)],
            "classifier_config": ct.ClassifierConfig(classes),
        },
    )  # fmt: skip
    opened = source(path)
    model = opened.parse()
    (spec,), (scores,) = model.inputs, model.outputs
    assert (spec.meaning, spec.layout, spec.value_range) == ("image", "NCHW", (0.0, 255.0))
    assert (scores.meaning, scores.labels) == ("scores", tuple(classes))
    assert scores.shape == (1, 3)
    said = {"format": "coreml", "kind": "ML program", "images": {"x": "BGR"}}
    said |= {name: TOLD[name] for name in ("author", "license", "version")}
    said |= {"description": "Tells animals apart", "metadata": TOLD["user_defined_metadata"]}
    said["features"] = TOLD["input_description"]
    assert said == {name: model.source[name] for name in said}
    assert any(t.startswith("IMAGE: x is an image") and "BGR" in t for t in opened.warnings)
    (found,) = opened.reference().run({"x": pixels}).values()
    power = np.exp((pixels / 255 + np.array(bias).reshape(1, 3, 1, 1)).mean(axis=(2, 3)))
    agrees(found, (power / power.sum()).astype(np.float32))


@not_on_a_mac
def test_a_picture_is_prepared_as_the_file_says(tmp_path: Path) -> None:
    """Its pixels as they are, in its order of colours: the file's scaling is in the model."""
    pixels = np.zeros((1, 3, 4, 5), np.float32)
    path = write(
        tmp_path, lambda mb, x: mb.reduce_mean(x=x, axes=[2, 3], name="means"), {"x": pixels},
        target=16, passes=True,
        options=lambda ct: {
            "inputs": [ct.ImageType("x", pixels.shape, color_layout="BGR", scale=0.5,
                                    bias=[1, 2, 3])]
        },
    )  # fmt: skip
    Image.new("RGB", (10, 8), (200, 100, 50)).save(tmp_path / "a.png")
    assert "made from milinternal" in typed(f"inspect {path}", tmp_path).out
    modelyard.convert(path, samples=tmp_path / "a.png", bench=False, out=tmp_path / "out")
    with modelyard.load(tmp_path / "out") as net:
        (means,) = net(tmp_path / "a.png").values()
    np.testing.assert_allclose(means[0], [26, 52, 103], atol=1e-4)
    declared = json.loads((tmp_path / "out/manifest.json").read_text())["declared"]
    assert declared["prepare"][0]["color"] == "bgr"
    assert declared["notes"] == ["prepare (picture): from the file's image type"]


@not_on_a_mac
def test_several_functions(tmp_path: Path, source: Open) -> None:
    """Of iOS18 on: --signature chooses."""
    ct = coremltools()
    paths = {}
    for name, op in (("up", "exp"), ("down", "tanh")):
        (tmp_path / name).mkdir()
        paths[name] = write(
            tmp_path / name, lambda mb, x, op=op: getattr(mb, op)(x=x), {"x": X}, target=18
        )
    both = ct.utils.MultiFunctionDescriptor()
    for name, path in paths.items():
        both.add_function(str(path), src_function_name="main", target_function_name=name)
    both.default_function_name = "up"
    merged = tmp_path / "both.mlpackage"
    ct.utils.save_multifunction(both, str(merged))
    for wanted, expected in ((None, np.exp), ("up", np.exp), ("down", np.tanh)):
        opened = source(merged, signature=wanted)
        assert opened.parse().source["function"] == (wanted or "up")
        (found,) = opened.reference().run({"x": X}).values()
        agrees(found, expected(X))
    with pytest.raises(UsageError, match="no function sideways") as caught:
        source(merged, signature="sideways").parse()
    assert caught.value.details == ("down", "up")
