"""The official node tests through every target, opened from disk and run in its own runtime."""

import pytest
from onnx import TensorProto

from tests import sweep
from tests.conformance import show
from tests.conformance.cases import Case, Store, open_store
from tests.conformance.outcome import FAILURES, counts
from tests.conformance.selection import Filters, chosen
from tests.conformance.tables import is_owed, run

TARGETS = [
    ("onnx", "onnxruntime", 1_520, 1),  # of the cases with plain tensors
    ("tflite", "ai_edge_litert", 1_260, 1),  # of the cases that ONNX Runtime itself passes
    ("coreml", "coremltools", 1_230, 1),  # of these too
    ("pytorch", "torch", 155, 8),  # of these too; one in eight: torch is a process of its own
    ("keras", "keras", 9, 108),  # of these too; one in 108: TensorFlow starts anew for each
    ("savedmodel", "tensorflow", 18, 54),  # one in 54
    ("tensorrt-rtx", "tensorrt_rtx", 155, 8),  # one in eight: a case is two processes
    ("openvino", "openvino", 150, 8),  # of the cases that ONNX Runtime itself passes
]
"""A target, its library, how many cases it takes at least, and one case in so many."""

COMMON = {TensorProto.FLOAT, TensorProto.INT32, TensorProto.BOOL}
"""Types that Keras computes in on PyTorch and JAX as on TensorFlow: PyTorch has no uint16, and JAX
makes 32 bits of 64."""


@pytest.mark.slow
@pytest.mark.parametrize(("target", "library", "floor", "share"), TARGETS)
def test_nothing_is_wrong(target: str, library: str, floor: int, share: int) -> None:
    """What is emitted gives what the case says (or is built, where it can't run here), and
    nothing crashes; the rest is refused."""
    pytest.importorskip(library, reason=f"{library} isn't installed")
    store = open_store()
    done = run(
        store,
        target,
        chosen(store, target, Filters(share=max(share, sweep.SHARE), salt=sweep.seed())),
    )
    failed = [show.line(o, verbose=True) for o in done.outcomes if o.state in FAILURES]
    assert not failed, "\n".join([f"{len(failed)} cases failed", *failed[:20]])
    found = counts(done.outcomes)
    least = sweep.at_least(floor, share)
    assert found["passed"] + found["built"] >= least, dict(found)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "share"), [("torch", 30), ("jax", 60)])
def test_keras_code_is_right_on_others(
    monkeypatch: pytest.MonkeyPatch, backend: str, share: int
) -> None:
    """The same of Keras' code where PyTorch and JAX compute, of one case in so many."""
    for library in ("keras", backend):
        pytest.importorskip(library, reason=f"{library} isn't installed")
    monkeypatch.setenv("KERAS_BACKEND", backend)
    store = open_store()
    filters = Filters(share=max(share, sweep.SHARE), salt=sweep.seed())
    cases = [case for case in chosen(store, "keras", filters) if _types(store, case) <= COMMON]
    outcomes = run(store, "keras", cases).outcomes
    failed = [show.line(o, verbose=True) for o in outcomes if o.state in FAILURES]
    assert not failed, "\n".join(failed)
    assert counts(outcomes)["passed"] >= 0.75 * len(cases) > 0


def _types(store: Store, case: Case) -> set[int]:
    graph = store.model(case).graph
    return {value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)}


def test_core_mls_own_refusals_are_told_apart() -> None:
    """By how their reasons begin, in any part of what a case is refused for."""
    assert is_owed("coreml", "Relu: Core ML has no tensors of more than 5 axes")
    assert is_owed("coreml", "Add: there is no lowering of it; y: Core ML has no float64 - cut it")
    assert not is_owed("coreml", "Add: coremltools refuses add here")
    assert not is_owed("tflite", "y: Core ML has no float64")
