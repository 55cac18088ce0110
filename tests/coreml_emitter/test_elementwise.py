"""Functions whose values ONNX Runtime has not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.coreml_emitter.running import emitted, parsed, run_package


@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_inverse_hyperbolic_of_large_numbers(dtype: str, tmp_path: Path) -> None:
    """No square overflows, and what is small isn't lost."""
    kind = np.float32 if dtype == "float" else np.float16
    large = 1e30 if dtype == "float" else 60000.0
    text = f"g ({dtype}[n] x) => ({dtype}[n] s, {dtype}[n] c) {{ s = Asinh(x) c = Acosh(x) }}"
    package = emitted(parsed(text), tmp_path)
    x = np.asarray([1e-3, -1e-3, 0.5, 1.0, 1.01, 2.0, 2.1, 300.0, large, -large, np.inf], kind)
    found = run_package(package, {"x": x})
    with np.errstate(invalid="ignore"):
        expected = {"s": np.arcsinh(x.astype(np.float64)), "c": np.arccosh(x.astype(np.float64))}
    for name, array in expected.items():
        tolerance = 1e-5 if dtype == "float" else 3e-3
        np.testing.assert_allclose(found[name], array, rtol=tolerance, err_msg=name)
