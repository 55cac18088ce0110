"""Whether outputs are what a case says, at onnx's own tolerances."""

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_BFLOAT16_RTOL = 2.0**-6
"""onnx/backend/test/runner: two units in the last place."""


def differences(expected: Mapping[str, Array], found: Mapping[str, Array], rtol: float,
                atol: float) -> list[str]:  # fmt: skip
    """Everything that is wrong with ``found``, in words; empty where it is right."""
    if list(found) != list(expected):
        names = (", ".join(given) or "none" for given in (found, expected))
        return ["the outputs are {}, not {}".format(*names)]
    pairs = ((name, _one(expected[name], np.asarray(found[name]), rtol, atol)) for name in expected)
    return [f"output {name}: {said}" for name, said in pairs if said]


def _one(expected: Array, found: Array, rtol: float, atol: float) -> str:
    """Names as dtype and shape; integers, booleans and strings exactly; NaN where NaN is."""
    wanted_type, found_type = _type(expected), _type(found)
    if (found_type, found.shape) != (wanted_type, expected.shape):
        return f"is {found_type}{list(found.shape)}, not {wanted_type}{list(expected.shape)}"
    if wanted_type == "bfloat16":
        rtol = max(rtol, _BFLOAT16_RTOL)
    exact = wanted_type == "string" or expected.dtype.kind in "biu"
    if not exact and expected.dtype.kind not in "fc":  # ml_dtypes': numpy knows no promotion
        expected, found = expected.astype(np.float32), found.astype(np.float32)
    try:
        if exact:
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, rtol, atol)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""


def _type(array: Array) -> str:
    return "string" if array.dtype.kind in "OUS" else array.dtype.name
