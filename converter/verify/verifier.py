"""Compares a model before and after a pass, and takes back the pass where they differ.

Whoever rewrites a model doesn't get to vouch for it: ONNX Runtime runs both, as they are
written, on the same inputs. How close is close enough: :mod:`converter.verify.differences`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import onnx
import onnx_ir

from converter.errors import MachineError, ModelError, ModelyardError, from_os_error
from converter.graph.weightless import without_weights
from converter.ir import Model, PassRecord
from converter.ort import OrtSession
from converter.passes.base import ModelPass, SimplifyingPass
from converter.verify.differences import (
    AMPLIFIED,
    FLOOR,
    Difference,
    Tolerance,
    difference,
    identical,
    largest_change,
    magnitude,
    tolerance_of,
)
from converter.verify.probes import Array, Probe, shaken
from converter.verify.sameness import Looks

CHECKED_ABOVE = 4096
"""Bytes of a weight above which the checker gets its shape alone."""

_RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)

MAX_WEIGHT_GROWTH = 1.1
"""A simplifying pass may not make the weights larger by more than this, and a megabyte."""

Outputs = dict[str, Array]


@dataclass(frozen=True)
class Verdict:
    """What comparing two models came to.

    Attributes:
        ok: They compute the same.
        reason: Where they don't: on which input, in which output, by how much.
        cosine: Least cosine over all float outputs and probes; None where there was none.
        max_abs: Largest absolute difference in a float output.
        skipped: What could not be compared, and why, one line each.
    """

    ok: bool
    reason: str = ""
    cosine: float | None = None
    max_abs: float | None = None
    skipped: tuple[str, ...] = ()


class Verifier:
    """Runs a model and its rewritten versions on the same probes.

    Nothing is run before the first comparison. Each version is compared with the last accepted
    one and with the original, so that many small steps can't add up to a large one.

    Args:
        model: The original; not changed while the verifier is in use.
        probes: As :func:`build_probes` makes them.
    """

    def __init__(self, model: Model, probes: Sequence[Probe]) -> None:
        self._original = self._last = self._seen = model
        self._probes = list(probes)
        self._skipped: list[str] = []
        self._results: list[Outputs] = []
        self._accepted: list[Outputs] = []
        self._candidate: list[Outputs] | None = None
        self._unsteady: set[str] = set()
        self._moved: dict[str, Outputs] = {}
        self._check_level = 2
        self._tolerance: Tolerance | None = None

    def prepare(self) -> None:
        """Runs the original, once.

        Raises:
            ModelError: ONNX Runtime refuses the original, or it refuses a sample.
        """
        if self._tolerance is not None:
            return
        graph = self._original.graph
        self._check_level = next(
            (level for level in (2, 1) if _checker_says(graph, level) == ""), 0
        )
        if self._check_level == 0:
            self._skipped.append("onnx.checker: it refuses the original too")
        session = OrtSession(graph, plain=True)
        try:
            self._run_original(session)
            if any(node.op_type in _RANDOM for node in self._original.nodes()):
                self._find_unsteady(session)
        finally:
            session.close()
        self._accepted = self._results
        self._tolerance = replace(tolerance_of(self._original), floors=self._floors())

    def _run_original(self, session: OrtSession) -> None:
        kept = []
        for probe in self._probes:
            try:
                self._results.append(session.run(probe.feeds))
            except ModelError as error:
                if probe.kind == "sample":
                    raise ModelError(f"the model does not run on {probe.name}: {error}") from error
                self._skipped.append(f"{probe.name}: the original refuses it ({error.message})")
                continue
            kept.append(probe)
        self._probes = kept

    def _find_unsteady(self, session: OrtSession) -> None:
        """Outputs of a model with random operators that aren't the same every time."""
        for probe, before in zip(self._probes, self._results, strict=True):
            again = session.run(probe.feeds)
            self._unsteady |= {
                name for name, array in before.items() if not identical(array, again[name])
            }
        self._skipped += [f"output {name}: it is random" for name in sorted(self._unsteady)]

    def _floors(self) -> dict[str, float]:
        sure = [
            outputs
            for probe, outputs in zip(self._probes, self._results, strict=True)
            if probe.kind == "sample" or probe.name == "noise"
        ]
        names = [spec.name for spec in self._original.outputs]
        return {
            name: FLOOR * max((magnitude(outputs[name]) for outputs in sure), default=0.0)
            for name in names
        }

    def compare(self, candidate: Model, *, shapes: bool = True) -> Verdict:
        """Whether ``candidate`` is valid and computes what the last accepted model does.

        Args:
            candidate: A rewritten version.
            shapes: Whether the declared shapes must stay what they were too.

        Raises:
            ModelError: from :meth:`prepare`, about the original.
        """
        self.prepare()
        self._candidate = None
        self._seen = candidate
        wrong = _interface_differs(self._last, candidate, shapes) or _checker_says(
            candidate.graph, self._check_level
        )
        if wrong:
            return self._verdict(wrong)
        results: list[Outputs] = []
        try:
            session = OrtSession(candidate.graph, plain=True)
        except ModelError as error:
            return self._verdict(error.message)
        try:
            for probe in self._probes:
                results.append(session.run(probe.feeds))
        except ModelError as error:
            return self._verdict(f"on {self._probes[len(results)].name}: {error.message}")
        finally:
            session.close()
        verdict = self._compare_results(results)
        if verdict.ok:
            self._candidate = results
        return verdict

    def accept(self) -> None:
        """Makes the version that was compared last, and found right, the one to compare with."""
        if self._candidate is not None:
            self._accepted, self._candidate = self._candidate, None
            self._last = self._seen

    def _verdict(self, reason: str) -> Verdict:
        return Verdict(False, reason, skipped=tuple(self._skipped))

    def _compare_results(self, results: Sequence[Outputs]) -> Verdict:
        notes: list[str] = []
        step = self._differences(self._accepted, results, notes)
        if step.reason:
            return self._verdict(step.reason)
        if self._accepted is not self._results:
            drift = self._differences(self._results, results, [])
            if drift.reason:
                return self._verdict(f"{drift.reason}, compared with the original")
        return Verdict(True, "", step.cosine, step.max_abs, (*self._skipped, *notes))

    def _differences(
        self, reference: Sequence[Outputs], results: Sequence[Outputs], notes: list[str]
    ) -> Difference:
        """The first difference that is too much, else the worst of all."""
        assert self._tolerance is not None
        worst = Difference()
        for probe, before, after in zip(self._probes, reference, results, strict=True):
            for name in (name for name in before if name not in self._unsteady):
                found = difference(before[name], after[name], self._tolerance, name)
                where = f"on {probe.name}, output {name}: {found.reason}"
                if not found.reason:
                    worst = worst.worse(found)
                elif self._excused(probe, name, found):
                    notes.append(f"{where}; rounding of the inputs moves the original as much")
                else:
                    return replace(found, reason=where)
        return worst

    def _excused(self, probe: Probe, name: str, found: Difference) -> bool:
        """Whether the original moves as much when its inputs do in their last places."""
        if found.max_abs is None:
            return False
        if probe.name not in self._moved:
            session = OrtSession(self._original.graph, plain=True)
            try:
                self._moved[probe.name] = session.run(shaken(probe.feeds))
            finally:
                session.close()
        at = self._probes.index(probe)
        moved = largest_change(self._results[at][name], self._moved[probe.name][name])
        return found.max_abs <= AMPLIFIED * moved


