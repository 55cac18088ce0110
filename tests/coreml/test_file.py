"""Files that can't be read: one clear error each."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.errors import ModelError, UnsupportedError, UsageError
from modelyard.containers.coreml import coremltools
from parsers.coreml.importer import read
from parsers.coreml.parser import CoremlParser
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


def _operations(change: Callable[[Any], None]) -> Callable[[Path], None]:
    """Has every operation of the program changed."""

    def all_of_them(spec: Any) -> None:
        for op in spec.mlProgram.functions["main"].block_specializations["CoreML7"].operations:
            change(op)

    return lambda package: _changed(package, all_of_them)


def _stored(change: Callable[[Any], None]) -> Callable[[Path], None]:
    """Has every value in the file of weights changed."""

    def of(op: Any) -> None:
        for value in op.attributes.values():
            if value.WhichOneof("value") == "blobFileValue":
                change(value)

    return _operations(of)


def _grow(value: Any) -> None:
    value.type.tensorType.dimensions[0].constant.size = 32


def _move(value: Any) -> None:
    value.blobFileValue.fileName = "@model_path/../../../weight.bin"


def _cut(find: Callable[[Path], Path], part: Callable[[bytes], bytes]) -> Callable[[Path], Any]:
    """Has a file hold other bytes."""
    return lambda package: find(package).write_bytes(part(find(package).read_bytes()))


def _manifest(text: str) -> Callable[[Path], Any]:
    return lambda package: (package / "Manifest.json").write_text(text)


_ROOT = {"rootModelIdentifier": "a"}


def _listing(path: str) -> Callable[[Path], Any]:
    return _manifest(json.dumps(_ROOT | {"itemInfoEntries": {"a": {"path": path}}}))


def _emptied(content: bytes) -> bytes:
    return content[:64] + bytes(len(content) - 64)


def _half(content: bytes) -> bytes:
    return content[: len(content) // 2]


NOISE = np.random.default_rng(1).bytes(1000)
CUT = r"weight\.bin (is cut short|isn't a file of weights)"
DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    f"weights cut at {n}": (_cut(_weights, lambda old, n=n: old[:n]), CUT)  # type: ignore[misc]
    for n in (0, 70, 140, 200)
} | {
    "no weights": (lambda p: _weights(p).unlink(), r"weight\.bin, is missing.*whole folder"),
    "weights overwritten": (_cut(_weights, _emptied), r"weight\.bin is damaged"),
    "weights of another size": (_stored(_grow), "first_weight_0 needs 384 bytes"),
    "weights outside": (_stored(_move), "outside of the package"),
    "a cut protobuf": (_cut(_model, _half), "damaged, encrypted, or not a Core ML model"),
    "an encrypted protobuf": (_cut(_model, lambda _: NOISE), "encrypted.*Apple's systems"),
    "an empty protobuf": (_cut(_model, lambda _: b""), "can't be decoded"),
    "half a manifest": (_manifest("{"), "damaged"),
    "a manifest that is a list": (_manifest("[]"), "damaged"),
    "a manifest of nothing": (_manifest(json.dumps(_ROOT | {"itemInfoEntries": {}})), "damaged"),
    "a manifest of what isn't there": (_listing("no.mlmodel"), "incomplete"),
    "a manifest that leaves": (_listing("../../outside.mlmodel"), "outside"),
    "a manifest from the root": (_listing("/outside.mlmodel"), "outside"),
}
"""What is done to a package, and what the error and its hint say."""


@pytest.mark.parametrize("name", DAMAGES)
def test_damage(package: Path, name: str) -> None:
    damage, said = DAMAGES[name]
    shutil.copy(_model(package), package.parent / "outside.mlmodel")
    (package.parent / "weight.bin").write_bytes(_weights(package).read_bytes())
    damage(package)
    with pytest.raises(ModelError) as caught:
        read(package)
    text = f"{caught.value} {caught.value.hint}"
    assert re.search(said, text, re.DOTALL), text


@pytest.mark.parametrize("names", [1, 2])
def test_the_whole_package_is_read(package: Path, names: int) -> None:
    """A file of several names too, as backups and installers keep what they have twice."""
    if names == 2:
        os.link(_weights(package), package.parent / "another name")
    (found,) = run(read(package), {"x": X})
    agrees(found, np.maximum(X @ WEIGHT.T, 0))


def test_what_isnt_there(package: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read(tmp_path / "none.mlpackage")
    with pytest.raises(ModelError, match=r"weights in another file") as caught:
        read(_model(package))
    assert ".mlpackage" in caught.value.hint
    (package / "Manifest.json").unlink()
    with pytest.raises(UsageError, match=r"Manifest\.json"):
        read(package)


def test_operations_that_nobody_knows_are_all_listed(package: Path) -> None:
    def rename(op: Any) -> None:
        if op.type in ("linear", "relu"):
            op.type = f"new_{op.type}"

    _operations(rename)(package)
    with pytest.raises(UnsupportedError, match="2 operations") as caught:
        read(package)
    found = [(item.op, item.node) for item in caught.value.items]
    assert found == [("new_linear", "first"), ("new_relu", "second")]


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


def test_a_pipeline_lists_its_models_that_arent_read(tmp_path: Path) -> None:
    def fill(spec: Any) -> None:
        for kind in ("neuralNetwork", "supportVectorClassifier"):
            getattr(spec.pipelineClassifier.pipeline.models.add(), kind).SetInParent()
        spec.pipelineClassifier.pipeline.names.extend(["net", "svm"])

    with pytest.raises(UnsupportedError, match="a pipeline of 2 models") as caught:
        read(_of_kind(tmp_path, fill))
    found = [(item.node, item.op) for item in caught.value.items]
    assert found == [("svm", "support vector classifier")]


@pytest.mark.parametrize(("kind", "words"), [
    ("supportVectorRegressor", "a support vector regressor"),
    ("kNearestNeighborsClassifier", "a k nearest neighbors classifier"),
    ("identity", "an identity"),
    ("customModel", "a custom model"),
])  # fmt: skip
def test_other_kinds(tmp_path: Path, kind: str, words: str) -> None:
    path = _of_kind(tmp_path, lambda spec: getattr(spec, kind).SetInParent())
    with pytest.raises(UnsupportedError, match=words):
        read(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(package: Path) -> None:
    _model(package).chmod(0)
    with pytest.raises(UsageError):
        read(package)
