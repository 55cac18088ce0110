"""What a file of weights holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from converter.ir.contents import Contents, Product
from emitters.code.safetensors import CODES, header

_SIZES = {name: 2 if name == "bfloat16" else np.dtype(name).itemsize for name in CODES}


def contents_of(path: Path) -> Contents:
    """See :meth:`converter.protocols.emitter.Emitter.contents`: a layer computes in the type of its
    weights; how often isn't in the file.

    Args:
        path: The code, which the weights lie beside.

    Raises:
        ModelError: It is damaged.
    """
    stored: Counter[str] = Counter()
    products = []
    path = path.with_suffix(".safetensors")
    for name, (dtype, shape) in header(path).items():
        stored[dtype] += int(np.prod(shape)) * _SIZES[dtype]
        if len(shape) > 1 and "weight" in name and dtype.startswith(("float", "bfloat")):
            products.append(Product(name, "layer", dtype, None))
    return Contents(path.name, products, dict(stored))
