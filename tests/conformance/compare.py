"""Whether outputs are what a case says, at onnx's own tolerances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_BFLOAT16_RTOL = 2.0**-6
"""onnx/backend/test/runner: two units in the last place."""


@dataclass(frozen=True)
class Difference:
    """What is wrong with an output.

    Attributes:
        reason: In words.
        max_abs: The largest absolute error; None where that means nothing.
    """

    reason: str
    max_abs: float | None = None


def differences(
    expected: Mapping[str, Array], found: Mapping[str, Array], rtol: float, atol: float
) -> list[Difference]:
    """Everything that is wrong with ``found``; empty where it is right."""
    if list(found) != list(expected):
        return [Difference(f"the outputs are {_listed(found)}, not {_listed(expected)}")]
    pairs = ((name, _one(expected[name], np.asarray(found[name]), rtol, atol)) for name in expected)
    return [
        Difference(f"output {name}: {wrong.reason}", wrong.max_abs)
        for name, wrong in pairs
        if wrong
    ]


def _one(expected: Array, found: Array, rtol: float, atol: float) -> Difference | None:
    """Names as dtype and shape; integers, booleans and strings exactly; NaN where NaN is."""
    wanted_type, found_type = _type(expected), _type(found)
    if (found_type, found.shape) != (wanted_type, expected.shape):
        shapes = f"{found_type}{list(found.shape)}, not {wanted_type}{list(expected.shape)}"
        return Difference(f"is {shapes}")
    if wanted_type == "string" or expected.dtype.kind in "biu":
        return _exactly(expected, found)
    if wanted_type == "bfloat16":
        rtol = max(rtol, _BFLOAT16_RTOL)
    if expected.dtype.kind not in "fc":  # ml_dtypes' own: numpy knows no promotion for them
        expected, found = expected.astype(np.float32), found.astype(np.float32)
    if np.allclose(found, expected, rtol=rtol, atol=atol, equal_nan=True):
        return None
    with np.errstate(invalid="ignore"):
        error = np.abs(found.astype(np.complex128) - expected.astype(np.complex128))
        close = np.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    largest = float(np.max(error[~close]))
    return Difference(_counted(expected, found, ~close), largest)


def _exactly(expected: Array, found: Array) -> Difference | None:
    wrong = np.asarray(expected != found)
    if not wrong.any():
        return None
    largest = None
    if expected.dtype.kind in "iu":
        largest = float(np.max(np.abs(expected.astype(object) - found.astype(object))))
    return Difference(_counted(expected, found, wrong), largest)


def _counted(expected: Array, found: Array, wrong: Array) -> str:
    where: Sequence[int] = [int(i) for i in np.argwhere(wrong)[0]] if wrong.ndim else []
    at = tuple(where)
    return (
        f"{int(wrong.sum())} of {wrong.size} values are wrong; at {list(where)} "
        f"{found[at]!s}, not {expected[at]!s}"
    )


def _type(array: Array) -> str:
    return "string" if array.dtype.kind in "OUS" else array.dtype.name


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "none"
