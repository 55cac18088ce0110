"""Arrays from and to .npz files, for a TensorFlow function."""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...worker.errors import WorkerError


def read_feeds(path: str) -> dict[str, Any]:
    """Arrays by name from an .npz file. Raises usage if it cannot be read."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise WorkerError("usage", f"feeds {path} cannot be read: {error}", code="usage") from error


def write_arrays(path: str, arrays: Mapping[str, Any]) -> None:
    """Write an .npz file, uncompressed. Unlike np.savez it takes any name, `file` included."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def as_tensors(names: Sequence[str], dtypes: Sequence[str], feeds: Mapping[str, Any]) -> list[Any]:
    """Feeds in order, as tensors.

    Args:
        names: The order.
        dtypes: Of the tensors, in the same order.
        feeds: Arrays by name.

    Raises:
        WorkerError: ``usage`` where one lacks.
    """
    import tensorflow as tf

    missing = [name for name in names if name not in feeds]
    if missing:
        raise WorkerError(
            "usage", f"feeds lack {', '.join(missing)}; they hold {list(feeds)}", code="usage"
        )
    return [tf.cast(tf.constant(feeds[n]), tf.as_dtype(d)) for n, d in zip(names, dtypes)]


def as_array(tensor: Any) -> Any:
    """The tensor as an array of the same dtype; bfloat16, which numpy lacks, as float32."""
    array = np.asarray(tensor)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
