"""Activations, Clip and Softmax: attributes, edges, float16."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.coreml_emitter.joined import Case, check, numpy_type
from tests.coreml_emitter.running import (
    Array,
    agree,
    emitted,
    kinds,
    numbers,
    parsed,
    refusals,
    run_package,
    with_weights,
)

_X = np.asarray(
    [-1e4, -30.0, -3.0, -1.0, -0.5, -1e-3, 0.0, 1e-3, 0.5, 1.0, 3.0, 6.5, 1e4], np.float32
)
_NODES = [
    "Relu",
    "LeakyRelu",
    "LeakyRelu<alpha=-0.3>",
    "Elu",
    "Elu<alpha=0.5>",
    "Selu",
    "Selu<alpha=0.7, gamma=2.0>",
    "Celu",
    "Celu<alpha=2.5>",
    "ThresholdedRelu",
    "ThresholdedRelu<alpha=0.5>",
    "HardSigmoid",
    "HardSigmoid<alpha=0.4, beta=0.3>",
    "HardSwish",
    "Mish",
    "Softplus",
    "Softsign",
    "Gelu",
    'Gelu<approximate="tanh">',
    "Shrink<lambd=0.7, bias=0.2>",
]


@pytest.mark.parametrize("target", [15, 17])
def test_activations(target: int) -> None:
    """All of them, with and without attributes."""
    outputs = ", ".join(f"float[n] y{i}" for i in range(len(_NODES)))
    nodes = " ".join(f"y{i} = {node}(x)" for i, node in enumerate(_NODES))
    agree(parsed(f"g (float[n] x) => ({outputs}) {{ {nodes} }}"), {"x": _X}, target=target)


@pytest.mark.parametrize("target", [15, 17])
def test_in_float16(target: int, tmp_path: Path) -> None:
    """Parameters are the variable's type; nothing is widened but at iOS15's border."""
    chosen = ["LeakyRelu", "Elu<alpha=0.5>", "Selu", "Celu<alpha=2.5>", "HardSwish", "Gelu"]
    outputs = ", ".join(f"float16[n] y{i}" for i in range(len(chosen)))
    nodes = " ".join(f"y{i} = {node}(x)" for i, node in enumerate(chosen))
    package = emitted(
        parsed(f"g (float16[n] x) => ({outputs}) {{ {nodes} }}"), tmp_path, target=target
    )
    made = kinds(package)
    assert "cast" not in (made[1 : -len(chosen)] if target == 15 else made)
    real = parsed(f"g (float[n] x) => ({outputs}) {{ {nodes} }}".replace("float16", "float"))
    found = run_package(package, {"x": _X.astype(np.float16)})
    expected = agree(real, {"x": _X.astype(np.float16).astype(np.float32)})
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=4e-3, atol=1e-3, err_msg=name)


@pytest.mark.parametrize(
    ("shape", "slope", "kind"),
    [
        ((2, 3, 4, 5), (3, 1, 1), "prelu"),
        ((2, 3, 4, 5), (1, 3, 1, 1), "prelu"),
        ((2, 3, 4, 5), (4, 5), "mul"),
        ((2, 3, 4, 5), (1,), "mul"),
        ((2, 3, 4), (3, 1), "mul"),
        ((2, 3), (3,), "mul"),
    ],
)
def test_prelu(shape: tuple[int, ...], slope: tuple[int, ...], kind: str, tmp_path: Path) -> None:
    """MIL's own for channels of images, arithmetic elsewhere."""
    dims = ",".join(("n", *map(str, shape[1:])))
    text = f"g (float[{dims}] x, float[{','.join(map(str, slope))}] s) => (float[{dims}] y)"
    model = with_weights(parsed(text + "{ y = PRelu(x, s) }"), s=numbers(*slope, seed=1))
    agree(model, {"x": numbers(*shape)}, tmp_path)
    assert kind in kinds(tmp_path / "model.mlpackage")


def test_prelu_of_a_computed_slope(tmp_path: Path) -> None:
    """Of integers, too."""
    x, slope = np.asarray([-3, 0, 4], np.int32), np.asarray([2], np.int32)
    expected = np.asarray([-6, 0, 4], np.int32)
    check([Case("PRelu", ["int32", "int32"], "int32", [x, slope], expected)], tmp_path)


# -- Clip --------------------------------------------------------------------------------


