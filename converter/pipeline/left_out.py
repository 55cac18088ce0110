"""Artifacts that aren't given: those that can't be, and those that missed a gate or a budget."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from converter import plugins
from converter.check.gates import GateResult, require
from converter.errors import (
    BudgetError,
    GateError,
    ModelyardError,
    PartlyError,
    UnsupportedError,
    UsageError,
)
from converter.files.output_guard import SHOWN
from converter.ir.model import Model
from converter.options.precisions import stores_weights
from converter.pipeline.outcome import Outcome
from converter.pipeline.plan import Step
from converter.protocols.server import Packaged, Server
from converter.report.model import ArtifactReport, Report, interfaces


def take_out(outcome: Outcome, report: Report) -> None:
    """Removes the files of artifacts that aren't given, half made ones too, and their packages."""
    root, output = outcome.work.folder, outcome.work.output
    given = {(item.target, item.precision) for item in report.artifacts if not _failed(item)}
    for item in report.artifacts:
        if _failed(item) and item.path:
            item.path = ""
            item.decisions.append("left out, as it missed a gate: the others were given")
    for step in outcome.plan.steps:
        is_given = (step.target, step.precision) in given
        if step.kind == "emit" and not is_given:
            shutil.rmtree(root / step.target / step.precision, ignore_errors=True)
        if step.kind == "package" and not is_given and step.id in outcome.run.done:
            for folder in _folders(outcome.run.result(step.id)):
                shutil.rmtree(folder)
    report.packages = [item for item in report.packages if (output / item.path).exists()]
    places = [
        path for name in ("serving/*/*", "serving/*", "serving") for path in output.glob(name)
    ]
    for path in (*places, *(root / target for target in outcome.work.request.to), root):
        with suppress(OSError):  # something is in it
            path.rmdir()


def take_out_part(outcome: Outcome, others: Sequence[Outcome]) -> None:
    """Removes all that was made of a part, half-made packages too; those of ``others`` stay."""
    shutil.rmtree(outcome.work.folder)
    made = (o.run.result(step.id) for o in others for step in o.done("package"))
    kept = {folder for packaged in made for folder in _folders(packaged)}
    _remove_but(outcome.work.output / "serving", kept)


def _folders(packaged: Packaged) -> list[Path]:
    """A package, and those beside it that it asks."""
    server: Server = plugins.load("servers", packaged.server)
    return [packaged.path, *server.calls(packaged.path)]


def _remove_but(folder: Path, kept: Set[Path]) -> None:
    """Empties a folder but for what is kept, and removes it where nothing is."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if any(item.is_relative_to(path) for item in kept - {path}):
            _remove_but(path, kept)
        elif path not in kept:
            shutil.rmtree(path)
    with suppress(OSError):  # something is in it, or it isn't there
        folder.rmdir()


def _failed(item: ArtifactReport) -> bool:
    return item.verdict == "failed"


@dataclass(frozen=True)
class Left:
    """A step that couldn't be done, and why."""

    step: Step
    error: ModelyardError

    @property
    def missed(self) -> bool:
        """Whether something was missed: a budget, or what was made doesn't run. Else it can't be:
        the target doesn't take the model, or nothing of it can be lowered."""
        lowered = self.step.kind in ("masks", "calibrate", "quantize")
        cannot = lowered or isinstance(self.error, UnsupportedError | UsageError)
        return isinstance(self.error, GateError) or not cannot


def _not_done(outcome: Outcome) -> Iterator[tuple[Step, Left]]:
    """Artifacts that were planned and aren't done with, and why; as far as that is known."""
    for step in outcome.plan.steps:
        if step.kind == "emit":
            steps = (step, *outcome.plan.beside(step, "check", "bench"))
            why = [(step, left) for item in steps for left in _why_not(outcome, item)]
            yield from why[:1]


def _why_not(outcome: Outcome, step: Step) -> list[Left]:
    """Why a step couldn't be done, or one that it needs."""
    if step.id in outcome.run.left:
        return [Left(step, outcome.run.left[step.id])]
    needs = map(outcome.plan.step, step.needs)
    return [left for need in needs for left in _why_not(outcome, need)]