def _interface_differs(last: Model, candidate: Model, shapes: bool) -> str:
    for kind in ("inputs", "outputs"):
        before, after = getattr(last, kind), getattr(candidate, kind)
        if [spec.name for spec in before] != [spec.name for spec in after]:
            return f"the {kind} are now {', '.join(spec.name for spec in after) or 'none'}"
        for old, new in zip(before, after, strict=True):
            if old.dtype != new.dtype or (shapes and old.shape != new.shape):
                return f"{kind[:-1]} {old.name} is now {new.describe()}, not {old.describe()}"
    return ""


def _checker_says(graph: onnx_ir.Model, level: int) -> str:
    """What onnx's checker has against a graph: structure at level 1, shapes too at level 2."""
    if level == 0:
        return ""
    light, _ = without_weights(graph, CHECKED_ABOVE)
    try:
        onnx.checker.check_model(onnx_ir.to_proto(light), full_check=level == 2)
    except Exception as error:  # checker and shape inference raise unrelated classes
        return f"onnx.checker: {_first_line(str(error))}"
    return ""


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:300]


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
    wrong = _checker_says(candidate.graph, 2)
    if wrong and _checker_says(before.graph, 2):
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
        raise ModelError(f"it left an invalid graph: {_first_line(str(cause))}") from error


def _why(error: BaseException) -> str:
    """What a pass failed of: the first cause's own words."""
    while error.__cause__ is not None and isinstance(
        error, onnx_ir.passes.InvariantError | onnx_ir.passes.PassError
    ):
        error = error.__cause__
    text = _first_line(str(error))
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
