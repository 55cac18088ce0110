"""A case as the pipeline takes it: read, brought to its opset, simplified; every step compared."""

import warnings
from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir

from converter import plugins
from converter.ir.model import Model, PassRecord
from converter.passes.base import ModelPass
from converter.passes.order import IMPORT_PASSES, SIMPLIFY_PASSES
from converter.runtime.ort import OrtSession
from converter.verify import Verifier, run_passes
from converter.verify.probes import build_probes
from parsers.onnx.graph import check, densify
from tests.fuzz.case import Case, Finding, differences, noting
from tests.fuzz.values import Value
from tests.passes.models import ListedSamples

CHILDREN = frozenset({"onnxsim", "onnxslim"})
"""Libraries that run in a child of ours, and take a second to start."""

LIBRARIES = frozenset({"ort-basic", "onnxscript", *CHILDREN})
"""Passes whose work others do: what they get wrong the pipeline takes back; that is no finding."""

OWN = tuple(name for name in SIMPLIFY_PASSES if name not in LIBRARIES)


def read(case: Case) -> Model:
    """The case at the pipeline's opset, its shapes repaired, nothing simplified.

    Raises:
        ModelyardError: It is refused.
    """
    proto = onnx.ModelProto()
    proto.CopyFrom(case.proto)
    check(proto, case.name)
    densify(proto)
    model = Model.wrap(onnx_ir.from_proto(proto))
    model.graph.graph.sort()
    for name in ("normalize", *IMPORT_PASSES):
        _apply(plugins.load("passes", name), model)
    return model


def simplified(case: Case) -> Model:
    """The case after all passes of our own, none of them verified."""
    model = read(case)
    for name in OWN:
        _apply(plugins.load("passes", name), model)
    return model


def check_passes(case: Case, expected: Mapping[str, Value]) -> list[Finding]:
    """Reading, each pass of our own alone and after all before it, and the whole plan."""
    found: list[Finding] = []
    with noting("read", found, refusals=True):
        model = read(case)
        _compare("read", model, case, expected, found)
        chained = model.copy()
        for name in OWN:
            _pass(name, name, model.copy(), case, expected, found)
            _pass(f"{name} after the others", name, chained, case, expected, found)
        _check_plan(model, case, expected, found)
    return found


def _pass(
    label: str,
    name: str,
    model: Model,
    case: Case,
    expected: Mapping[str, Value],
    found: list[Finding],
) -> None:
    before = onnx_ir.to_proto(model.graph).graph.SerializeToString(deterministic=True)
    with noting(label, found):
        nodes = model.node_count()
        _apply(plugins.load("passes", name), model)
        if onnx_ir.to_proto(model.graph).graph.SerializeToString(deterministic=True) != before:
            _compare(label, model, case, expected, found)
        if model.node_count() > nodes:
            found.append(Finding(f"{label}: grown", f"{nodes} nodes became {model.node_count()}"))
        if plugins.load("passes", name)(model.graph).modified:
            found.append(Finding(f"{label}: not done", "a second run finds something"))


def _check_plan(
    model: Model, case: Case, expected: Mapping[str, Value], found: list[Finding]
) -> None:
    """The simplifying passes as the pipeline runs them, those of libraries among them."""
    samples = ListedSamples([dict(case.feeds[0])])
    steps = [plugins.load("passes", name) for name in SIMPLIFY_PASSES if name not in CHILDREN]
    with noting("the plan", found), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verifier = Verifier(model, build_probes(model, samples, {}))
        result = run_passes(model, steps, verifier)
        for record in result.history[len(model.history) :]:
            if record.name in OWN and _is_wrong(record):
                found.append(Finding(f"the plan: {record.name} {record.status}", record.detail))
        _compare("the plan", result, case, expected, found)


def _is_wrong(record: PassRecord) -> bool:
    """Not where results on edge values were off: that may be rounding, and is measured here."""
    off = any(words in record.detail for words in (": off by", ": cosine", "values differ"))
    return record.status == "failed" or (record.status == "rolled-back" and not off)


def _apply(step: ModelPass, model: Model) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.graph = step(model.graph).model


def _compare(
    label: str, model: Model, case: Case, expected: Mapping[str, Value], found: list[Finding]
) -> None:
    """A model in ONNX Runtime as it is written; its interface is the case's."""
    with noting(label, found):
        onnx.checker.check_model(onnx_ir.to_proto(model.graph), full_check=True)
        session = OrtSession(model.graph, plain=True, threads=1)
        names = [spec.name for spec in model.inputs]
        if names != [item.name for item in case.proto.graph.input]:
            found.append(Finding(f"{label}: interface", f"the inputs are {', '.join(names)}"))
            return
        for index, feeds in enumerate(case.feeds):
            outputs = session.run({name: np.asarray(array) for name, array in feeds.items()})
            if wrong := differences(expected, index, outputs):
                found.append(Finding(f"{label}: wrong", f"feeds {index}: {wrong[0]}"))
                return
