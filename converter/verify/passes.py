"""Runs passes over a model, and keeps of each what is valid, computes the same, and is of use."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import onnx_ir

from converter.errors import MachineError, ModelError, ModelyardError, from_os_error
from converter.ir import Model, PassRecord
from converter.ort import OrtSession
from converter.passes.base import ModelPass, SimplifyingPass
from converter.verify.checker import checker_says, first_line
from converter.verify.sameness import Looks
from converter.verify.verifier import Verifier

MAX_WEIGHT_GROWTH = 1.1
"""A simplifying pass may not make the weights larger by more than this, and a megabyte."""


def run_passes(
    model: Model,
    passes: Sequence[ModelPass],
    verifier: Verifier,
    progress: Callable[[str], None] = lambda text: None,
) -> Model:
    """Runs each pass on a copy and keeps its result where it is valid, equal, and of use.

    A pass that raises, or whose result is refused, is recorded and left out; the model goes on
    as it was.

    Args:
        model: Not changed.
        passes: In order.
        verifier: Of this model, or of one that it was made from.
        progress: Told each pass's name.

    Returns:
        The model after the passes, with one record for each added to its history.

    Raises:
        MachineError: Disk or memory gave out.
        ModelError: The original itself does not run on a sample, or a pass that isn't there to
            simplify refuses the model (no way to the pipeline's opset).
    """
    current, history = model, list(model.history)
    looks: Looks | None = None
    for step in passes:
        progress(step.name)
        start = time.perf_counter()
        looks = looks or Looks.of(current.graph)
        after, record, after_looks = _run_one(current, step, verifier, looks)
        history.append(replace(record, seconds=time.perf_counter() - start))
        if after is not current:
            current, looks = after, after_looks
    result = current.copy() if current is model else current
    result.history = history
    return result


def _run_one(
    model: Model, step: ModelPass, verifier: Verifier, looks: Looks
) -> tuple[Model, PassRecord, Looks | None]:
    before = model.node_count()
    kept = PassRecord(step.name, "failed", before, before)
    candidate = model.copy()
    try:
        step(candidate.graph)
        after_looks = _readable(candidate)
    except MachineError:
        raise
    except MemoryError as error:
        raise MachineError(f"out of memory in the pass {step.name}") from error
    except Exception as error:  # a pass is a plug-in: whatever it raises costs only itself
        _raise_if_needed(step, error)
        _raise_if_the_machines(error, step.name)
        return model, replace(kept, detail=_why(error)), None
    if looks.same(after_looks, step.shapes_count):
        return model, replace(kept, status="unchanged"), None
    if looks.same(after_looks, shapes_count=False):
        return _declared_anew(candidate, step, kept, after_looks, model)
    growth = _grew(model, candidate, step)
    if growth:
        return model, replace(kept, status="rolled-back", detail=f"no gain: {growth}"), None
    if step.must_shrink and _as_large(model, candidate):
        return model, replace(kept, status="unchanged", detail="what it changed is no gain"), None
    verdict = verifier.compare(candidate, shapes=isinstance(step, SimplifyingPass))
    if not verdict.ok:
        return model, replace(kept, status="rolled-back", detail=verdict.reason), None
    verifier.accept()
    record = PassRecord(
        step.name,
        "changed",
        before,
        candidate.node_count(),
        "; ".join([*getattr(step, "findings", ()), *verdict.skipped]),
        verdict.cosine,
        verdict.max_abs,
    )
    return candidate, record, after_looks


def _raise_if_needed(step: ModelPass, error: BaseException) -> None:
    """What a pass that isn't there to simplify can't do, the pipeline can't do without."""
    while error.__cause__ is not None and not isinstance(error, ModelyardError):
        error = error.__cause__
    if isinstance(error, ModelyardError) and not isinstance(step, SimplifyingPass):
        raise error


def _declared_anew(
    candidate: Model, step: ModelPass, kept: PassRecord, looks: Looks, before: Model
) -> tuple[Model, PassRecord, Looks | None]:
    """A pass that changed declared inner shapes alone: the same nodes and weights compute the
    same, so that what is declared is held against inference, and ONNX Runtime has to take it."""
    wrong = checker_says(candidate.graph, 2)
    if wrong and checker_says(before.graph, 2):
        wrong = ""  # it refuses the original too
    if not wrong:
        try:
            OrtSession(candidate.graph, plain=True).close()
        except ModelError as error:
            wrong = error.message
    if wrong:
        return before, replace(kept, status="rolled-back", detail=wrong), None
    findings = "; ".join(getattr(step, "findings", ()))
    return candidate, replace(kept, status="changed", detail=findings), looks


def _raise_if_the_machines(error: Exception, name: str) -> None:
    """A full disk is no fault of the pass, and the next step would meet it too."""
    if isinstance(error, OSError):
        told = from_os_error(error, f"running the pass {name}")
        if isinstance(told, MachineError):
            raise told from error


def _readable(candidate: Model) -> Looks:
    try:
        return Looks.of(candidate.graph)
    except Exception as error:  # a broken graph breaks what goes over it in any way
        cause = error.__cause__ or error
        raise ModelError(f"it left an invalid graph: {first_line(str(cause))}") from error


def _why(error: BaseException) -> str:
    """What a pass failed of: the first cause's own words."""
    while error.__cause__ is not None and isinstance(
        error, onnx_ir.passes.InvariantError | onnx_ir.passes.PassError
    ):
        error = error.__cause__
    text = first_line(str(error))
    return text if text and not isinstance(error, KeyError) else f"{type(error).__name__}: {text}"


def _constant_bytes(model: Model) -> int:
    """Bytes of all initializers and of the tensors in Constant nodes."""
    attributes = (a for node in model.nodes() for a in node.attributes.values() if not a.is_ref())
    tensors = (a.as_tensor() for a in attributes if a.type == onnx_ir.AttributeType.TENSOR)
    return model.weight_bytes() + sum(tensor.nbytes for tensor in tensors)


def _grew(model: Model, candidate: Model, step: ModelPass) -> str:
    """What a simplifying pass made larger, in words; empty where nothing is."""
    if not isinstance(step, SimplifyingPass):
        return ""
    before, after = _constant_bytes(model), _constant_bytes(candidate)
    if after > before * MAX_WEIGHT_GROWTH + (1 << 20):
        return f"weights grew from {before:,} to {after:,} bytes"
    nodes, now = model.node_count(), candidate.node_count()
    return f"nodes grew from {nodes} to {now}" if step.must_shrink and now > nodes else ""


def _as_large(model: Model, candidate: Model) -> bool:
    nodes, now = model.node_count(), candidate.node_count()
    return now == nodes and _constant_bytes(candidate) >= _constant_bytes(model)
