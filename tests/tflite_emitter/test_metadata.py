"""TFLite metadata, read back with the classes that MediaPipe ships for the schema."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.ir.model import Model
from converter.options.recipe import make_request
from emitters.tflite import metadata
from emitters.tflite.emitter import TfliteEmitter
from modelyard.containers.tflite import unpack
from tests.operators.cases import numbers, parsed
from tests.tflite_emitter.running import REQUEST, emitted, module_of, run_file
from zoo.packages import fetch_package_file

PICTURE = """
g (float[batch,3,8,6] image) => (float[batch,3] scores, float[batch,3] other) {
  means = GlobalAveragePool (image)
  shape = Constant <value = int64[2] {-1, 3}> ()
  scores = Reshape (means, shape)
  other = Neg (scores)
}"""
LABELS = ["cat", "a\nlong dog", "Übung"]
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PREPARED = {"name": "pictures", "image_mean": MEAN, "image_std": STD}


def _picture() -> Model:
    model = parsed(PICTURE)
    model.describe("image", meaning="image", layout="NCHW", value_range=(-2.0, 2.5))
    model.describe("scores", meaning="scores", labels=LABELS)
    model.source = {"class": "Net", "framework": "torch 2", "license": "MIT", "author": "A. N."}
    return model


SCHEMA = "mediapipe/tasks/metadata/metadata_schema_py_generated.py"
SHA256 = "2c955700827b987555939cc645b834994185765a2a4ecebd0fdf6ad1f573f668"


@pytest.fixture(scope="module")
def reader() -> Any:
    """The schema's generated classes."""
    return module_of(fetch_package_file("mediapipe", "1.2.2", SCHEMA, SHA256))


def _written(folder: Path, **options: Any) -> Path:
    request = make_request({"source": "model.onnx", **options})
    return TfliteEmitter().emit(_picture(), folder, "fp32", request).path


def _read(reader: Any, path: Path) -> Any:
    model = unpack(path.read_bytes(), path.name)
    (item,) = [item for item in model.metadata if item.name == metadata.NAME.encode()]
    content = bytes(model.buffers[item.buffer].data)
    assert reader.ModelMetadata.ModelMetadataBufferHasIdentifier(content, 0)
    return reader.ModelMetadataT.InitFromObj(reader.ModelMetadata.GetRootAs(content, 0))


@pytest.mark.slow  # the package is 43 MB
def test_the_schema_reads_it(tmp_path: Path, reader: Any) -> None:
    found = _read(reader, _written(tmp_path, **PREPARED))
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
    axis_labels = reader.AssociatedFileType.TENSOR_AXIS_LABELS
    assert (labels.name, labels.type) == (b"labels.txt", axis_labels)
    assert other.associatedFiles is None
    (unit,) = image.processUnits
    pixels = np.arange(256)[:, np.newaxis]
    theirs = (pixels - unit.options.mean) / unit.options.std
    np.testing.assert_allclose(theirs, (pixels / 255 - MEAN) / STD, atol=1e-5)
    # What is given comes before what the source says.
    given = {"description": "Tells pictures apart", "author": "B. C.", "model_version": "3"}
    found = _read(reader, _written(tmp_path, license="ISC", **given))
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
    paths = [_written(tmp_path / name, **PREPARED) for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with zipfile.ZipFile(paths[0]) as archive:
        assert archive.namelist() == ["labels.txt"]
        assert archive.read("labels.txt").decode() == "cat\na long dog\nÜbung\n"
    feeds = {"image": numbers(2, 3, 8, 6)}
    found = run_file(paths[0], feeds)
    np.testing.assert_allclose(found["scores"], feeds["image"].mean((2, 3)), atol=1e-6)
    model = _picture()  # two outputs with labels have two files
    model.describe("other", labels=["x", "y", "z"])
    assert list(metadata.metadata_of(model, REQUEST).files) == ["labels.txt", "labels_other.txt"]
