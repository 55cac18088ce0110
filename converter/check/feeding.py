"""Feeds a session samples whose floats are of another type than its inputs.

With ``--io-dtype float16`` an artifact's inputs are float16, and the samples are what the source
takes. Each float array is cast to the type that the session's input has; nothing else is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from converter.check.metrics import Array, is_float
from converter.errors import UsageError
from converter.ir import TensorSpec, dtype_from_name
from converter.plugins import Session, Timing

NARROW = ("float16", "bfloat16")


class Fed:
    """A session that takes floats of any size: a :class:`converter.plugins.Session` itself."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._specs = {spec.name: spec for spec in session.inputs if spec.is_float}

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The session's own, with their own types."""
        return self._session.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The session's own."""
        return self._session.outputs

    @property
    def runtime(self) -> dict[str, Any]:
        """What really runs."""
        return self._session.runtime

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name.

        Raises:
            UsageError: A value is too large for the input's type.
        """
        return self._session.run(self._cast(feeds))

    def time(self, feeds: Mapping[str, Array], runs: int, concurrency: int = 1) -> Timing:
        """Times the session on arrays that are of its types already."""
        return self._session.time(self._cast(feeds), runs, concurrency)

    def close(self) -> None:
        """Closes the session."""
        self._session.close()

    def _cast(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return {
            name: typed(array, self._specs[name]) if name in self._specs else array
            for name, array in feeds.items()
        }


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
            f"a sample of {spec.name} reaches {largest:.6g}, more than {spec.dtype} holds",
            hint="Leave --io-dtype out: inputs and outputs stay in float32.",
        )
    return made


def widened(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Inputs as the source has them: floats of 16 bits are float32."""
    return tuple(replace(spec, dtype="float32") if spec.dtype in NARROW else spec for spec in specs)
