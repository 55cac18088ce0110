"""Casts between all types that MIL holds."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.coreml_emitter.joined import Case, check, numpy_type
from tests.coreml_emitter.running import Array, agree, emitted, kinds, parsed

_INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "int64", "uint32", "uint64"]
_CODES = {"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
          "bool": 9, "float16": 10, "uint32": 12, "uint64": 13}  # fmt: skip


def _case(source: str, target: str, x: Array) -> Case:
    op = f"Cast<to={_CODES[target]}>"
    return Case(op, [source], target, [x], x.astype(numpy_type(target)))


def test_integers_wrap_around(tmp_path: Path) -> None:
    """In narrower types, as numpy's and ONNX Runtime's; int32 holds the wide ones."""
    cases = []
    for source, target in product(_INTEGERS, _INTEGERS):
        info = np.iinfo(source if np.iinfo(source).bits < 32 else np.int32)
        listed = [info.min, info.min + 1, -129, -1, 0, 1, 127, 128, 255, 256, 65535, info.max]
        low = 0 if source.startswith("u") or target in ("uint32", "uint64") else info.min
        x = np.asarray([number for number in listed if low <= number <= info.max], source)
        if source != target:
            cases.append(_case(source, target, x))
    check(cases, tmp_path)


def test_of_floats(tmp_path: Path) -> None:
    """Fractions go; a half is true."""
    cases = []
    targets = ["int8", "uint8", "int16", "int32", "int64", "bool", "float16", "float"]
    for source, target in product(["float", "float16"], targets):
        listed = [0.0, -0.0, 0.5, 0.99, 1.5, 2.5, 100.7]
        listed += [] if target.startswith("u") else [-0.5, -0.99, -1.5, -100.7]
        if source != target:
            cases.append(_case(source, target, np.asarray(listed, numpy_type(source))))
    check(cases, tmp_path)


def test_of_truth_values_and_integers(tmp_path: Path) -> None:
    """One and zero; what isn't zero is true."""
    cases = []
    for target in ["float", "float16", "int8", "uint16", "int64"]:
        cases.append(_case("bool", target, np.asarray([True, False])))
    for source, target in product(["int8", "uint8", "int64"], ["float", "float16", "bool"]):
        cases.append(_case(source, target, np.asarray([0, 1, 100, 127], source)))
    check(cases, tmp_path)


@pytest.mark.parametrize("between", ["int32", "bool", "float16", "uint8"])
def test_two_in_a_row(between: str) -> None:
    """coremltools joins casts: what the first one loses is lost all the same."""
    text = f"""g (float[n] x) => (float[n] f, bool[n] b, int32[n] i) {{
        a = Cast<to={_CODES[between]}>(x)
        f = Cast<to=1>(a) b = Cast<to=9>(a) i = Cast<to=6>(a)
    }}"""
    x = np.asarray([0.0, 0.25, 0.5, 1.0, 1.3, 7.7, 100.01], np.float32)
    agree(parsed(text), {"x": x}, rtol=0, atol=0)


def test_like_another(tmp_path: Path) -> None:
    """CastLike takes the type of its second operand."""
    model = parsed("g (float[n] x, int32[m] z) => (int32[n] y) { y = CastLike(x, z) }")
    agree(model, {"x": np.asarray([-1.5, 2.5], np.float32), "z": np.zeros(3, np.int32)})


def test_wider_integers_are_themselves(tmp_path: Path) -> None:
    """No operation is made where nothing changes."""
    model = parsed("g (uint8[n] x) => (int64[n] y) { y = Cast<to=7>(x) }")
    assert kinds(emitted(model, tmp_path)) in ([], ["identity"])
