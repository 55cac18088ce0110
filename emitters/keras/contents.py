"""What an archive of Keras' holds."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from converter.errors import ModelError
from converter.ir.contents import Contents, Product

_WEIGHTS = "model.weights.h5"


def contents_of(path: Path) -> Contents:
    """See :meth:`converter.protocols.emitter.Emitter.contents`: a layer computes in the type of its
    weights; how often isn't in the file.

    Raises:
        ModelError: It is damaged.
    """
    stored: Counter[str] = Counter()
    products = []
    for name, data in _tensors(path).items():
        dtype = str(data.attrs.get("dtype", data.dtype.name))
        stored[dtype] += int(data.size) * data.dtype.itemsize
        if data.ndim > 1 and dtype.startswith(("float", "bfloat")):
            products.append(Product(name, "layer", dtype, None))
    return Contents(path.name, products, dict(stored))


def _tensors(path: Path) -> dict[str, Any]:
    import h5py

    found: dict[str, Any] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            content = io.BytesIO(archive.read(_WEIGHTS))
        file = h5py.File(content)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path.name} is damaged: {error}", code="model-damaged") from error
    file.visititems(
        lambda name, item: found.update({name: item}) if hasattr(item, "dtype") else None
    )
    return found
