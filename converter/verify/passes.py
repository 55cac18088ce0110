"""Runs passes over a model, and keeps of each what is valid, computes the same, and is of use."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import onnx_ir

from converter.errors import MachineError, ModelError, ModelyardError, from_os_error
from converter.ir.model import Model, PassRecord
from converter.passes.base import ModelPass, SimplifyingPass
from converter.runtime.ort import OrtSession
from converter.verify.checker import first_line
from converter.verify.sameness import Looks
from converter.verify.verifier import Verdict, Verifier

LOG = logging.getLogger("modelyard.passes")
"""What passes made of a model, at DEBUG."""

MAX_WEIGHT_GROWTH = 1.1
"""A simplifying pass may not make the weights larger by more than this, and a megabyte."""


def run_passes(
    model: Model,
    passes: Sequence[ModelPass],
    verifier: Verifier,
    progress: Callable[[str], None] = lambda text: None,
    *,
    singly: bool = False,
) -> Model:
    """Runs each pass on a copy and keeps its result where it is valid, equal, and of use.

    What all of them made is compared with the model, once; where it differs, halves of the passes
    tell which is wrong. A pass that raises, or whose result is refused, is recorded and left out;
    the others run on the model as it was before it.

    Args:
        model: Not changed.
        passes: In order. They may run several times.
        verifier: Of this model, or of one that it was made from.
        progress: Told each pass's name, and how much is compared.
        singly: Whether each pass is compared by itself, to know its own figures.

    Returns:
        The model after the passes, with one record for each added to its history. Figures of a
        comparison are in the record of the last pass that was compared.

    Raises:
        MachineError: Disk or memory gave out.
        ModelError: The original itself does not run on a sample, or a pass that isn't there to
            simplify refuses the model (no way to the pipeline's opset).
    """
    run, made = _Run(verifier, progress), _Made(model, [], Looks.of(model.graph))
    for part in [[step] for step in passes] if singly else [passes]:
        made = run.verified(made, part)
    result = model.copy() if made.model is model else made.model
    result.history = [*model.history, *made.records]
    return result


@dataclass(frozen=True)
class _Made:
    """What passes made of a model, what tells it from another (:class:`Looks`), and their records.

    Where passes changed nothing, the models and their looks are the same objects.
    """

    model: Model
    records: list[PassRecord]
    looks: Looks

    def changed_since(self, before: _Made) -> list[int]:
        """Which passes, counted from ``before``, changed something."""
        since = enumerate(self.records[len(before.records) :])
        return [at for at, record in since if record.status == "changed"]


@dataclass
class _Run:
    """``spare``: a model, and a copy of it that a pass left as it was: the next one's."""

    verifier: Verifier
    progress: Callable[[str], None]
    spare: tuple[Model, Model] | None = None

    def verified(self, right: _Made, steps: Sequence[ModelPass]) -> _Made:
        """What passes make of a model that is right, without those that make it wrong.

        Halves run anew from what is right: to keep what each pass made would hold as many copies
        of the weights as there are passes that change them.
        """
        suspects: list[int] = []  # one of these, counted from what is right, is wrong
        while steps:
            count = suspects[(len(suspects) - 1) // 2] + 1 if suspects else len(steps)
            made = right
            for step in steps[:count]:
                self.progress(step.name)
                made = self._one(made, step)
            changed = made.changed_since(right)
            verdict = self._verdict(right, made, len(changed)) if changed else Verdict(True)
            if verdict.ok:
                suspects = [at - count for at in suspects if at >= count]
                right = _told(made, len(right.records), changed, verdict)
            elif len(changed) > 1:
                suspects = changed
                continue
            else:  # what comes after it runs anew, without it
                count, suspects = changed[0] + 1, []
                right = _undone(right, made.records[: len(right.records) + count], verdict)
            steps = steps[count:]
        return right

    def _verdict(self, right: _Made, made: _Made, count: int) -> Verdict:
        """How what passes made compares; where that is other declared shapes alone, of which the
        checker thinks well already, ONNX Runtime only has to take it."""
        if not right.looks.same(made.looks, shapes_count=False):
            what = f"{count} passes" if count > 1 else "a pass"
            self.progress(f"comparing what {what} made: {self.verifier.effort}")
            verdict = self.verifier.compare(made.model)
            if verdict.ok:
                self.verifier.accept()
            return verdict
        try:
            OrtSession(made.model.graph, plain=True).close()
        except ModelError as error:
            return Verdict(False, error.message)
        return Verdict(True)

    def _one(self, made: _Made, step: ModelPass) -> _Made:
        """What a pass makes of a model, before it is compared; the same model where that is of no
        use, or no valid one."""
        start = time.perf_counter()
        known, spare = self.spare or (None, None)
        candidate = spare if spare is not None and known is made.model else made.model.copy()
        self.spare = None
        looks, status, detail = self._tried(made, candidate, step)
        model = made.model if looks is None else candidate
        nodes = made.model.node_count(), model.node_count()
        taken = time.perf_counter() - start
        record = PassRecord(step.name, status, *nodes, detail, seconds=taken)
        LOG.debug(
            "%s: %s, %d nodes became %d%s", step.name, status, *nodes, detail and f": {detail}"
        )
        return _Made(model, [*made.records, record], looks or made.looks)

    def _tried(
        self, made: _Made, candidate: Model, step: ModelPass
    ) -> tuple[Looks | None, str, str]:
        """Runs a pass on the candidate: how that looks then, None where it isn't to be used; its
        record's status and detail."""
        try:
            step(candidate.graph)
            looks = _readable(candidate)
        except MachineError:
            raise
        except MemoryError as error:
            raise MachineError(
                f"out of memory in the pass {step.name}", code="out-of-memory"
            ) from error
        except Exception as error:  # a pass is a plug-in: whatever it raises costs only itself
            _raise_if_needed(step, error)
            _raise_if_the_machines(error, step.name)
            return None, "failed", _why(error)
        if made.looks.same(looks, step.shapes_count):
            if made.looks.same(looks, shapes_count=True):
                self.spare = made.model, candidate
            return None, "unchanged", ""
        if not made.looks.same(looks, shapes_count=False):
            if growth := _grew(made.model, candidate, step):
                return None, "rolled-back", f"no gain: {growth}"
            if step.must_shrink and _as_large(made.model, candidate):
                return None, "unchanged", "its changes are no gain"
        if wrong := self.verifier.checker_says(candidate):
            return None, "rolled-back", wrong
        return looks, "changed", "; ".join(getattr(step, "findings", ()))


def _undone(right: _Made, records: Sequence[PassRecord], verdict: Verdict) -> _Made:
    """The model before a pass, whose record is the last, and why it isn't the one after it."""
    *others, last = records
    nodes, why = last.nodes_before, verdict.reason
    undone = replace(last, status="rolled-back", nodes_after=nodes, detail=why)
    return _Made(right.model, [*others, undone], right.looks)


def _told(made: _Made, known: int, changed: Sequence[int], verdict: Verdict) -> _Made:
    """What was compared, told in the record of the last pass that changed something."""
    if changed:
        *others, last = (made.records[known + at] for at in changed)
        names = ", ".join(record.name for record in others)
        together = f"compared together with {names}" if names else ""
        made.records[known + changed[-1]] = replace(
            last,
            detail="; ".join(filter(None, [last.detail, together, *verdict.skipped])),
            cosine=verdict.cosine,
            max_abs=verdict.max_abs,
        )
    return made


def _raise_if_needed(step: ModelPass, error: BaseException) -> None:
    """What a pass that isn't there to simplify can't do, the pipeline can't do without."""
    while error.__cause__ is not None and not isinstance(error, ModelyardError):
        error = error.__cause__
    if isinstance(error, ModelyardError) and not isinstance(step, SimplifyingPass):
        raise error


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
        raise ModelError(
            f"it left an invalid graph: {first_line(str(cause))}", code="model-invalid"
        ) from error


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
