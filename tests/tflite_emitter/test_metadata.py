"""TFLite metadata, read back with the classes that MediaPipe ships for the schema."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.ir import Model
from converter.recipe import make_request
from converter.tflite_file import unpack
from emitters.tflite import metadata
from emitters.tflite.emitter import TfliteEmitter
from tests.tflite_emitter.running import REQUEST, emitted, numbers, parsed, run_file
from zoo.packages import fetch_package_file

PICTURE = """
g (float[batch,3,8,6] image) => (float[batch,3] scores, float[batch,3] other) {
  means = GlobalAveragePool (image)
  shape = Constant <value = int64[2] {-1, 3}> ()
  scores = Reshape (means, shape)
  other = Neg (scores)
}"""
LABELS = ["cat", "a\nlong dog", "Übung"]
PREPARED = make_request(
    {
        "source": "model.onnx",
        "name": "pictures",
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
    }
)


def _picture() -> Model:
    model = parsed(PICTURE)
    model.describe("image", meaning="image", layout="NCHW", value_range=(-2.0, 2.5))
    model.describe("scores", meaning="scores", labels=LABELS)
    model.source = {"class": "Net", "framework": "torch 2", "license": "MIT", "author": "A. N."}
    return model


@pytest.fixture(scope="module")
def reader() -> Any:
    """The schema's generated classes."""
    path = fetch_package_file(
        "mediapipe",
        "1.2.2",
        "mediapipe/tasks/metadata/metadata_schema_py_generated.py",
        "2c955700827b987555939cc645b834994185765a2a4ecebd0fdf6ad1f573f668",
    )
    spec = importlib.util.spec_from_file_location("metadata_schema_py_generated", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _read(reader: Any, path: Path) -> Any:
    model = unpack(path.read_bytes(), path.name)
    (item,) = [item for item in model.metadata if item.name == metadata.NAME.encode()]
    content = bytes(model.buffers[item.buffer].data)
    assert reader.ModelMetadata.ModelMetadataBufferHasIdentifier(content, 0)
    return reader.ModelMetadataT.InitFromObj(reader.ModelMetadata.GetRootAs(content, 0))


@pytest.mark.slow  # the package is 43 MB
def test_the_schema_reads_it(tmp_path: Path, reader: Any) -> None:
    path = TfliteEmitter().emit(_picture(), tmp_path, "fp32", PREPARED).path
    found = _read(reader, path)
    assert (found.name, found.author, found.license) == (b"pictures", b"A. N.", b"MIT")
    assert found.description == b"Net from torch 2 converted by modelyard"
    assert found.minParserVersion == b"1.0.0"
    (subgraph,) = found.subgraphMetadata
    (image,), (scores, other) = subgraph.inputTensorMetadata, subgraph.outputTensorMetadata
    assert [item.name for item in (image, scores, other)] == [b"image", b"scores", b"other"]
    assert image.description == b"image, NCHW: float32[batch, 3, 8, 6]"
    assert image.dimensionNames == [b"batch", b"channel", b"height", b"width"]
    properties = image.content.contentProperties
    assert isinstance(properties, reader.ImagePropertiesT)
    assert properties.colorSpace == reader.ColorSpaceType.RGB
    assert (properties.defaultSize.width, properties.defaultSize.height) == (6, 8)
    assert isinstance(scores.content.contentProperties, reader.FeaturePropertiesT)
    assert (list(image.stats.max), list(image.stats.min)) == ([2.5], [-2.0])
    (labels,) = scores.associatedFiles
    assert (labels.name, labels.type) == (
        b"labels.txt",
        reader.AssociatedFileType.TENSOR_AXIS_LABELS,
    )
    assert other.associatedFiles is None


@pytest.mark.slow
def test_normalization_is_of_pixels(tmp_path: Path, reader: Any) -> None:
    found = _read(reader, TfliteEmitter().emit(_picture(), tmp_path, "fp32", PREPARED).path)
    (unit,) = found.subgraphMetadata[0].inputTensorMetadata[0].processUnits
    pixels = np.arange(256)[:, np.newaxis]
    theirs = (pixels - unit.options.mean) / unit.options.std
    ours = (pixels / 255 - PREPARED.image_mean) / PREPARED.image_std
    np.testing.assert_allclose(theirs, ours, atol=1e-5)


@pytest.mark.slow
def test_what_is_given_comes_first(tmp_path: Path, reader: Any) -> None:
    """Before what the source says."""
    given = {"description": "Tells pictures apart", "author": "B. C.", "model_version": "3"}
    asked = make_request({"source": "model.onnx", "license": "ISC", **given})
    found = _read(reader, TfliteEmitter().emit(_picture(), tmp_path, "fp32", asked).path)
    told = (found.description, found.author, found.license, found.version)
    assert told == (b"Tells pictures apart", b"B. C.", b"ISC", b"3")


def test_without_meanings_there_are_names(tmp_path: Path, reader: Any) -> None:
    path = emitted(parsed("g (float[n,2] x) => (float[n,2] y) { y = Relu (x) }"), tmp_path)
    (subgraph,) = _read(reader, path).subgraphMetadata
    (x,) = subgraph.inputTensorMetadata
    assert (x.name, x.description, x.dimensionNames) == (b"x", b"float32[n, 2]", [b"n", b""])
    assert x.processUnits is None
    assert not zipfile.is_zipfile(path)


def test_labels_are_in_an_archive_behind_the_model(tmp_path: Path) -> None:
    paths = [
        TfliteEmitter().emit(_picture(), tmp_path / name, "fp32", PREPARED).path for name in "ab"
    ]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with zipfile.ZipFile(paths[0]) as archive:
        assert archive.namelist() == ["labels.txt"]
        assert archive.read("labels.txt").decode() == "cat\na long dog\nÜbung\n"
    feeds = {"image": numbers(2, 3, 8, 6)}
    found = run_file(paths[0], feeds)
    np.testing.assert_allclose(found["scores"], feeds["image"].mean((2, 3)), atol=1e-6)


def test_two_outputs_with_labels_have_two_files() -> None:
    model = _picture()
    model.describe("other", labels=["x", "y", "z"])
    found = metadata.metadata_of(model, REQUEST)
    assert list(found.files) == ["labels.txt", "labels_other.txt"]
