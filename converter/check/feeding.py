"""Feeds a session samples whose floats are of another type than its inputs.

With ``--io-dtype float16`` an artifact's inputs are float16, and the samples are what the source
takes. Each float array is cast to the type that the session's input has. With ``--io-dtype int8``
they are integers with a scale: the nearest stand for the samples, and outputs are compared as the
real numbers that they stand for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from converter.check.sums import Array, is_float
from converter.errors import UsageError
from converter.ir.model import TensorSpec, dtype_from_name
from converter.options.request import Request
from converter.options.resolved import io_dtype_of
from converter.runtime.session import Session, Timing

NARROW = ("float16", "bfloat16")


class Fed:
    """A session that takes floats of any size: a :class:`converter.runtime.session.Session` itself.

    Args:
        session: What runs.
        real: Whether its integers with scales are taken and given as the real numbers that they
            stand for.
    """

    def __init__(self, session: Session, *, real: bool = False) -> None:
        self._session = session
        self._specs = {spec.name: spec for spec in session.inputs if spec.is_float}
        self._stored: dict[str, TensorSpec] = {}
        self._given: dict[str, TensorSpec] = {}
        if real:
            self._stored = {spec.name: spec for spec in session.inputs if spec.scale is not None}
            self._given = {spec.name: spec for spec in session.outputs if spec.scale is not None}

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The session's own, with their own types, but for integers taken as real numbers."""
        return tuple(_real(s) if s.name in self._stored else s for s in self._session.inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The session's own, but for integers given as real numbers."""
        return tuple(_real(s) if s.name in self._given else s for s in self._session.outputs)

    @property
    def runtime(self) -> dict[str, Any]:
        return self._session.runtime

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name.

        Raises:
            UsageError: A value is too large for the input's type.
        """
        found = self._session.run(self.cast(feeds))
        for name, spec in self._given.items():
            found[name] = dequantized(found[name], spec)
        return found

    def time(self, feeds: Mapping[str, Array], runs: int, concurrency: int = 1) -> Timing:
        """Times the session on arrays that are of its types already."""
        return self._session.time(self.cast(feeds), runs, concurrency)

    def close(self) -> None:
        self._session.close()

    def cast(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays that the session itself is given."""
        made = dict(feeds)
        for name, array in feeds.items():
            if name in self._specs:
                made[name] = typed(array, self._specs[name])
            elif name in self._stored and is_float(array.dtype):
                made[name] = quantized(array, self._stored[name])
        return made


def typed(array: Array, spec: TensorSpec) -> Array:
    """A float array in the type of a float input; any other array as it is.

    Raises:
        UsageError: It holds a finite value that isn't finite in that type.
    """
    if not spec.is_float or not is_float(array.dtype) or array.dtype.name == spec.dtype:
        return array
    with np.errstate(over="ignore"):
        made: Array = array.astype(dtype_from_name(spec.dtype).numpy())
    if not np.array_equal(np.isfinite(made), np.isfinite(array)):
        largest = float(np.max(np.abs(array[np.isfinite(array)])))
        raise UsageError(
            f"a sample of {spec.name} has the value {largest:.6g}, which is more than "
            f"{spec.dtype} can hold",
            code="samples-mismatch",
            hint="Leave --io-dtype out. Then inputs and outputs stay in float32.",
        )
    return made


def takes_integers(request: Request, precision: str) -> bool:
    """Whether an artifact has integers for the source's float32 (``--io-dtype int8``)."""
    return io_dtype_of(request, precision) in ("int8", "uint8")


def quantized(array: Array, spec: TensorSpec) -> Array:
    """Real numbers as the nearest integers of an input, clipped to its range."""
    info = np.iinfo(spec.dtype)
    stored = np.rint(array / np.float32(spec.scale or 1)) + (spec.zero_point or 0)
    made: Array = np.clip(stored, info.min, info.max).astype(spec.dtype)
    return made


def dequantized(array: Array, spec: TensorSpec) -> Array:
    """The real numbers, in float32, that an output's integers stand for."""
    made: Array = array.astype(np.float32) - np.float32(spec.zero_point or 0)
    return made * np.float32(spec.scale or 1)


def _real(spec: TensorSpec) -> TensorSpec:
    return replace(spec, dtype="float32", scale=None, zero_point=None)


def widened(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Inputs as the source has them: floats of 16 bits are float32."""
    return tuple(replace(spec, dtype="float32") if spec.dtype in NARROW else spec for spec in specs)
