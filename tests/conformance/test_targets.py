"""The official node tests through every target, opened from disk and run in its own runtime."""

from collections.abc import Collection

import pytest

from tests import sweep
from tests.conformance import show
from tests.conformance.cases import open_store
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

BACKENDS = [("torch", 18, 54), ("jax", 4, 194)]
"""What Keras computes by besides TensorFlow, likewise; JAX starts anew for each case."""


@pytest.mark.slow
@pytest.mark.parametrize(("target", "library", "floor", "share"), TARGETS)
def test_nothing_is_wrong(target: str, library: str, floor: int, share: int) -> None:
    """What is emitted gives what the case says (or is built, where it can't run here), and
    nothing crashes; the rest is refused."""
    pytest.importorskip(library, reason=f"{library} isn't installed")
    _nothing_is_wrong(target, floor, share)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "floor", "share"), BACKENDS)
def test_keras_code_is_right_on_other_backends(
    backend: str, floor: int, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same of Keras' code, where it isn't TensorFlow that computes. A backend may lack a type
    (PyTorch's has no uint64): it raises then, and that counts as not passed."""
    pytest.importorskip(backend, reason=f"{backend} isn't installed")
    monkeypatch.setenv("KERAS_BACKEND", backend)
    _nothing_is_wrong("keras", floor, share, {*FAILURES} - {"rejected"})


def _nothing_is_wrong(
    target: str, floor: int, share: int, wrong: Collection[str] = FAILURES
) -> None:
    store = open_store()
    done = run(
        store,
        target,
        chosen(store, target, Filters(share=max(share, sweep.SHARE), salt=sweep.seed())),
    )
    failed = [show.line(o, verbose=True) for o in done.outcomes if o.state in wrong]
    assert not failed, "\n".join([f"{len(failed)} cases failed", *failed[:20]])
    found = counts(done.outcomes)
    least = sweep.at_least(floor, share)
    assert found["passed"] + found["built"] >= least, dict(found)


def test_core_mls_own_refusals_are_told_apart() -> None:
    """By how their reasons begin, in any part of what a case is refused for."""
    assert is_owed("coreml", "Relu: Core ML has no tensors of more than 5 axes")
    assert is_owed("coreml", "Add: there is no lowering of it; y: Core ML has no float64 - cut it")
    assert not is_owed("coreml", "Add: coremltools refuses add here")
    assert not is_owed("tflite", "y: Core ML has no float64")
