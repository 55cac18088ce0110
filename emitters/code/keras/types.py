"""Types of elements as Keras calls them."""

from __future__ import annotations

from converter.ir.refused import Refused

_KNOWN = frozenset({
    *("float16", "float32", "float64", "bfloat16", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
})  # fmt: skip


def keras_type(name: str) -> str:
    """``"float32"`` in quotes; raises Refused where Keras has no such type."""
    if name not in _KNOWN:
        raise Refused(f"Keras has no tensors of {name}", "cast them to float32 or int64")
    return f'"{name}"'


def dtype_argument(name: str) -> str | None:
    """``dtype`` of a layer whose tensors aren't float32."""
    return None if name == "float32" else keras_type(name)


def is_whole(name: str) -> bool:
    """Whether a type is of integers."""
    return name.startswith(("int", "uint"))
