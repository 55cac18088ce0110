"""Weights that lie in files, mapped for as long as their arrays are used."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
import onnx_ir

_UNMAPPED_FROM = 1 << 20
"""Bytes from which a weight isn't kept mapped: of less, mapping it again takes too long."""


_LOADING = Lock()


class Mapped(onnx_ir.ExternalTensor):
    """A weight in a file, mapped for as long as its array is used; onnx_ir's stays mapped, and
    whatever was looked at of a file stays resident."""

    __slots__ = ()

    def numpy(self) -> np.ndarray[Any, Any]:
        found: np.ndarray[Any, Any] = onnx_ir.ExternalTensor.numpy(self._opened())
        return found

    def tobytes(self) -> bytes:
        return onnx_ir.ExternalTensor.tobytes(self._opened())

    def __array__(self, dtype: Any = None) -> np.ndarray[Any, Any]:
        return self.numpy().__array__(dtype)

    def _load(self) -> None:
        """Once, whichever threads look at it at a time: steps and the cache do."""
        with _LOADING:
            if self._array is None:
                onnx_ir.ExternalTensor._load(self)  # type: ignore[no-untyped-call]

    def _opened(self) -> Mapped:
        """Itself where it is small, else another of the same bytes, which nobody keeps."""
        if self.nbytes < _UNMAPPED_FROM:
            return self
        self._check_validity()
        where = self.location, self.offset, self.length, self.dtype
        return type(self)(*where, shape=self.shape, name=self.name or "", base_dir=self.base_dir)


class Linked(Mapped):
    """A weight in a file of ours, which may have several hard links."""

    __slots__ = ()

    def _check_path_containment(self) -> None:
        """Nothing: onnx_ir refuses whatever has links, for what a user's folder may be led to."""


def copied(tensor: onnx_ir.ExternalTensor) -> onnx_ir.LazyTensor:
    """A weight as one that lies in memory, for files that it is written into: its bytes go from
    file to file."""
    shape = onnx_ir.Shape(tensor.shape.numpy())
    return onnx_ir.LazyTensor(lambda: tensor, tensor.dtype, shape, name=tensor.name)
