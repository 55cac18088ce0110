"""Samples in a Triton folder for ``build_engine.py``: what went in, what the source gave.

Each array is a file of its little-endian elements; its dtype and shape, batch included, stand in
the lock, with the file's sha256. So Python's standard library is enough to read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from converter.check.feeding import typed
from converter.check.reference import ReferenceOutputs
from converter.files.digest import file_digest
from converter.ir.model import TensorSpec
from converter.samples import Samples

FOLDER = "samples"
COUNT = 4
"""Samples that are shipped where no more are warmed up with."""

LARGEST = 64 << 20
"""Bytes after which no further sample is shipped."""


def write_samples(
    folder: Path,
    samples: Samples,
    reference: ReferenceOutputs,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    count: int,
) -> dict[str, Any]:
    """Writes the first ``count`` samples and the source's outputs under ``<folder>/samples``.

    Args:
        folder: The version's folder.
        samples: The samples.
        reference: The source framework's outputs on them.
        inputs: The engine's, whose floats may be narrower than the source's.
        outputs: The engine's, likewise.
        count: How many; fewer where they are large.

    Returns:
        The lock's entry on them: JSON values.
    """
    target = folder / FOLDER
    target.mkdir()
    items: list[dict[str, Any]] = []
    written = 0
    for number, sample in enumerate(islice(samples, max(count, COUNT))):
        if written > LARGEST:
            break
        prefix = f"{FOLDER}/{number}"
        feeds = _write_all(folder, f"{prefix}-in", sample.feeds, inputs)
        expected = _write_all(folder, f"{prefix}-out", reference[number], outputs)
        items.append({"name": sample.name, "feeds": feeds, "expected": expected})
        entries = (*feeds.values(), *expected.values())
        written += sum((folder / entry["file"]).stat().st_size for entry in entries)
    runtime = reference.runtime
    return {
        "origin": samples.origin,
        "random": samples.random,
        "reference": f"{runtime.get('name', '')} {runtime.get('version', '')}".strip(),
        "items": items,
    }


def _write_all(
    folder: Path,
    prefix: str,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    specs: Sequence[TensorSpec],
) -> dict[str, Any]:
    return {
        spec.name: _write(folder, f"{prefix}{index}.bin", np.asarray(arrays[spec.name]), spec)
        for index, spec in enumerate(specs)
    }


def _write(
    folder: Path, name: str, array: np.ndarray[Any, Any], spec: TensorSpec
) -> dict[str, Any]:
    made = typed(array, spec)
    if made.dtype.name == "bfloat16":
        made = made.view(np.uint16)
    data = np.ascontiguousarray(made).astype(made.dtype.newbyteorder("<"))
    (folder / name).write_bytes(data.tobytes())
    return {
        "file": name,
        "sha256": file_digest(folder / name),
        "dtype": spec.dtype,
        "shape": list(array.shape),
    }