def _clip(low: float | None, high: float | None, dtype: str = "float") -> str:
    code = {"float": 1, "float16": 10, "int32": 6, "int64": 7, "uint8": 2}[dtype]
    parts, names = [], ["x"]
    for name, limit in (("low", low), ("high", high)):
        if limit is None:
            names.append("")
            continue
        kind = "float" if dtype.startswith("float") else "int"
        number = repr(float(limit)) if kind == "float" else str(int(limit))
        parts.append(
            f"{name}_ = Constant<value_{kind}={number}>() {name} = Cast<to={code}>({name}_)"
        )
        names.append(name)
    given = ", ".join(names).rstrip(", ")
    return f"g ({dtype}[n] x) => ({dtype}[n] y) {{ {' '.join(parts)} y = Clip({given}) }}"


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (-0.5, 0.7, ["clip"]),
        (0.0, 6.0, ["relu6"]),
        (0.0, None, ["relu"]),
        (None, 0.7, ["minimum"]),
        (-0.5, None, ["maximum"]),
        (2.0, 1.0, ["maximum", "minimum"]),
        (1.0, 1.0, ["maximum", "minimum"]),
        (1e-6, 3.4e38, ["clip"]),
    ],
)
def test_clip(low: float | None, high: float | None, kind: list[str], tmp_path: Path) -> None:
    """By what says most; limits that cross give the upper one."""
    package = emitted(parsed(_clip(low, high)), tmp_path)
    assert kinds(package) == kind
    x = _X[1:-1]  # rounded to limits of its own type
    found = run_package(package, {"x": x})["y"]
    lower, upper = (np.float32(np.nan if limit is None else limit) for limit in (low, high))
    np.testing.assert_array_equal(found, np.fmin(np.fmax(x, lower), upper))


def test_clip_of_integers(tmp_path: Path) -> None:
    """Limits that int32 doesn't hold don't bind."""
    listed = [("int64", -3, 2**63 - 1), ("int32", -3, 5), ("uint8", 3, 200), ("int64", -(2**63), 9)]
    for number, (dtype, low, high) in enumerate(listed):
        x = np.asarray([0, 1, 4, 7, 100], dtype)
        package = emitted(parsed(_clip(low, high, dtype)), tmp_path / str(number))
        assert run_package(package, {"x": x})["y"].tolist() == np.clip(x, low, high).tolist()


def test_clip_to_computed_limits() -> None:
    """Which are inputs here."""
    text = "g (float[n] x, float low, float high) => (float[n] y) { y = Clip(x, low, high) }"
    agree(parsed(text), {"x": _X, "low": _scalar(-0.7), "high": _scalar(2.0)})


def _scalar(x: float) -> Array:
    return np.asarray(x, np.float32)


# -- Softmax -----------------------------------------------------------------------------


def test_along_an_axis() -> None:
    """Every axis; a free one, too. Large numbers don't overflow."""
    outputs, nodes = [], []
    for op, axis in product(("Softmax", "LogSoftmax", "Hardmax"), (-1, 0, 1)):
        name = f"{op}{axis % 3}"
        outputs.append(f"float[n,3,m] {name}")
        nodes.append(f"{name} = {op}<axis={axis}>(x)")
    text = f"g (float[n,3,m] x) => ({', '.join(outputs)}) {{ {' '.join(nodes)} }}"
    agree(parsed(text), [{"x": numbers(2, 3, 4) * scale} for scale in (1, 1000)])


def test_hardmax_of_equal_numbers() -> None:
    """The first of them."""
    model = parsed("g (float[n,4] x) => (float[n,4] y) { y = Hardmax(x) }")
    x = np.asarray([[1, 3, 3, 2], [5, 5, 5, 5], [0, 1, 0, 1]], np.float32)
    assert agree(model, {"x": x})["y"].argmax(1).tolist() == [1, 0, 1]


def test_softmax_of_a_masked_row(tmp_path: Path) -> None:
    """All scores at float16's least number: the same share for each, not NaN."""
    text = "g (float16[n,4] x, float16[n,4] m) => (float16[n,4] y) { a = Add(x, m) y = Softmax(a) }"
    least = np.full((2, 4), np.finfo(np.float16).min, np.float16)
    feeds = {"x": np.zeros((2, 4), np.float16), "m": least}
    assert (run_package(emitted(parsed(text), tmp_path), feeds)["y"] == 0.25).all()


def test_celu_that_is_refused() -> None:
    """With a negative alpha its lower part isn't elu's."""
    model = parsed("g (float[n] x) => (float[n] y) { y = Celu<alpha=-1.0>(x) }")
    assert [refused.reason for refused in refusals(model)] == ["a Celu whose alpha is -1.0"]


def test_dropout() -> None:
    """The operand, and a mask that keeps everything, whatever its sizes are."""
    text = "g (float[n,3] x) => (float[n,3] y, bool[n,3] m) { y, m = Dropout(x) }"
    agree(parsed(text), [{"x": numbers(size, 3)} for size in (1, 4)])
    agree(parsed(text.replace("n,", "2,")), {"x": numbers(2, 3)})


def test_types(tmp_path: Path) -> None:
    """Relu of integers."""
    cases = []
    for dtype in ("int8", "int32"):
        x = np.asarray([-5, 0, 5], numpy_type(dtype))
        cases.append(Case("Relu", [dtype], dtype, [x], np.maximum(x, 0)))
    check(cases, tmp_path)
