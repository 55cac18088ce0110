"""report.html: one file that needs nothing else, no network; beyond a few artifacts, the comparison
first, with a script of ours that sorts it.

Every value is escaped (:mod:`converter.text.markup`): names come from files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment

from converter import plugins
from converter.check.gates import numbers, told
from converter.preparation.answers import Meaning, Meant
from converter.preparation.declared import Declaration
from converter.preparation.flow import FlowStep, When
from converter.preparation.inputs import Constant, Picture, Row, Sound, State, Step
from converter.report import svg
from converter.report.layerwise_error import AlongReport
from converter.report.model import ArtifactReport, Report, TuningReport
from converter.text import markup, words
from converter.text.markup import Markup


def as_html(report: Report) -> str:
    """The report as a page; the same bytes for the same report."""
    environment = page_environment()
    return environment.get_template("report.html.j2").render(
        report=report,
        view=_view(report, environment),
        style=style(environment),
        missed=sum(g.status == "failed" for a in report.artifacts for g in a.gates),
        plots=[_plots(artifact) for artifact in report.artifacts],
        fronts={item.package: _front(item) for item in report.tuning},
        parts=report.each_part,
        costs=_costs(report),
        along=[(n, it, _along(it)) for n, part in report.each_part.items() for it in part.along],
    )


FEW = 3
"""Artifacts that are shown one below the other; of more, details are folded."""


def _view(report: Report, environment: Environment) -> Any:
    """The comparison of many artifacts; None for a few."""
    if len(report.artifacts) <= FEW:
        return None
    from converter.report.compared import rows_of
    from converter.report.compared_page import view_of

    rows = rows_of(report)[: len(report.artifacts)]
    return view_of(rows, environment, link="#artifact-{}")


def _costs(report: Report) -> Any:
    """What says costs in words, where something was measured."""
    if not any(artifact.memory or artifact.profile for artifact in report.artifacts):
        return None
    from converter.report import costs

    return costs


def _profile(artifact: ArtifactReport) -> Markup | None:
    if artifact.profile is None:
        return None
    from converter.report.icicle import icicle

    return icicle(artifact.profile)


def style(environment: Environment) -> Markup:
    """What pages look like: a file of our own."""
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, "report.css")[0])


@cache
def page_environment() -> Environment:
    """Jinja2 with what pages of reports say numbers by; templates are compiled once."""
    environment = markup.environment(trim_blocks=True, lstrip_blocks=True)
    names = (
        "number",
        "cosine",
        "size",
        "milliseconds",
        "percent",
        "decibel",
        "speedup",
        "seconds",
        "size_ratio",
    )
    environment.filters |= {name: getattr(words, name) for name in names}
    environment.filters |= {"plain": plain, "labelled": labelled, "ran_in": ran_in}
    environment.filters |= {"declared": declared, "joined": joined}
    environment.globals |= {
        "at_one": _at_one,
        "numbers": numbers,
        "told": told,
        "none_sign": words.NONE,
    }
    return environment


def _at_one(points: Sequence[Any]) -> Any:
    """The point (or ratio) at batch 1 with one caller; the artifact's comes before the source's."""
    return next((p for p in points if (p.batch, p.concurrency) == (1, 1)), None)


def plain(value: Any) -> str:
    """A detail in words: lists by comma, mappings as ``name: value``, yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == "":
        return words.NONE
    if isinstance(value, float):
        return words.number(value)
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {plain(item)}" for name, item in value.items()) or words.NONE
    if isinstance(value, (list, tuple)):
        return ", ".join(_item(item) for item in value) or words.NONE
    return str(value)


def _item(value: Any) -> str:
    """One of a list; a list in a list keeps its brackets, or shapes would run into one another."""
    return f"[{plain(value)}]" if isinstance(value, (list, tuple)) else plain(value)


@cache
def _labels() -> dict[str, str]:
    """What details are called that say so."""
    found = {"sha256": "sha256"}
    for _, target in plugins.specs("emitters"):
        found |= target.labels
    return found


