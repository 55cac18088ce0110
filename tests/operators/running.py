"""The targets, and how a case is put through each."""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx_ir
import pytest
from onnx.reference import ReferenceEvaluator

from converter.errors import ModelyardError
from converter.ir.model import Model
from converter.protocols.emitter import Artifact
from converter.runtime.ort import OrtSession
from emitters.coreml.emitter import CoremlEmitter
from emitters.tflite.emitter import TfliteEmitter
from emitters.tflite.lowering import lower
from emitters.tflite.session import open_file
from tests.coreml_emitter import running as coreml
from tests.operators.cases import Array, Case, Differs, Emits, Expected, Fails, Refused
from tests.tflite_emitter.running import REQUEST

Run = Callable[[Mapping[str, Array]], dict[str, Array]]
LACKING = re.compile("Could not find an implementation|Type Error: Type")
"""What ONNX Runtime says of types that it hasn't."""
SUMS = {"MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv"}
TARGETS = ("tflite", "coreml")


def check(case: Case, target: str) -> None:
    """Emits a case, and runs what was written beside ONNX Runtime."""
    expected: Expected | None = getattr(case, target)
    opened = {"tflite": _tflite, "coreml": _coreml}[target]
    for version in case.ios if target == "coreml" else (0,):
        model = case.model()
        reasons = _refusals(model, target, version)
        if isinstance(expected, Refused):
            for words in expected.words:
                assert words in reasons, reasons or "not refused"
            continue
        assert not reasons, reasons
        tol = case.tol if isinstance(case.tol, float) else case.tol.get(target, 1e-5)
        with tempfile.TemporaryDirectory(prefix="operators-") as folder, _expecting(expected):
            for kinds, run in opened(model, Path(folder), version):
                if isinstance(expected, Emits):
                    expected.check(kinds)
                for feeds, right in _reference(case):
                    _compare(run(feeds), right, tol, case.steps)


def _expecting(expected: Expected | None) -> AbstractContextManager[object]:
    """What has to be raised where the target fails or differs."""
    if isinstance(expected, Fails):
        return pytest.raises(ModelyardError, match=expected.words)
    return pytest.raises(AssertionError) if isinstance(expected, Differs) else nullcontext()


# -- targets -----------------------------------------------------------------------------


def _refusals(model: Model, target: str, version: int) -> str:
    if target == "tflite":
        found = list(lower(model).refusals)
    else:
        found = list(CoremlEmitter().unsupported(model, coreml.request(version)))
    return "\n".join(f"{item.op}: {item.reason} {item.remedy}" for item in found)


def _tflite(model: Model, folder: Path, _: int) -> Iterator[tuple[list[str], Run]]:
    """With XNNPACK and without."""
    kinds = [operator.op for graph in lower(model).model.subgraphs for operator in graph.operators]
    path = TfliteEmitter().emit(model, folder, "fp32", REQUEST).path
    for xnnpack in (False, True):
        with closing(open_file(path, REQUEST, xnnpack=xnnpack)) as session:
            yield kinds, session.run


def _coreml(model: Model, folder: Path, version: int) -> Iterator[tuple[list[str], Run]]:
    """Read back from disk."""
    path = coreml.emitted(model, folder, target=version)
    artifact = Artifact("coreml", "fp32", path, [path])
    with closing(CoremlEmitter().open(artifact, coreml.request(version))) as session:
        yield coreml.kinds(path), session.run


@cache
def _reference(case: Case) -> list[tuple[dict[str, Array], dict[str, Array]]]:
    """Feeds, and what ONNX Runtime gives, or onnx itself of types that the former hasn't and of
    sums of integers, which saturate in the former on some CPUs: kept for the next target."""
    model = (replace(case, text=case.like) if case.like else case).model()
    if not any(node.op_type in SUMS for node in model.nodes()):
        try:
            with closing(OrtSession(model.graph, plain=case.steps)) as session:
                return [(feeds, session.run(feeds)) for feeds in case.runs()]
        except ModelyardError as error:
            if not LACKING.search(str(error)):
                raise
    proto = onnx_ir.to_proto(model.graph)
    evaluator = ReferenceEvaluator(proto)
    names = [value.name for value in proto.graph.output]
    made = [(feeds, evaluator.run(names, feeds)) for feeds in case.runs()]
    return [(feeds, dict(zip(names, map(np.asarray, found), strict=True))) for feeds, found in made]


def _compare(
    found: Mapping[str, Array], expected: Mapping[str, Array], tol: float, steps: bool
) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        made = found[name]
        assert (made.dtype, made.shape) == (array.dtype, array.shape), name
        if steps:
            apart = np.abs(made.astype(int) - array.astype(int))
            assert apart.max() <= 1 and (apart == 0).mean() > 0.95, name
            assert len(np.unique(array)) > 10
        elif array.dtype.kind == "f":
            np.testing.assert_allclose(made, array, rtol=tol, atol=tol, err_msg=name)
        else:
            np.testing.assert_array_equal(made, array, err_msg=name)
