"""Whether outputs are what a case says, at onnx's own tolerances."""

from collections.abc import Mapping
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


def differences(expected: Mapping[str, Array], found: Mapping[str, Array], rtol: float,
                atol: float) -> list[Difference]:  # fmt: skip
    """Everything that is wrong with ``found``; empty where it is right."""
    if list(found) != list(expected):
        return [Difference(f"the outputs are {_listed(found)}, not {_listed(expected)}")]
    pairs = ((name, _one(expected[name], np.asarray(found[name]), rtol, atol)) for name in expected)
    return [Difference(f"output {name}: {said[0]}", said[1]) for name, said in pairs if said]


def _one(expected: Array, found: Array, rtol: float,
         atol: float) -> tuple[str, float | None] | None:  # fmt: skip
    """Names as dtype and shape; integers, booleans and strings exactly; NaN where NaN is."""
    wanted_type, found_type = _type(expected), _type(found)
    if (found_type, found.shape) != (wanted_type, expected.shape):
        shapes = f"{found_type}{list(found.shape)}, not {wanted_type}{list(expected.shape)}"
        return f"is {shapes}", None
    if wanted_type == "string" or expected.dtype.kind in "biu":
        wrong = np.asarray(expected != found)
        if expected.dtype.kind not in "iu":
            return (_counted(expected, found, wrong), None) if wrong.any() else None
        off = np.abs(expected.astype(object) - found.astype(object))
        return (_counted(expected, found, wrong), float(np.max(off))) if wrong.any() else None
    if wanted_type == "bfloat16":
        rtol = max(rtol, _BFLOAT16_RTOL)
    if expected.dtype.kind not in "fc":  # ml_dtypes' own: numpy knows no promotion for them
        expected, found = expected.astype(np.float32), found.astype(np.float32)
    if np.allclose(found, expected, rtol=rtol, atol=atol, equal_nan=True):
        return None
    with np.errstate(invalid="ignore"):
        error = np.abs(found.astype(np.complex128) - expected.astype(np.complex128))
        close = np.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    return _counted(expected, found, ~close), float(np.max(error[~close]))


def _counted(expected: Array, found: Array, wrong: Array) -> str:
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    values = f"{found[at]!s}, not {expected[at]!s}"
    return f"{int(wrong.sum())} of {wrong.size} values are wrong; at {list(at)} {values}"


def _type(array: Array) -> str:
    return "string" if array.dtype.kind in "OUS" else array.dtype.name


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "none"
