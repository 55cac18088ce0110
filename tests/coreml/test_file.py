"""Files that can't be read: one clear error each."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.coreml_file import coremltools
from converter.errors import ModelError, UnsupportedError, UsageError
from parsers.coreml import CoremlParser
from parsers.coreml_import.importer import read
from tests.coreml.running import agrees, run, write

X = np.ones((2, 3), np.float32)
WEIGHT = np.random.default_rng(0).standard_normal((16, 3)).astype(np.float32)


def _body(mb: Any, x: Any) -> Any:
    return mb.relu(x=mb.linear(x=x, weight=WEIGHT, name="first"), name="second")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package as it should be."""
    return write(tmp_path_factory.mktemp("whole"), _body, {"x": X})


@pytest.fixture
def package(whole: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "net.mlpackage"))


def _model(package: Path) -> Path:
    return next(package.rglob("*.mlmodel"))


def _weights(package: Path) -> Path:
    return next(package.rglob("weight.bin"))


def _changed(package: Path, change: Callable[[Any], None]) -> None:
    """Has the package hold another protobuf."""
    coremltools()
    from coremltools.proto import Model_pb2

    spec = Model_pb2.Model.FromString(_model(package).read_bytes())
    change(spec)
    _model(package).write_bytes(spec.SerializeToString())


def test_the_whole_package_is_read(package: Path) -> None:
    (found,) = run(read(package), {"x": X})
    agrees(found, np.maximum(X @ WEIGHT.T, 0))


def test_it_isnt_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read(tmp_path / "none.mlpackage")


def test_no_weights(package: Path) -> None:
    _weights(package).unlink()
    with pytest.raises(ModelError, match=r"weight\.bin, aren't in it") as caught:
        read(package)
    assert "whole folder" in caught.value.hint


@pytest.mark.parametrize("left", [0, 70, 140, 200])
def test_weights_cut_short(package: Path, left: int) -> None:
    content = _weights(package).read_bytes()
    assert left < len(content)
    _weights(package).write_bytes(content[:left])
    with pytest.raises(ModelError, match=r"weight\.bin is (cut short|no file of weights)"):
        read(package)


def test_weights_overwritten(package: Path) -> None:
    content = _weights(package).read_bytes()
    _weights(package).write_bytes(content[:64] + bytes(len(content) - 64))
    with pytest.raises(ModelError, match=r"weight\.bin is damaged"):
        read(package)


def test_weights_of_another_size(package: Path) -> None:
    def grow(spec: Any) -> None:
        for op in spec.mlProgram.functions["main"].block_specializations["CoreML7"].operations:
            for value in op.attributes.values():
                if value.WhichOneof("value") == "blobFileValue":
                    value.type.tensorType.dimensions[0].constant.size = 32

    _changed(package, grow)
    with pytest.raises(ModelError, match="first_weight_0 takes 384 bytes"):
        read(package)


def test_weights_outside(package: Path, tmp_path: Path) -> None:
    (tmp_path / "weight.bin").write_bytes(_weights(package).read_bytes())

    def move(spec: Any) -> None:
        for op in spec.mlProgram.functions["main"].block_specializations["CoreML7"].operations:
            for value in op.attributes.values():
                if value.WhichOneof("value") == "blobFileValue":
                    value.blobFileValue.fileName = "@model_path/../../../weight.bin"

    _changed(package, move)
    with pytest.raises(ModelError, match="outside of the package"):
        read(package)


def test_a_cut_protobuf(package: Path) -> None:
    content = _model(package).read_bytes()
    _model(package).write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match="damaged, encrypted, or no Core ML model"):
        read(package)


def test_an_encrypted_protobuf(package: Path) -> None:
    _model(package).write_bytes(np.random.default_rng(1).bytes(1000))
    with pytest.raises(ModelError, match="encrypted") as caught:
        read(package)
    assert "Apple's systems" in caught.value.hint


