"""Warm-up for Triton: requests that a model instance answers before it is called ready.

The first runs of a model allocate, choose kernels and, on a GPU, tune; real data makes them
choose as real requests will. What Triton does with ``model_warmup`` (``GenerateWarmupData`` in
the server core's ``backend_model_instance.cc``): for one entry of ``batch_size`` N it makes N
requests of one element, *each* from the whole file, and hands them to the backend together. So
a file holds one element, without the batch: ``product(dims) * itemsize`` bytes, row by row,
little-endian; strings each behind their length as four bytes. ``dims`` are those of a request,
before any ``reshape``, with every free dimension filled in. An entry of ``batch_size`` 0 is
skipped without a word, so a model without batching says 1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from tritonclient.grpc import model_config_pb2 as schema

from converter.check.feeding import quantized, typed
from converter.errors import UsageError
from converter.samples import Sample
from emitters.packaging.samples import file_of
from emitters.serving.triton.config import Port

FOLDER = "warmup"
"""The folder that Triton looks into; no other name will do."""


@dataclass(frozen=True)
class Tensor:
    """One input of one warm-up request: a file's name, its dims and its bytes."""

    port: Port
    file: str
    dims: tuple[int, ...]
    data: bytes


def collect(
    ports: Sequence[Port], samples: Iterable[Sample], count: int, *, batched: bool
) -> list[list[Tensor]]:
    """The first samples, each as one tensor an input.

    Args:
        ports: The inputs.
        samples: The samples.
        count: How many.
        batched: Whether Triton batches: a tensor then lacks the batch.

    Raises:
        UsageError: A sample doesn't fit the model's inputs.
    """
    if count < 0:
        raise UsageError(f"--warmup {count}: it can't be negative", code="option-value")
    return [
        list(_tensors(ports, sample, number, batched))
        for number, sample in enumerate(islice(samples, count), start=1)
    ]


def _tensors(ports: Sequence[Port], sample: Sample, number: int, batched: bool) -> Iterator[Tensor]:
    for index, port in enumerate(ports):
        name = port.spec.name
        if name not in sample.feeds:
            raise UsageError(
                f"the sample {sample.name} has nothing for the input {name}",
                code="samples-mismatch",
            )
        array = np.asarray(sample.feeds[name])
        dims = _dims(port, array, sample, batched)
        file = file_of(number, index, name, "bin")
        yield Tensor(port, file, dims, encode(array, port, sample))


def _dims(
    port: Port, array: np.ndarray[Any, Any], sample: Sample, batched: bool
) -> tuple[int, ...]:
    shape = array.shape[1:] if batched else array.shape
    dims = (1,) if port.scalar and not shape else shape
    fits = len(dims) == len(port.dims) and all(
        size >= 1 and wanted in (-1, size) for size, wanted in zip(dims, port.dims, strict=True)
    )
    if not fits or (batched and array.shape[:1] != (1,)):
        raise UsageError(
            f"the sample {sample.name} can't warm up the server: its {port.spec.name} has "
            f"the shape {list(array.shape)}, but the model takes {port.spec.describe()}",
            code="samples-mismatch",
        )
    return dims


def encode(array: np.ndarray[Any, Any], port: Port, sample: Sample) -> bytes:
    """A tensor's bytes as Triton's raw formats have them.

    Args:
        array: The tensor, of any shape.
        port: The input.
        sample: What it is of, for the message.

    Returns:
        The elements row by row, little-endian; strings each behind their length in four bytes.

    Raises:
        UsageError: The array's dtype isn't the input's.
    """
    wanted = port.spec.dtype
    if wanted == "string":
        return b"".join(_packed(item) for item in array.reshape(-1).tolist())
    if wanted == "bfloat16" and array.dtype != np.uint16:  # which would be its bits already
        array = array.astype(ml_dtypes.bfloat16).view(np.uint16)
    elif wanted == "float16" and array.dtype == np.float32:  # --io-dtype
        array = typed(array, port.spec)
    elif port.spec.scale is not None and array.dtype == np.float32:  # the same, int8 or uint8
        array = quantized(array, port.spec)
    elif wanted != "bfloat16" and array.dtype.name != wanted:
        raise UsageError(
            f"the sample {sample.name} holds {array.dtype.name} for {port.spec.name}, but "
            f"the model takes {port.spec.describe()}",
            code="samples-mismatch",
        )
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()


def _packed(item: Any) -> bytes:
    data = item if isinstance(item, bytes) else str(item).encode()
    return struct.pack("<I", len(data)) + data


def batch_sizes(max_batch: int, preferred: Sequence[int]) -> list[int]:
    """The batch sizes to warm up: 1, the largest, and those that the server prefers."""
    return sorted({1, *preferred, max_batch} - {0})


def fill_config(config: Any, warmups: Sequence[Sequence[Tensor]], sizes: Sequence[int]) -> None:
    """Adds an entry for every sample at every batch size; the sizes share a sample's files.

    Args:
        config: The ``ModelConfig``, which is changed.
        warmups: The samples: a tensor for each input.
        sizes: Of batches.
    """
    for size in sizes:
        for number, tensors in enumerate(warmups, start=1):
            entry = config.model_warmup.add()
            entry.name = f"batch{size}_sample{number}"
            entry.batch_size = size
            for tensor in tensors:
                item = entry.inputs[tensor.port.spec.name]
                item.data_type = schema.DataType.Value(tensor.port.type)
                item.dims.extend(tensor.dims)
                item.input_data_file = tensor.file


def write_files(folder: Path, warmups: Sequence[Sequence[Tensor]]) -> None:
    """Writes every file under ``<folder>/warmup``; no folder where there is nothing to write."""
    for tensors in warmups:
        for tensor in tensors:
            path = folder / FOLDER / tensor.file
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(tensor.data)
