"""Functions of one number: the same as ONNX Runtime's, at the ends of their ranges, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.coreml_emitter.joined import Case, check
from tests.coreml_emitter.running import agree, emitted, kinds, parsed, run_package

_EDGES = np.asarray(
    [-np.inf, -1e30, -300.0, -2.5, -1.5, -1.0, -0.5, -0.3, -1e-4, -0.0, 0.0, 1e-4, 0.3, 0.5, 0.9999,
     1.0, 1.0001, 1.5, 1.9, 2.0, 2.5, 3.5, 300.0, 1e30, np.inf, np.nan],
    np.float32,
)  # fmt: skip
_EVERYWHERE = ["Abs", "Atan", "Ceil", "Erf", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Round",
               "Sign", "Softsign", "Sqrt", "Tanh"]  # fmt: skip
_NEAR = ["Acos", "Acosh", "Asin", "Asinh", "Atanh", "Cos", "Cosh", "Sigmoid", "Sin", "Sinh",
         "Softplus", "Tan"]  # fmt: skip
"""Those whose value at infinity no document of MIL's says, or whose period is finer than 1e30."""


@pytest.mark.parametrize("target", [15, 18])
def test_functions(target: int) -> None:
    """Wherever they have a value, and none where they have none."""
    nodes = [f"{op} = {op}({'x' if op in _EVERYWHERE else 'z'})" for op in _EVERYWHERE + _NEAR]
    outputs = [f"float[{'n' if op in _EVERYWHERE else 'm'}] {op}" for op in _EVERYWHERE + _NEAR]
    text = f"g (float[n] x, float[m] z) => ({', '.join(outputs)}) {{ {' '.join(nodes)} }}"
    feeds = {"x": _EDGES, "z": _EDGES[np.abs(_EDGES) < 10]}
    found = agree(parsed(text), feeds, target=target)
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = {"Neg": -_EDGES, "Ceil": np.ceil(_EDGES), "Reciprocal": 1 / _EDGES}
    for name, expected in plain.items():
        some = ~np.isnan(expected)
        assert np.array_equal(np.signbit(found[name][some]), np.signbit(expected[some])), name


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


def test_epsilons_are_none(tmp_path: Path) -> None:
    """MIL's log and inverse add a little, unless told not to."""
    text = "g (float[n] x) => (float[n] a, float[n] b) { a = Log(x) b = Reciprocal(x) }"
    found = run_package(emitted(parsed(text), tmp_path), {"x": np.zeros(1, np.float32)})
    assert (found["a"].item(), found["b"].item()) == (-np.inf, np.inf)


def test_integers(tmp_path: Path) -> None:
    """What has no positive counterpart wraps around."""
    listed = [
        ("Abs", "int8", [-128, -127, 5], [-128, 127, 5]),
        ("Abs", "int32", [-(2**31) + 1, 3], [2**31 - 1, 3]),
        ("Neg", "int8", [-128, -127, 5], [-128, 127, -5]),
        ("Neg", "int16", [-(2**15), 7], [-(2**15), -7]),
        ("Sign", "int64", [-5, 0, 9], [-1, 0, 1]),
        ("Sign", "uint8", [0, 255], [0, 1]),
    ]
    cases = [
        Case(op, [dtype], dtype, [np.asarray(x, dtype)], np.asarray(expected, dtype))
        for op, dtype, x, expected in listed
    ]
    check(cases, tmp_path)


def test_scalar() -> None:
    """Without axes, from the input to the output."""
    model = parsed("g (float x) => (float y) { a = Abs(x) y = Sqrt(a) }")
    agree(model, {"x": np.asarray(-4.0, np.float32)})


def test_one_operation_each(tmp_path: Path) -> None:
    """Nothing is around what MIL has."""
    text = "g (float[3] x) => (float[3] y) { a = Exp(x) b = Round(a) c = Log(b) y = Sqrt(c) }"
    assert kinds(emitted(parsed(text), tmp_path)) == ["exp", "round", "log", "sqrt"]


def test_sizes_that_differ(tmp_path: Path) -> None:
    """Free ones of several inputs aren't taken for the same."""
    text = """g (int8[n] a, int16[m] b, int64[p] c) => (int8[n] d, int16[m] e, int64[p] f) {
        d = Abs(a) e = Neg(b) f = Sign(c)
    }"""
    feeds = {"a": np.asarray([1, -2, 3], np.int8), "c": np.arange(-3, 4)}
    package = emitted(parsed(text), tmp_path)
    found = run_package(package, {**feeds, "b": np.asarray([5, -6], np.int16)})
    assert [array.tolist() for array in found.values()] == [
        [1, 2, 3], [-5, 6], [-1, -1, -1, 0, 1, 1, 1]
    ]  # fmt: skip