def missed(outcome: Outcome) -> Iterator[ArtifactReport]:
    """What there would be where a budget wasn't met, or what was made didn't run."""
    for step, left in _not_done(outcome):
        error = left.error
        if not left.missed:
            continue
        read: Model = outcome.run.result("parse").model
        simplified: Model = outcome.run.result("simplify").model
        budget = isinstance(error, BudgetError)
        why = "; ".join([error.message, *error.details[:1]])
        how = ("not made: its budget was judged on these samples, against the simplified model in "
               "float32")  # fmt: skip
        yield ArtifactReport(
            part=outcome.part,
            target=step.target,
            precision=step.precision,
            path="",
            bytes=0,
            sha256="",
            files=0,
            nodes_before=read.node_count(),
            nodes_after=simplified.node_count(),
            inputs=interfaces(simplified.inputs),
            outputs=interfaces(simplified.outputs),
            gates=[GateResult("budget" if budget else "made", None, None, "failed", why)],
            decisions=[*([how] if budget else []), *error.details],
        )


def skipped(outcome: Outcome) -> Iterator[str]:
    """A line for what can't be, and was left out."""
    reasons: dict[str, list[str]] = {}
    for what, why in outcome.plan.skipped.items():
        reasons.setdefault(why, []).append(what.replace(":", " "))
    for step, left in _not_done(outcome):
        if not left.missed:
            why = "; ".join([left.error.message, *left.error.details[:SHOWN]])
            reasons.setdefault(why, []).append(step.what)
    for why, names in reasons.items():
        yield f"SKIPPED: {', '.join(names)}: {why}"


def missed_error(
    outcomes: Sequence[Outcome], report: Report, place: Path, given: bool
) -> ModelyardError:
    """The error for a run that missed something.

    Args:
        outcomes: The runs of all parts, with why steps were left out.
        report: The report of all of them.
        place: The folder in which the report is.
        given: Whether the artifacts that passed are given (``--keep-going``).

    Returns:
        PartlyError where they are; else a GateError, or the one error that there was.
    """
    failed = [item for item in report.artifacts if _failed(item)]
    passed = [item.title for item in report.artifacts if not _failed(item)]
    unmade = {name: part.failed for name, part in report.parts.items() if part.failed}
    page = place / "report.html"
    if given:
        said = [f"{', '.join(unmade)} couldn't be converted"] if unmade else []
        said += [f"{', '.join(item.title for item in failed)} missed a gate"] if failed else []
        return PartlyError(
            f"{'; '.join(said)}; the artifacts that passed are in {place}: {', '.join(passed)}",
            details=[*(f"{name}: {why}" for name, why in unmade.items()), *_misses(failed)],
            hint=f"The artifacts that missed a gate are only in the report: {page}",
            report=report,
        )
    left = [left for outcome in outcomes for _, left in _not_done(outcome) if left.missed]
    errors = {item.error.message: item.error for item in left}
    if len(errors) == 1 and not any(item.bytes for item in failed):
        (error,) = errors.values()
    elif len(failed) == 1:
        error = _gate_error(failed[0])
    else:
        count = f"{len(failed)} of {len(report.artifacts)} artifacts"
        error = GateError(f"{count} missed a gate", details=_misses(failed))
    of_them = tuple(f"{item.title}: " for item in failed)
    error.details = (*error.details, *(text for text in report.loud if text.startswith(of_them)))
    error.hint = f"{error.hint} The report is in {page}; no artifact was left.".strip()
    if any(item.bytes and item.precision != "fp32" and _by_numbers(item) for item in failed):
        error.hint += _closer(outcomes, failed)
    if passed:
        error.hint += f" --keep-going gives the others: {', '.join(passed)}."
    error.left = place
    return error


def _by_numbers(item: ArtifactReport) -> bool:
    """Whether it missed a gate that a closer artifact would pass."""
    missed = (gate for gate in item.gates if gate.status == "failed" and not gate.measured)
    return any(gate.value is not None for gate in missed)


def _closer(outcomes: Sequence[Outcome], failed: Sequence[ArtifactReport]) -> str:
    """What makes an artifact closer to its source, or a limit wider."""
    if all(outcome.work.request.min_cosine is not None for outcome in outcomes):
        return (
            " To pass, keep more layers in float32 (--keep-float; modelyard sensitivity "
            "shows each layer's cost), choose another precision, or lower the limit."
        )
    stored = all(stores_weights(item.precision) for item in failed)
    more = "gives more bits to as many layers" if stored else "keeps as many layers in float32"
    return f" With --min-cosine X, Modelyard {more} as X needs."


def _gate_error(item: ArtifactReport) -> GateError:
    try:
        require(item.gates, item.title)
    except GateError as error:
        return error
    raise AssertionError(item.title)


def _misses(failed: Sequence[ArtifactReport]) -> list[str]:
    """A line for each missed gate."""
    return [f"{item.title}, {line}" for item in failed for line in _gate_error(item).details]
