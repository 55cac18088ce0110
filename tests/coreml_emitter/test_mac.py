"""What a Mac does, with a stand-in for Core ML: it takes what Core ML takes, and computes what was
read back from the package. Core ML itself has not run these."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from converter import plugins
from converter.errors import ModelError, UsageError
from converter.runtime.ort import OrtSession
from emitters.coreml.declared import read_description
from emitters.coreml.mac import MacSession, picture, specs_of
from modelyard.containers.coreml import coremltools
from tests.coreml_emitter.running import agree, emitted, opened, run_package
from tests.coreml_emitter.test_file import net
from tests.coreml_emitter.test_images import IMAGENET, pictures
from tests.operators.cases import numbers, parsed


class StandIn:
    """``MLModel``: pictures for images, arrays of exactly the declared types for all else."""

    seen: Any = None

    def __init__(self, path: str, compute_units: Any) -> None:
        StandIn.seen = compute_units
        self._description = read_description(Path(path))
        model = plugins.load("parsers", "coreml").read(Path(path))
        self._specs = {spec.name: spec for spec in model.inputs}
        self._session = OrtSession(model.graph)

    def predict(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name; a name and a dictionary besides where it is a classifier."""
        feeds = {feature.name: self._array(feature, given) for feature in self._description.input}
        found: dict[str, Any] = dict(self._session.run(feeds))
        if self._description.predictedFeatureName:
            found[self._description.predictedFeatureName] = "ring"
        return found

    def _array(self, feature: Any, given: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        value = given[feature.name]
        if feature.type.WhichOneof("Type") == "imageType":
            image = feature.type.imageType
            assert isinstance(value, Image.Image)
            assert value.size == (image.width, image.height)
            assert value.mode == ("L" if image.colorSpace == image.GRAYSCALE else "RGB")
            pixels = np.asarray(value, np.float32)
            planes = pixels[np.newaxis] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
            planes = planes[::-1] if image.colorSpace == image.BGR else planes
            return np.ascontiguousarray(planes[np.newaxis])
        assert value.dtype.name == self._specs[feature.name].dtype
        return np.asarray(value)


@pytest.fixture(autouse=True)
def mac(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is called a Mac."""
    coremltools()
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(coremltools().models, "MLModel", StandIn)


def test_arrays(tmp_path: Path) -> None:
    """Types and shapes are the package's on the way in, the model's on the way out."""
    model = parsed("g (int64[batch, 3] x, bool[2] m) => (int64[batch, 3] y, bool[2] n) "
                   "{ y = Neg(x) n = Not(m) }")  # fmt: skip
    agree(model, {"x": np.arange(6).reshape(2, 3), "m": np.array([True, False])}, tmp_path)


def test_pictures(tmp_path: Path) -> None:
    """The pixels that a sample was made of, exactly; gray ones, too."""
    options = {**IMAGENET, "coreml_images": ["x"]}
    agree(net(), pictures(net(), **IMAGENET), tmp_path, atol=1e-4, **options)
    package = opened(tmp_path / "model.mlpackage")
    with package as session, pytest.raises(UsageError, match="isn't a picture"):
        session.run({"x": numbers(1, 3, 8, 8)})
    model = parsed("g (float[1, 1, 6, 6] x) => (float[1, 1, 6, 6] y) { y = Relu(x) }")
    agree(model, pictures(model), tmp_path, coreml_images=["x"])


def test_colours_by_their_names(tmp_path: Path) -> None:
    """A picture is RGB; Core ML gives a package that declares BGR its channels in that order."""
    options = {"image_color": "bgr"}
    agree(net(), pictures(net(), **options), tmp_path, coreml_images=["x"], **options)


def test_a_classifiers_scores(tmp_path: Path) -> None:
    """Its name and dictionary are left alone."""
    model = net()
    model.describe("scores", labels=list("abcde"))
    agree(model, {"x": numbers(1, 3, 8, 8)}, tmp_path, coreml_classifier=True)


def test_latency_and_compute_units(tmp_path: Path) -> None:
    """Measured, on the units that the package says, or those that are asked for."""
    path = emitted(net(), tmp_path, compute_units="cpu-and-ne")
    with opened(path) as session:
        assert isinstance(session, MacSession)
        assert StandIn.seen == coremltools().ComputeUnit.CPU_AND_NE
        timing = session.time({"x": numbers(1, 3, 8, 8)}, 4, 2)
        assert len(timing.ns) == 8 and min(timing.ns) > 0
        runtime = session.runtime
        assert (runtime["name"], runtime["providers"]) == ("Core ML", ["CPU_AND_NE"])
        assert "stands_for" not in runtime
    with opened(path, compute_units="cpu-only") as session:
        assert session.runtime["providers"] == ["CPU_ONLY"]


def test_core_mls_refusal_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words, as an error of the model."""
    path = emitted(net(), tmp_path)

    def refuse(self: StandIn, given: object) -> None:
        raise RuntimeError("Error computing NN outputs.\nmore")

    monkeypatch.setattr(StandIn, "predict", refuse)
    with pytest.raises(ModelError, match=r"can't run model.mlpackage: Error computing NN outputs"):
        run_package(path, {"x": numbers(1, 3, 8, 8)})


def test_specs_are_the_packages(tmp_path: Path) -> None:
    """As its description has them."""
    model = parsed("g (int64[batch, 3] x) => (float[batch, 3] y) { y = Cast<to = 1>(x) }")
    told = read_description(emitted(model, tmp_path))
    (spec,) = specs_of(told.input)
    assert spec.describe() == "int32[x_0, 3]"
    assert [item.dtype for item in specs_of(told.output)] == ["float32"]


def test_a_picture_is_upright() -> None:
    """Rows stay rows, channels colours."""
    pixels = np.zeros((1, 3, 2, 4), np.float32)
    pixels[0, 2, 1, 3] = 255
    for color, value in (("RGB", (0, 0, 255)), ("BGR", (255, 0, 0))):
        made = picture("x", pixels, color)
        assert made.size == (4, 2) and made.getpixel((3, 1)) == value
