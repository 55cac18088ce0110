"""Keras files that can't be converted say so, early, with everything that is in the way."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest

from converter import api
from converter.errors import ModelError, UnsupportedError, UsageError
from converter.worker import Worker
from parsers.keras import KerasParser
from tests.keras.conftest import Files

pytestmark = pytest.mark.slow


def _refused(worker: Worker, path: Path) -> ModelError:
    with pytest.raises(ModelError) as refused:
        worker.call("load", file=str(path), kind="keras", trust=False, search_paths=[])
    assert refused.value.exit_code == 3
    return refused.value


@pytest.mark.parametrize("form", ["keras", "h5"])
def test_custom_layers(worker: Worker, models: Files, form: str) -> None:
    error = _refused(worker, models[f"custom.{form}"])
    assert isinstance(error, UnsupportedError)
    text = str(error)
    assert "Scale (twice)" in text and "Shift (more)" in text
    assert "model.export" in text


def test_by_the_api(models: Files, tmp_path: Path) -> None:
    """The same refusal, and nothing left behind."""
    with pytest.raises(UnsupportedError) as refused:
        api.convert(str(models["custom.keras"]), out=str(tmp_path / "out"), bench=False)
    assert len(refused.value.details) == 2
    assert not (tmp_path / "out").exists()


def test_strings_and_tables(worker: Worker, models: Files) -> None:
    error = _refused(worker, models["strings.keras"])
    assert len(error.details) == 3
    for name in ("StringLookup (words)", "Hashing (hashed)", "TextVectorization (text)"):
        assert name in str(error)


def test_a_layer_with_state(worker: Worker, models: Files) -> None:
    assert "LSTM (memory): stateful" in str(_refused(worker, models["stateful.keras"]))


def test_weights_only(worker: Worker, models: Files) -> None:
    error = _refused(worker, models["only.weights.h5"])
    assert "weights only" in str(error) and "model.save" in str(error)


@pytest.mark.parametrize("name", ["mixed.keras", "mixed.h5"])
def test_truncated(worker: Worker, models: Files, tmp_path: Path, name: str) -> None:
    whole = models[name].read_bytes()
    path = tmp_path / name
    path.write_bytes(whole[: len(whole) // 2])
    assert "damaged" in str(_refused(worker, path))


def test_another_kind_of_hdf5(worker: Worker, tmp_path: Path) -> None:
    path = tmp_path / "table.h5"
    with h5py.File(path, "w") as file:
        file.attrs["PYTABLES_FORMAT_VERSION"] = "2.1"
        file.create_group("frame")
    assert "pandas" in str(_refused(worker, path))


def test_options_that_mean_nothing(models: Files, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--signature"):
        api.convert(str(models["mixed.h5"]), out=str(tmp_path / "out"), signature="x")


def test_told_by_content(models: Files, tmp_path: Path) -> None:
    parser = KerasParser()
    for name in ("mixed.keras", "mixed.h5"):
        path = tmp_path / f"{name}.bin"
        path.write_bytes(models[name].read_bytes())
        assert parser.sniff(str(path))
    other = tmp_path / "other.zip"
    other.write_bytes(b"PK\x05\x06" + bytes(18))
    assert not parser.sniff(str(other))
