"""Constants in float16 or bfloat16: whether they bear it, and the conversion.

Rounding to float16 costs a constant about 2^-12 of its norm. It costs more where elements lie
below float16's normal numbers (2^-14), and everything where they lie beyond 65504.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np
import onnx_ir

from converter.errors import ModelError
from converter.ir.external import STAT, file_stat

Array = np.ndarray[Any, Any]

_PIECE = 1 << 22
_LOSS = 1e-3
"""Share of a constant's norm that rounding may cost; three times what it costs ordinarily."""


class Format:
    """A floating-point format of 16 bits.

    Attributes:
        name: ``float16`` or ``bfloat16``.
        type: Its ONNX type.
        numpy: Its numpy type.
        largest: Its largest finite number.
        normal: Its smallest normal number: below it precision goes.
        exact: The largest integer up to which all integers are exact.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.type = {
            "float16": onnx_ir.DataType.FLOAT16,
            "bfloat16": onnx_ir.DataType.BFLOAT16,
        }[name]
        self.numpy = np.dtype(np.float16 if name == "float16" else ml_dtypes.bfloat16)
        info: Any = ml_dtypes.finfo(self.numpy)  # type: ignore[no-untyped-call]
        self.largest, self.normal = float(info.max), float(info.smallest_normal)
        self.exact = 2 ** (info.nmant + 1)


@dataclass(frozen=True)
class Damage:
    """What a format does to a constant.

    Attributes:
        kind: ``large``: it ends before; ``small``: it rounds too coarsely; empty for neither.
        words: Which, for the report.
    """

    kind: Literal["", "large", "small"] = ""
    words: str = ""


UNHARMED = Damage()


def damage(array: Array, into: Format) -> Damage:
    """Whether a float32 constant bears the format."""
    flat = array.reshape(-1)
    squares, count = 0.0, 0
    for start in range(0, flat.size, _PIECE):
        piece = flat[start : start + _PIECE]
        largest = max(float(piece.max()), -float(piece.min()))
        if not largest <= into.largest:  # NaN and infinities come here too
            finite = piece[np.isfinite(piece)]
            largest = float(np.abs(finite).max()) if finite.size else 0.0
            if largest > into.largest:
                words = f"its constant reaches {largest:.3g}, {into.name} ends at {into.largest:g}"
                return Damage("large", words)
            piece = finite
        with np.errstate(over="ignore"):
            squares += float(np.dot(piece, piece))
        count += piece.size
    if squares == 0 or (squares / count) ** 0.5 > into.normal * 4:
        return UNHARMED
    return _rounding_loss(flat, into)


def _rounding_loss(flat: Array, into: Format) -> Damage:
    lost = norm = 0.0
    for start in range(0, flat.size, _PIECE):
        piece = flat[start : start + _PIECE].astype(np.float64)
        piece = piece[np.isfinite(piece)]
        lost += float(np.sum((piece.astype(into.numpy).astype(np.float64) - piece) ** 2))
        norm += float(np.sum(piece**2))
    if not norm or lost <= norm * _LOSS**2:
        return UNHARMED
    largest = float(np.abs(flat[np.isfinite(flat)]).max())
    return Damage("small", f"its constant, at most {largest:.3g}, is too small for {into.name}")


def smallest(array: Array) -> float:
    """The smallest magnitude above zero; 0 where there is none."""
    sizes = np.abs(array[np.isfinite(array)])
    sizes = sizes[sizes > 0]
    return float(sizes.min()) if sizes.size else 0.0


def converted(
    tensor: onnx_ir.TensorProtocol, into: Format, name: str | None
) -> onnx_ir.TensorProtocol:
    """A constant in half a precision; one in a file of its own is converted where it is used.

    Args:
        tensor: float32.
        into: The format.
        name: The new tensor's name.

    Raises:
        ModelError: On use: the file of the weights was changed since it was read.
    """
    if not isinstance(tensor, onnx_ir.ExternalTensor):
        return _now(tensor, into, name)
    stat = tensor.meta.get(STAT)

    def read() -> onnx_ir.TensorProtocol:
        if stat is not None and file_stat(Path(tensor.path)) != stat:
            raise ModelError(
                f"the file of the model's weights was changed since it was read: {tensor.location}",
                code="source-changed",
            )
        return _now(tensor, into, name)

    return onnx_ir.LazyTensor(read, into.type, onnx_ir.Shape(tensor.shape.numpy()), name=name)


def _now(tensor: onnx_ir.TensorProtocol, into: Format, name: str | None) -> onnx_ir.TensorProtocol:
    with np.errstate(over="ignore"):
        rounded = tensor.numpy().astype(into.numpy)
    return onnx_ir.Tensor(rounded, dtype=into.type, name=name)
