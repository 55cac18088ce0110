"""Keras files that can't be converted, would run code or read other files are refused early."""

import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from converter import api
from converter.errors import ModelError, UnsupportedError, UsageError
from converter.runtime.worker import Worker
from parsers.keras.child.config import examine
from parsers.keras.parser import KerasParser
from tests.keras.conftest import MARKER, load, refused

pytestmark = pytest.mark.slow


def _layer(name: str, module: str | None = "keras.layers", **config: Any) -> dict[str, Any]:
    named = {"module": module, "class_name": name, "registered_name": None, "name": "trap"}
    return {**named, "config": {"name": "trap", **config}}


def _archive(path: Path, *layers: dict[str, Any]) -> Path:
    """An archive whose Sequential model has these layers."""
    first = _layer("InputLayer", batch_shape=[None, 4], dtype="float32")
    config = {"name": "model", "layers": [first, *layers]}
    model = {"module": "keras", "class_name": "Sequential", "config": config}
    with h5py.File(path.with_suffix(".tmp"), "w") as file:
        file.create_group("layers")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.15.1"}))
        archive.writestr("config.json", json.dumps(model))
        archive.write(path.with_suffix(".tmp"), "model.weights.h5")
    return path


@pytest.mark.parametrize("form", ["keras", "h5"])
def test_a_lambda_layer(worker: Worker, models: Path, form: str, tmp_path: Path) -> None:
    """It doesn't run, and is named; trusted, it does: the trap is a real one."""
    path = models / f"lambda.{form}"
    error = refused(worker, path)
    assert any("Lambda (trap)" in line for line in error.details)
    assert "--trust-source" in error.hint
    marker = models / MARKER
    assert not marker.exists()
    if form == "h5":
        with pytest.raises(ModelError, match="Python code"):
            api.convert(str(path), out=str(tmp_path / "out"), bench=False)
        assert not marker.exists()
        assert not (tmp_path / "out").exists()
    load(worker, path, trust=True)
    assert marker.exists()
    marker.unlink()


def _activation(**function: Any) -> dict[str, Any]:
    """A layer with this for its activation."""
    return _layer("Dense", units=2, activation=function)


