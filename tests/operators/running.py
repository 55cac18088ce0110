"""The targets, and the one test that puts every case through each."""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
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
from tests.operators.cases import Array, Case, each
from tests.tflite_emitter.running import REQUEST

Run = Callable[[Mapping[str, Array]], dict[str, Array]]
LACKING = re.compile("Could not find an implementation|Type Error: Type")
"""What ONNX Runtime says of types that it hasn't."""
SUMS = {"MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv"}
TARGETS = ("tflite", "coreml")


def on_every_target(
    cases: Mapping[str, Case | str], targets: Sequence[str] = TARGETS
) -> Callable[[Case, str], None]:
    """The test of a family; of what one target has to do alone, on that one."""
    expanded = list(each(cases))
    listed = dict(expanded)
    assert len(listed) == len(expanded), "cases of the same name"

    @pytest.mark.parametrize("target", targets)
    @pytest.mark.parametrize("case", listed.values(), ids=listed)
    def test(case: Case, target: str) -> None:
        check(case, target)

    return test


def check(case: Case, target: str) -> None:
    """Emits a case, and runs what was written beside ONNX Runtime."""
    told: str = getattr(case, target)
    opened = {"tflite": _tflite, "coreml": _coreml}[target]
    for version in case.ios if target == "coreml" else (0,):
        model = case.model()
        reasons = _refusals(model, target, version)
        if told.startswith("!"):
            for words in told[1:].split(" & "):
                assert words.strip() in reasons, reasons or "not refused"
            continue
        assert not reasons, reasons
        tol = case.tol if isinstance(case.tol, float) else case.tol.get(target, 1e-5)
        with tempfile.TemporaryDirectory(prefix="operators-") as folder:
            runs = opened(model, Path(folder), version)
            if told.startswith("#"):
                with pytest.raises(AssertionError):
                    _agree(case, "", tol, runs)
            elif told.startswith("~"):
                with pytest.raises(ModelyardError, match=told[1:].strip()):
                    _agree(case, "", tol, runs)
            else:
                _agree(case, told, tol, runs)


def _agree(case: Case, told: str, tol: float, runs: Iterator[tuple[list[str], Run]]) -> None:
    for kinds, run in runs:
        _emitted(told, kinds)
        for feeds, expected in _reference(case):
            _compare(run(feeds), expected, tol, case.steps)


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


# -- expectations ------------------------------------------------------------------------


def _emitted(told: str, kinds: list[str]) -> None:
    made = [kind for kind in kinds if kind not in ("TRANSPOSE", "transpose")]
    if told.startswith("="):
        assert made == told[1:].split()
        return
    count = Counter(kinds)
    for word in told.split():
        name, _, times = word.lstrip("-").partition("*")
        if times:
            assert count[name] == int(times), kinds
        else:
            assert (name in count) != word.startswith("-"), f"{word} of {kinds}"


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
