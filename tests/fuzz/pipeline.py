"""A case as the pipeline takes it: read, brought to its opset, simplified; every step compared."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import onnx_ir

from converter import plugins
from converter.errors import ModelyardError
from converter.ir import Model, PassRecord
from converter.ort import OrtSession
from converter.passes.base import ModelPass
from converter.plan import IMPORT_PASSES, SIMPLIFY_PASSES
from converter.verify import Verifier, run_passes
from converter.verify.probes import build_probes
from parsers.onnx_graph import check, densify
from tests.fuzz.case import Case, differences
from tests.fuzz.finding import Finding, raised
from tests.fuzz.values import Value
from tests.passes.models import ListedSamples

LIBRARIES = frozenset({"ort-basic", "onnxscript", "onnxsim", "onnxslim"})
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


def check_passes(case: Case, expected: Mapping[str, Value]) -> Iterator[Finding]:
    """Reading, each pass of our own alone and after all before it, and the whole plan."""
    try:
        model = read(case)
    except ModelyardError as error:
        if error.exit_code not in (2, 3):
            yield raised("read", error)
        return
    except Exception as error:  # whatever isn't ours is the finding
        yield raised("read", error)
        return
    yield from _compared("read", model, case, expected)
    chained = model.copy()
    for name in OWN:
        yield from _passed(name, name, model.copy(), case, expected)
        yield from _passed(f"{name} after the others", name, chained, case, expected)
    yield from _whole(model, case, expected)


def _passed(
    label: str, name: str, model: Model, case: Case, expected: Mapping[str, Value]
) -> Iterator[Finding]:
    step: ModelPass = plugins.load("passes", name)
    before = onnx_ir.to_proto(model.graph).graph.SerializeToString(deterministic=True)
    try:
        _apply(step, model)
        after = onnx_ir.to_proto(model.graph).graph.SerializeToString(deterministic=True)
    except Exception as error:  # whatever isn't ours is the finding
        yield raised(label, error)
        return
    if after != before:
        yield from _compared(label, model, case, expected)


def _whole(model: Model, case: Case, expected: Mapping[str, Value]) -> Iterator[Finding]:
    """The simplifying passes as the pipeline runs them, those of libraries among them."""
    samples = ListedSamples([dict(case.feeds[0])])
    steps = [plugins.load("passes", name) for name in SIMPLIFY_PASSES if name not in CHILDREN]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verifier = Verifier(model, build_probes(model, samples, {}))
            result = run_passes(model, steps, verifier)
    except Exception as error:  # whatever isn't ours is the finding
        yield raised("the plan", error)
        return
    for record in result.history[len(model.history) :]:
        if record.name in OWN and _is_wrong(record):
            yield Finding(f"the plan: {record.name} {record.status}", record.detail)
    yield from _compared("the plan", result, case, expected)


def _is_wrong(record: PassRecord) -> bool:
    """Not where results on edge values were off: that may be rounding, and is measured here."""
    off = any(words in record.detail for words in (": off by", ": cosine", "values differ"))
    return record.status == "failed" or (record.status == "rolled-back" and not off)


CHILDREN = frozenset({"onnxsim", "onnxslim"})
"""Libraries that run in a child of ours, and take a second to start."""


def _apply(step: ModelPass, model: Model) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.graph = step(model.graph).model


def _compared(
    label: str, model: Model, case: Case, expected: Mapping[str, Value]
) -> Iterator[Finding]:
    """A model in ONNX Runtime as it is written; its interface is the case's."""
    try:
        onnx.checker.check_model(onnx_ir.to_proto(model.graph), full_check=True)
        session = OrtSession(model.graph, plain=True, threads=1)
    except Exception as error:  # whatever it is, the model was valid before
        yield raised(label, error)
        return
    names = [spec.name for spec in model.inputs]
    if names != [item.name for item in case.proto.graph.input]:
        yield Finding(f"{label}: interface", f"the inputs are {', '.join(names)}")
        return
    for index, feeds in enumerate(case.feeds):
        try:
            found = session.run({name: np.asarray(array) for name, array in feeds.items()})
        except ModelyardError as error:
            yield raised(f"{label}, feeds {index}", error)
            return
        for text in differences(expected, index, found):
            yield Finding(f"{label}: wrong", f"feeds {index}: {text}")
            return
