"""Many nodes in one model, so that one package tests them all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from converter.ir import Model
from tests.coreml_emitter.running import Array, emitted, parsed, run_package

NUMPY = {"float": np.dtype(np.float32), "float16": np.dtype(np.float16)}


def numpy_type(name: str) -> np.dtype[np.generic]:
    """numpy's type for ONNX's name of one."""
    return NUMPY.get(name, np.dtype(name))


@dataclass(frozen=True)
class Case:
    """A node, and what it should give.

    Attributes:
        op: The operator, with attributes: ``Mod<fmod=1>``.
        inputs: Their types, as ONNX's text has them: ``int8``, ``float``.
        out: The output's.
        feeds: For each input.
        expected: The output.
    """

    op: str
    inputs: Sequence[str]
    out: str
    feeds: Sequence[Array]
    expected: Array


def model_of(cases: Sequence[Case]) -> Model:
    """A model of a node for each case."""
    inputs, outputs, nodes = [], [], []
    for number, case in enumerate(cases):
        names = [f"x{number}_{place}" for place in range(len(case.inputs))]
        kinds = zip(names, case.inputs, case.feeds, strict=True)
        inputs += [f"{kind}{_shape(feed)} {name}" for name, kind, feed in kinds]
        outputs.append(f"{case.out}{_shape(case.expected)} y{number}")
        nodes.append(f"y{number} = {case.op}({', '.join(names)})")
    body = "\n".join(nodes)
    return parsed(f"g ({', '.join(inputs)}) => ({', '.join(outputs)}) {{ {body} }}")


def _shape(array: Array) -> str:
    return f"[{', '.join(map(str, array.shape))}]" if array.shape else ""


def check(
    cases: Iterable[Case], folder: Path, *, target: int = 17, rtol: float = 0, atol: float = 0
) -> None:
    """Emits all cases as one package, and holds its outputs to what is expected."""
    listed = list(cases)
    package = emitted(model_of(listed), folder, target=target)
    feeds = {
        f"x{number}_{place}": feed
        for number, case in enumerate(listed)
        for place, feed in enumerate(case.feeds)
    }
    found: Mapping[str, Array] = run_package(package, feeds)
    for number, case in enumerate(listed):
        told = f"{case.op} of {', '.join(case.inputs)} to {case.out}"
        made = found[f"y{number}"]
        assert made.dtype == case.expected.dtype, told
        np.testing.assert_allclose(made, case.expected, rtol=rtol, atol=atol, err_msg=told)
