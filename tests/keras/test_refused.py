"""Keras files that can't be converted say so, early, with everything that is in the way."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest

from converter import api
from converter.errors import UnsupportedError, UsageError
from converter.worker import Worker
from parsers.keras import KerasParser
from tests.keras.conftest import Files, refused

pytestmark = pytest.mark.slow


REFUSED: dict[str, tuple[str, ...]] = {
    "strings.keras": ("StringLookup (words)", "Hashing (hashed)", "TextVectorization (text)"),
    "stateful.keras": ("LSTM (memory): stateful",),
    "only.weights.h5": ("weights only", "model.save"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_in_the_way(worker: Worker, models: Files, name: str) -> None:
    error = refused(worker, models[name], *REFUSED[name])
    assert name != "strings.keras" or len(error.details) == 3


@pytest.mark.parametrize("form", ["keras", "h5"])
def test_custom_layers(worker: Worker, models: Files, form: str) -> None:
    says = ("Scale (twice)", "Shift (more)", "model.export")
    assert isinstance(refused(worker, models[f"custom.{form}"], *says), UnsupportedError)


def test_by_the_api(models: Files, tmp_path: Path) -> None:
    """The same refusal, and nothing left behind."""
    with pytest.raises(UnsupportedError) as caught:
        api.convert(str(models["custom.keras"]), out=str(tmp_path / "out"), bench=False)
    assert len(caught.value.details) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["mixed.keras", "mixed.h5"])
def test_truncated(worker: Worker, models: Files, tmp_path: Path, name: str) -> None:
    whole = models[name].read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    refused(worker, tmp_path / name, "damaged")


def test_another_kind_of_hdf5(worker: Worker, tmp_path: Path) -> None:
    path = tmp_path / "table.h5"
    with h5py.File(path, "w") as file:
        file.attrs["PYTABLES_FORMAT_VERSION"] = "2.1"
        file.create_group("frame")
    refused(worker, path, "pandas")


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