FUNCTION = {"class_name": "function", "registered_name": "function"}
UNLOCK = "enable_unsafe_deserialization"
ATTACKS = {
    "download": _layer("get_file", "keras.utils", origin="http://localhost/x"),
    "unlock": _layer(UNLOCK, "keras.config"),
    "internal": _layer("get_file", "keras.src.utils.file_utils"),
    "application": _layer("ConvNeXtTiny", "keras.src.applications.convnext"),
    "unlock_function": _activation(**FUNCTION, module="keras.config", config=UNLOCK),
    "system": _activation(**FUNCTION, module="os", config="system"),
    "marshalled": _activation(class_name="__lambda__", config={"code": "4wAAAA=="}),
    "nested": _layer(
        "TimeDistributed", layer=_layer("Lambda", function={"class_name": "__lambda__"})
    ),
    "old_lambda": _layer("Lambda", None, function=["4wAAAA==", None, None]),
    "renamed_lambda": _layer("Dense", None, function_type="lambda", function=["4wAA", None, None]),
    "torch": _layer("TorchModuleWrapper", module_="pickled"),
    "saved_model": _layer("TFSMLayer", filepath="/elsewhere"),
    "vocabulary": _layer("StringLookup", vocabulary="/etc/passwd"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_configuration_that_names_code(worker: Worker, tmp_path: Path, name: str) -> None:
    error = refused(worker, _archive(tmp_path / "model.keras", ATTACKS[name]), "Python code")
    assert any("trap" in line for line in error.details)


def test_all_of_it_is_listed(worker: Worker, tmp_path: Path) -> None:
    layers = [ATTACKS["download"], ATTACKS["system"], _layer("TextVectorization")]
    assert len(refused(worker, _archive(tmp_path / "model.keras", *layers)).details) == 3


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("key", ["optimizer", "loss", "metrics"])
def test_what_a_model_inside_is_compiled_with(name: str, key: str) -> None:
    """Keras compiles models inside of others even with compile=False; the outermost it doesn't."""
    given = [ATTACKS[name]] if key == "metrics" else ATTACKS[name]
    inner = {**_layer("Sequential", "keras"), "compile_config": {key: given}}
    outer = {"class_name": "Sequential", "module": "keras", "config": {"layers": [inner]}}
    assert any("trap" in line for line in examine(outer).code)
    assert not examine({**_layer("Sequential", "keras"), "compile_config": {key: given}}).code


def _compiled(**config: Any) -> dict[str, Any]:
    """A model to be a layer of another, compiled with this."""
    first = _layer("InputLayer", batch_shape=[None, 4], dtype="float32")
    inner = _layer("Sequential", "keras", layers=[first])
    inner["config"]["name"] = "inside"
    return {**inner, "compile_config": config}


def test_a_model_inside_that_is_compiled_as_usual(worker: Worker, models: Path,
                                                  tmp_path: Path) -> None:  # fmt: skip
    function = {**FUNCTION, "module": "builtins"}
    inner = _compiled(
        optimizer=_layer("SGD", "keras.optimizers", learning_rate=0.1),
        loss={**function, "config": "mean_squared_error"},
        metrics=[{**function, "config": "binary_accuracy"}],
    )
    assert load(worker, _archive(tmp_path / "model.keras", inner))["inputs"]
    loaded = load(worker, models / "mixed.keras")  # what the refusals are measured against
    assert loaded["parameters"] == 2054
    assert np.prod(loaded["inputs"][0]["shape"][1:]) == 20 * 24 * 3


def test_layers_that_applications_define() -> None:
    """Keras' ConvNeXt and InceptionResNetV2 have layers of their own."""
    names = {"LayerScale": "convnext", "StochasticDepth": "convnext"}
    names["CustomScaleLayer"] = "inception_resnet_v2"
    layers = [_layer(name, f"keras.src.applications.{place}") for name, place in names.items()]
    found = examine({"class_name": "Sequential", "module": "keras", "config": {"layers": layers}})
    assert not found.code
    assert [name for name, _, _ in found.classes if name != "Sequential"] == [*names]


@pytest.mark.parametrize("member", ["../escaped.txt", "/escaped.txt", "assets/../../escaped", ""])
def test_a_member_that_leads_outside(worker: Worker, tmp_path: Path, member: str) -> None:
    """By its name, or as a link."""
    path, info = _archive(tmp_path / "model.keras"), zipfile.ZipInfo(member or "assets/link")
    if not member:
        info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(info, "/etc/passwd")
    assert any((member or "a link") in line for line in refused(worker, path).details)


def _link(file: h5py.File, folder: Path) -> None:
    file["model_weights"] = h5py.ExternalLink(str(folder / "other.h5"), "/secret")


def _external(file: h5py.File, folder: Path) -> None:
    (folder / "raw").write_bytes(bytes(16))
    file.create_dataset("w", (4,), "f4", external=[(str(folder / "raw"), 0, 16)])


def _virtual(file: h5py.File, folder: Path) -> None:
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "secret", (4,))
    file.create_virtual_dataset("w", layout)


def _bomb(file: h5py.File, folder: Path) -> None:
    file.create_dataset("w", (1 << 40,), "f4", chunks=(1 << 20,))


@pytest.mark.parametrize("spoil", [_link, _external, _virtual, _bomb])
def test_weights_that_are_elsewhere(worker: Worker, tmp_path: Path, spoil: Any) -> None:
    path = tmp_path / "model.h5"
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": {}})
        spoil(file, tmp_path)
    refused(worker, path, "reads other files")
    archive = tmp_path / "model.keras"
    with zipfile.ZipFile(_archive(archive)) as made:
        config = made.read("config.json")
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("config.json", config)
        made.write(path, "model.weights.h5")
    refused(worker, archive, "reads other files")


CUSTOM = ("Scale (twice)", "Shift (more)", "model.export")
REFUSED: dict[str, tuple[str, ...]] = {
    "strings.keras": ("StringLookup (words)", "Hashing (hashed)", "TextVectorization (text)"),
    "stateful.keras": ("LSTM (memory): stateful",),
    "only.weights.h5": ("only holds weights", "model.save"),
    "custom.keras": CUSTOM,
    "custom.h5": CUSTOM,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_in_the_way(worker: Worker, models: Path, name: str) -> None:
    error = refused(worker, models / name, *REFUSED[name])
    assert name != "strings.keras" or len(error.details) == 3
    assert isinstance(error, UnsupportedError) or not name.startswith("custom")


def test_by_the_api(models: Path, tmp_path: Path) -> None:
    """The same refusal, and nothing left behind."""
    with pytest.raises(UnsupportedError) as caught:
        api.convert(str(models / "custom.keras"), out=str(tmp_path / "out"), bench=False)
    assert len(caught.value.details) == 2
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="--signature"):
        api.convert(str(models / "mixed.h5"), out=str(tmp_path / "out"), signature="x")


@pytest.mark.parametrize("name", ["mixed.keras", "mixed.h5"])
def test_truncated_or_of_pandas(worker: Worker, models: Path, tmp_path: Path, name: str) -> None:
    whole = (models / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    refused(worker, tmp_path / name, "damaged")
    path = tmp_path / "table.h5"
    with h5py.File(path, "w") as file:
        file.attrs["PYTABLES_FORMAT_VERSION"] = "2.1"
        file.create_group("frame")
    refused(worker, path, "pandas")


def test_told_by_content(models: Path, tmp_path: Path) -> None:
    parser = KerasParser()
    for name in ("mixed.keras", "mixed.h5"):
        path = tmp_path / f"{name}.bin"
        path.write_bytes((models / name).read_bytes())
        assert parser.sniff(str(path))
    other = tmp_path / "other.zip"
    other.write_bytes(b"PK\x05\x06" + bytes(18))
    assert not parser.sniff(str(other))
