"""Compares a model with what a target's rewrites made of it, and undoes those that are wrong.

All rewrites are compared at the cost of one. Where they fail, halves of them tell which does: with
the first ``k`` of them done the model is right, with one more it isn't. That one is undone, and the
rest compared again. A node that the target can't take then is refused when it is emitted, by its
own name.

A rewrite that is right may not be refused. So what no comparison can tell counts for nothing:
floats of 16 bits are compared on samples alone, since edges say where 16 bits end; an edge where
either model overflows is skipped; a model that rounds to integers is compared without rounding
(:mod:`converter.verify.exact`), then region by region, where one step counts for nothing
(:mod:`converter.verify.regions`); and a model isn't compared at all where ONNX Runtime doesn't run
it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import onnx_ir

from converter.analysis.batch import Ran
from converter.errors import ModelError
from converter.ir.model import Legalized, Model, PassRecord
from converter.passes.legalize import Rewritten, why_illegal
from converter.passes.legalize.chain import LegalizingPass
from converter.verify.differences import RELATIVE, tolerance_of
from converter.verify.exact import exact_form, rounds
from converter.verify.probes import Probe
from converter.verify.regions import RoundingVerifier
from converter.verify.sameness import Looks
from converter.verify.transforms import precise
from converter.verify.verifier import Verdict, Verifier

LOG = logging.getLogger("modelyard.passes")
"""What passes made of a model, at DEBUG."""

Probes = Callable[[Model], Sequence[Probe]]
"""Inputs to compare a model on."""


def verify_rewrites(
    model: Model, step: LegalizingPass, probes: Probes, known: Sequence[Ran] = ()
) -> Model:
    """The model with what it is for a target (:attr:`Model.legalized`), compared with it.

    Args:
        model: Not changed.
        step: The target's; it knows afterwards what was undone, and why.
        probes: Only asked for where something changed.
        known: What the model gave already: inputs and outputs by name.
    """
    start, before = time.perf_counter(), model.node_count()
    trial = _Trial(model, step)
    verdict, status, told = Verdict(True), "unchanged", []
    if not Looks.of(trial.base.graph).same(Looks.of(trial.made.graph), step.shapes_count):
        verdict = trial.verdict(probes, known)
        status = "changed" if verdict.ok else "failed"
        undone = [f"undone: {key.strip(':')}, {why}" for key, why in step.undone.items()]
        told = [step.findings(), *undone, verdict.how, *verdict.skipped, verdict.reason]
    record = PassRecord(
        step.name,
        status,
        before,
        trial.made.node_count(),
        "; ".join(filter(None, told)),
        verdict.cosine,
        verdict.max_abs,
        time.perf_counter() - start,
    )
    LOG.debug("%s: %s%s", step.name, status, record.detail and f": {record.detail}")
    return replace(model, legalized=Legalized(trial.made.graph, step.told, record))


class _Trial:
    """A model, and what a target's rewrites make of it: all of them, or the first few.

    Attributes:
        made: The model after the rewrites that aren't undone.
        base: What that is compared with.
    """

    def __init__(self, model: Model, step: LegalizingPass) -> None:
        self._model, self._step = model, step
        self.made = self._run()
        self.base = model if step.assumed is None else replace(model, graph=step.assumed)

    def _run(self, left: Sequence[Rewritten] = ()) -> Model:
        """What the rewrites make of the model, without those of ``left``."""
        made, undone = self._model.copy(), self._step.undone
        self._step.undone = {**dict.fromkeys((item.key for item in left), ""), **undone}
        try:
            self._step(made.graph)
        finally:
            self._step.undone = undone
        return made

    def verdict(self, probes: Probes, known: Sequence[Ran]) -> Verdict:
        """Undoes what is wrong; on the rest, or the first that the target can't do without."""
        try:
            same = self._step.same_integers
            verifier = _verifier(self.base, probes(self.base), known, same_integers=same)
            verdict = verifier.compare(self.made)
        except ModelError as error:  # about the model before; the artifact's check runs its source
            return Verdict(True, skipped=(f"not compared: {error.message}",))
        while not verdict.ok and (found := self._first_wrong(verifier, verdict)) is not None:
            wrong, self._step.undone[found[0].key] = found
            self.made = self._run()
            if any(why_illegal(node) for node in self.made.nodes() if _is(node, wrong)):
                break
            verdict = verifier.compare(self.made)
        return verdict

    def _first_wrong(
        self, verifier: Verifier | RoundingVerifier, verdict: Verdict
    ) -> tuple[Rewritten, str] | None:
        """By halves, the rewrite with which the model isn't right any more, and how; None where it
        isn't without any."""
        done = list(self._step.rewritten)
        right, wrong = -1, len(done)
        while wrong - right > 1:
            count = (right + wrong) // 2
            found = verifier.compare(self._run(done[count:]))
            if found.ok:
                right = count
            else:
                wrong, verdict = count, found
        return (done[wrong - 1], verdict.reason) if wrong else None


def _verifier(
    model: Model, probes: Sequence[Probe], known: Sequence[Ran], *, same_integers: bool
) -> Verifier | RoundingVerifier:
    """What compares versions of a model; floats of 16 bits on samples alone."""
    rounded = not same_integers and any(rounds(node) for node in model.nodes())
    plain = exact_form(model) if rounded else model
    halves = tolerance_of(plain).relative > RELATIVE[onnx_ir.DataType.FLOAT]
    chosen = [item for item in probes if item.kind == "sample" or not halves]
    if plain is not model:
        return RoundingVerifier(model, plain, chosen)
    base = precise(model)
    return Verifier(base, chosen, overflow_counts=False, known=known if base is model else ())


def _is(node: onnx_ir.Node, rewrite: Rewritten) -> bool:
    return rewrite.key in (node.name, f"::{node.op_type}")