def test_an_empty_protobuf(package: Path) -> None:
    _model(package).write_bytes(b"")
    with pytest.raises(ModelError, match="can't be decoded"):
        read(package)


def test_operations_that_nobody_knows_are_all_listed(package: Path) -> None:
    def rename(spec: Any) -> None:
        for op in spec.mlProgram.functions["main"].block_specializations["CoreML7"].operations:
            if op.type in ("linear", "relu"):
                op.type = f"new_{op.type}"

    _changed(package, rename)
    with pytest.raises(UnsupportedError, match="2 operations") as caught:
        read(package)
    assert [item.op for item in caught.value.items] == ["new_linear", "new_relu"]
    assert [item.node for item in caught.value.items] == ["first", "second"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"rootModelIdentifier": "a", "itemInfoEntries": {}}', "damaged"),
        (
            json.dumps(
                {"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "no.mlmodel"}}}
            ),
            "incomplete",
        ),
        (
            json.dumps(
                {
                    "rootModelIdentifier": "a",
                    "itemInfoEntries": {"a": {"path": "../../outside.mlmodel"}},
                }
            ),
            "outside",
        ),
        (
            json.dumps(
                {"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "/outside.mlmodel"}}}
            ),
            "outside",
        ),
    ],
)
def test_manifests(package: Path, content: str, message: str) -> None:
    shutil.copy(_model(package), package.parent / "outside.mlmodel")
    (package / "Manifest.json").write_text(content)
    with pytest.raises(ModelError, match=message):
        read(package)


def test_no_manifest(package: Path) -> None:
    (package / "Manifest.json").unlink()
    with pytest.raises(UsageError, match=r"Manifest\.json"):
        read(package)


def test_a_model_without_its_package(package: Path) -> None:
    with pytest.raises(ModelError, match=r"weights in another file") as caught:
        read(_model(package))
    assert ".mlpackage" in caught.value.hint


def test_a_compiled_model(tmp_path: Path) -> None:
    folder = tmp_path / "net.mlmodelc"
    folder.mkdir()
    (folder / "coremldata.bin").write_bytes(b"\0" * 8)
    assert CoremlParser().sniff(str(folder))
    with pytest.raises(ModelError, match="a compiled model\n") as caught:
        read(folder)
    assert ".mlpackage" in caught.value.hint
    (folder / "encryptionInfo").mkdir()
    with pytest.raises(ModelError, match="compiled model, and encrypted"):
        read(folder)


def _of_kind(tmp_path: Path, fill: Callable[[Any], Any]) -> Path:
    coremltools()
    from coremltools.proto import Model_pb2

    spec = Model_pb2.Model(specificationVersion=4)
    fill(spec)
    path = tmp_path / "other.mlmodel"
    path.write_bytes(spec.SerializeToString())
    return path


def test_a_pipeline_lists_its_models(tmp_path: Path) -> None:
    def fill(spec: Any) -> None:
        for kind in ("neuralNetwork", "treeEnsembleClassifier"):
            getattr(spec.pipelineClassifier.pipeline.models.add(), kind).SetInParent()
        spec.pipelineClassifier.pipeline.names.extend(["net", "trees"])

    with pytest.raises(UnsupportedError, match="a pipeline of 2 models") as caught:
        read(_of_kind(tmp_path, fill))
    found = [(item.node, item.op) for item in caught.value.items]
    assert found == [("net", "neural network"), ("trees", "tree ensemble classifier")]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("treeEnsembleRegressor", "a tree ensemble regressor"),
        ("glmClassifier", "a linear classifier"),
        ("identity", "an identity"),
        ("customModel", "a custom model"),
    ],
)
def test_other_kinds(tmp_path: Path, kind: str, words: str) -> None:
    path = _of_kind(tmp_path, lambda spec: getattr(spec, kind).SetInParent())
    with pytest.raises(UnsupportedError, match=words):
        read(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(package: Path) -> None:
    _model(package).chmod(0)
    with pytest.raises(UsageError):
        read(package)
