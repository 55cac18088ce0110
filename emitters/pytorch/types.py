"""Types of elements as PyTorch calls them."""

from __future__ import annotations

from converter.ir.refused import Refused

_KNOWN = frozenset({
    *("float16", "float32", "float64", "bfloat16", "bool", "complex64", "complex128"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
})  # fmt: skip

WIDE = "torch.int64"
"""What holds the integers whose types have next to no kernels."""


def torch_type(name: str) -> str:
    """``torch.float32`` of ``float32``; raises Refused where there is none."""
    if name not in _KNOWN:
        raise Refused(f"PyTorch has no tensors of {name}", "cast them to float32 or int64")
    return f"torch.{name}"


def needs_wide(name: str) -> bool:
    """Whether PyTorch has next to no kernels for a type."""
    return name in ("uint16", "uint32", "uint64")
