"""Arrays in files, as numpy reads and writes them."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from parsers.worker import npz

ARRAYS = {
    "x": np.arange(6, dtype=np.float32).reshape(2, 3), "file": np.array(3.5),
    "none": np.zeros((0, 4), np.int8), "flags": np.array([True, False]),
    "columns": np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
    "unsigned": np.array([1, 65535], np.uint16), "half": np.array([1.5, np.nan], np.float16),
}  # fmt: skip


def test_numpy_reads_what_is_written(tmp_path: Path) -> None:
    path = str(tmp_path / "a.npz")
    turned = torch.arange(6).reshape(2, 3).T
    tensors = {name: torch.from_numpy(array) for name, array in ARRAYS.items()}
    npz.write(path, {**tensors, "turned": turned, "imaginary": torch.tensor([1 - 2j]).conj().imag})
    with np.load(path, allow_pickle=False) as found:
        for name, array in {**ARRAYS, "turned": turned.numpy()}.items():
            np.testing.assert_array_equal(found[name], array, strict=True)
        assert found["imaginary"].tolist() == [2.0]


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_what_numpy_writes_is_read(version: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in ARRAYS.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, version)
    found = npz.read(str(path))
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name].numpy(), array, strict=True)


def test_what_torch_has_not_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "a.npz")
    np.savez(path, words=np.array(["a"]))
    with pytest.raises(ValueError, match="words is of type <U1"):
        npz.read(path)