def labelled(details: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Details with their names as words: ``Compute units`` of ``compute_units``."""
    words_of = {name: name.replace("_", " ") for name in details}
    return [
        (_labels().get(name, text[:1].upper() + text[1:]), details[name])
        for name, text in words_of.items()
    ]


def declared(said: Declaration | None) -> list[tuple[str, str]]:
    """How users' files become inputs and outputs answers, a line for each."""
    lines = []
    for item in said.prepare if said else ():
        if isinstance(item, Picture):
            lines.append((f"Pictures become {item.input}", _picture(item)))
        elif isinstance(item, Sound):
            lines.append((f"Sounds become {item.input}", _sound(item)))
        elif isinstance(item, Row):
            columns = [name for part in item.inputs for name in part.columns]
            names = ", ".join(part.name for part in item.inputs)
            lines.append((f"Rows become {names}", f"columns {_few(columns)}"))
        elif isinstance(item, Step):
            lines.append((f"A {item.takes} becomes the inputs", f"by {item.step}"))
        elif isinstance(item, Constant | State):
            shape = "x".join(map(str, item.shape))
            then = f"; then {item.next} of the window before" if isinstance(item, State) else ""
            lines.append((f"{item.input} is", f"{words.number(item.value)}, {shape}{then}"))
        else:
            longest = f", at most {item.longest}" if item.longest else ""
            names = ", ".join(made.name for made in item.inputs)
            lines.append((f"Texts become {names}", f"tokens by {item.file}{longest}"))
    for meaning in said.answer if said else ():
        if isinstance(meaning, Meant):
            lines.append(("The answer is made", f"by {meaning.step}"))
        else:
            lines.append((f"{_MEANINGS[meaning.kind]} of {meaning.output}", _meaning(meaning)))
    lines += (("Of that", note) for note in (said.notes if said else ()))
    return lines


def joined(flow: Sequence[FlowStep]) -> str:
    """A flow's steps in a line: ``detect, then read for each of detect.boxes``."""
    told = []
    for step in flow:
        name = step.name if step.name == step.part else f"{step.name} ({step.part})"
        each = f" for each of {step.each}" if step.each else ""
        each += f" of what {step.takes} gives" if step.takes else ""
        when = ", ".join(f"{other} is {_asked(said)}" for other, said in step.when.items())
        told.append(f"{name}{each}" + (f" where {when}" if when else ""))
    return ", then ".join(told)


def _asked(said: str | When) -> str:
    if isinstance(said, str):
        return said
    limits = [f"{name} {words.number(limit)}" for name, limit in (("above", said.above),
              ("below", said.below)) if limit is not None]  # fmt: skip
    return " ".join([said.label, said.number, " and ".join(limits)]).strip().replace("  ", " ")


_MEANINGS = {
    "classes": "Classes", "boxes": "Boxes", "numbers": "Numbers", "embedding": "Vector",
    "text": "Text", "series": "Series", "segments": "Segments", "masks": "Masks",
    "regions": "Regions", "keypoints": "Points",
}  # fmt: skip


def _meaning(item: Meaning) -> str:
    """What of it isn't the default."""
    told = []
    for name, value in item.model_dump(exclude={"kind", "output"}, exclude_defaults=True).items():
        if isinstance(value, tuple):
            told.append(f"{len(value)} {'names' if name == 'labels' else name}")
        elif name == "activation":
            told.append(value)
        else:
            told.append(name if value is True else f"{name} {value}")
    return "; ".join(told)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def _sound(item: Sound) -> str:
    """``16,000 Hz, one channel; windows of 576 samples, every 512``."""
    parts = [f"{item.rate:,} Hz, one channel" + ", mean 0 and variance 1" * item.normalize]
    if item.length:
        every = f", every {item.hop:,}" if item.hop else ""
        parts.append(f"windows of {item.length:,} samples{every}")
    return "; ".join(parts)


def _picture(item: Picture) -> str:
    """``rgb 224x224, the shorter side resized to 256 (bilinear), cut in the middle; ...``."""
    size = "x".join(str(side or "any") for side in (item.height, item.width))
    to = item.resize
    resized = f"resized to {'x'.join(map(str, to))}" if isinstance(to, tuple) else "resized to it"
    if isinstance(to, int):
        resized = f"the shorter side resized to {to}"
    cut = ", cut in the middle" if to is not None and item.crop else ""
    mean, std = (", ".join(map(words.number, part)) for part in (item.mean, item.std))
    values = f"(v x {words.number(item.scale)} - [{mean}]) / [{std}]"
    return f"{item.color} {size}, {resized} ({item.interpolation}){cut}; {values}"


_SAID = {"name", "version", "runs", "stands_for", "read_back", "not_run"}
"""Of a runtime: in the line's beginning, or among the gates."""


def ran_in(runtime: Mapping[str, Any]) -> str:
    """What an artifact was checked in: ``onnxruntime 1.31.1; providers: cpu``."""
    if not runtime:
        return words.NONE
    named = words.runtime(runtime)
    if runtime.get("stands_for"):
        runs = str(runtime.get("runs", "")).rstrip(",")
        named = f"{named}, which ran {runs}, in place of {runtime['stands_for']}"
    rest = {k: v for k, v in runtime.items() if k not in _SAID and v not in (None, "")}
    return "; ".join([named, *(f"{name}: {plain(value)}" for name, value in rest.items())])


def _along(item: AlongReport) -> Markup | None:
    points = [(point.place, point.error, point.title) for point in item.points]
    return svg.along_plot(points, item.tolerance, item.first_index)


def _front(item: TuningReport) -> Markup | None:
    measured = [[p for p in trial.points if p.p95_ms is not None and not p.wrong]
                for trial in item.trials if not trial.failed]  # fmt: skip
    return svg.front_plot(
        [[(p.throughput, p.p95_ms or 0.0) for p in points] for points in measured], item.limit_ms
    )


def _plots(artifact: ArtifactReport) -> dict[str, Markup | None]:
    gates = {gate.name: gate for gate in artifact.gates}
    cosine = gates.get("cosine")
    outputs = artifact.accuracy.floats if artifact.accuracy else ()
    floats = [output for output in outputs if output.cosine is not None]
    return {
        "cosine": svg.cosine_plot(floats, cosine.limit if cosine else None),
        "steps": svg.steps_plot(artifact.steps),
        "latency": svg.latency_plot(artifact.latency, gates.get("latency p95")),
        "profile": _profile(artifact),
    }
