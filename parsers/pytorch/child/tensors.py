"""Tensors from files, from specifications, and back."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Union

import torch

from ...worker import npz
from ...worker.errors import WorkerError

DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
)

# Sizes of symbols for tracing: small for the batch; for others a size that most networks accept,
# and a different one for each, so that none is taken for another.
_BATCH_SIZE = 2
_OTHER_SIZES = 64
_OTHER_STEP = 32

Dim = Union[int, str]


class Spec(NamedTuple):
    """Name, dtype and shape of one input; a str in the shape is a symbol."""

    name: str
    dtype: str
    shape: tuple[Dim, ...]


def read_specs(inputs: Sequence[Mapping[str, Any]]) -> list[Spec]:
    """Input specifications from a request. Raises usage for an unknown dtype or a bad shape."""
    specs = []
    for item in inputs:
        spec = Spec(str(item["name"]), str(item["dtype"]), tuple(item["shape"]))
        if spec.dtype not in DTYPES:
            raise WorkerError(
                "usage", f"input {spec.name}: no dtype {spec.dtype!r}", code="option-value"
            )
        if not all(d if isinstance(d, str) else d >= 0 for d in spec.shape):
            raise WorkerError(
                "usage", f"input {spec.name}: bad shape {list(spec.shape)}", code="option-value"
            )
        specs.append(spec)
    if not specs:
        raise WorkerError("usage", "no inputs are given", code="inputs-unknown")
    return specs


def trace_sizes(specs: Sequence[Spec], sizes: Mapping[str, int]) -> dict[str, int]:
    """The size of each symbol for tracing.

    1 is raised to 2: a tracer takes a dimension of 1 for a constant.
    """
    chosen: dict[str, int] = {}
    step = 0
    for symbol in (d for spec in specs for d in spec.shape if isinstance(d, str)):
        if symbol in chosen:
            continue
        if symbol in sizes:
            chosen[symbol] = max(int(sizes[symbol]), 2)
        elif symbol in ("batch", "N"):
            chosen[symbol] = _BATCH_SIZE
        else:
            chosen[symbol] = _OTHER_SIZES + _OTHER_STEP * step
            step += 1
    return chosen


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype of one of DTYPES."""
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a torch dtype as numpy writes it, bfloat16 included."""
    return str(dtype).partition(".")[2]


def example(spec: Spec, sizes: Mapping[str, int]) -> torch.Tensor:
    """A tensor of the given spec: normal noise, zeros for integers, true for booleans."""
    shape = [sizes[d] if isinstance(d, str) else d for d in spec.shape]
    dtype = torch_dtype(spec.dtype)
    if dtype is torch.bool:
        return torch.ones(shape, dtype=dtype)
    if dtype.is_floating_point:
        generator = torch.Generator().manual_seed(0)
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.zeros(shape, dtype=dtype)


def read_feeds(path: str) -> dict[str, torch.Tensor]:
    """Tensors by name from an .npz file; dtypes are kept. Raises usage if it cannot be read."""
    try:
        return npz.read(path)
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
        raise WorkerError("usage", f"feeds {path} cannot be read: {error}", code="usage") from error


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on the CPU, of a dtype that numpy has too: bfloat16 as float32."""
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).detach().cpu()


def to_numpy(tensor: torch.Tensor) -> Any:
    """The tensor as an array of the same dtype; bfloat16, which numpy lacks, as float32."""
    return plain(tensor).numpy()


def write_arrays(path: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write an .npz file, uncompressed, of any names; bfloat16 as float32."""
    npz.write(path, {name: plain(tensor) for name, tensor in tensors.items()})


def in_order(
    names: Sequence[str],
    feeds: Mapping[str, torch.Tensor],
    dtypes: Mapping[str, str] | None = None,
) -> list[torch.Tensor]:
    """Feeds in order.

    Args:
        names: The order.
        feeds: Tensors by name.
        dtypes: The inputs' types by name: what is bfloat16 is cast.

    Raises:
        WorkerError: ``usage`` where one lacks.
    """
    missing = [name for name in names if name not in feeds]
    if missing:
        raise WorkerError(
            "usage", f"feeds lack {', '.join(missing)}; they hold {list(feeds)}", code="usage"
        )
    values = []
    for name in names:
        cast = dtypes is not None and dtypes.get(name) == "bfloat16"
        values.append(feeds[name].to(torch.bfloat16) if cast else feeds[name])
    return values
