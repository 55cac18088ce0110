"""report.html: one file that needs nothing else, no script, no network.

Jinja2 escapes every value; names of models and tensors are untrusted input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from converter.report import svg, words
from converter.report.along import AlongReport
from converter.report.model import ArtifactReport, Report


def as_html(report: Report) -> str:
    """The report as a page; the same bytes for the same report."""
    environment = _environment()
    loader = environment.loader
    assert loader is not None
    style, _, _ = loader.get_source(environment, "report.css")
    return environment.get_template("report.html.j2").render(
        report=report,
        style=Markup(style),  # our own file
        missed=sum(g.status == "failed" for a in report.artifacts for g in a.gates),
        plots=[_plots(artifact) for artifact in report.artifacts],
        along=[_along(item) for item in report.along],
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("converter.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("number", "cosine", "size", "milliseconds", "percent", "decibel", "speedup", "seconds")
    environment.filters |= {name: getattr(words, name) for name in names}
    environment.filters["plain"] = plain
    environment.globals |= {
        "at_one": _at_one,
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
        return ", ".join(plain(item) for item in value) or words.NONE
    return str(value)


def _along(item: AlongReport) -> Markup | None:
    points = [(point.place, point.error, point.title) for point in item.points]
    return svg.along_plot(points, item.tolerance, item.first_index)


def _plots(artifact: ArtifactReport) -> dict[str, Markup | None]:
    gates = {gate.name: gate for gate in artifact.gates}
    cosine = gates.get("cosine")
    floats = artifact.accuracy.floats if artifact.accuracy else ()
    return {
        "cosine": svg.cosine_plot(floats, cosine.limit if cosine else None),
        "steps": svg.steps_plot(artifact.steps),
        "latency": svg.latency_plot(artifact.latency, gates.get("latency p95")),
    }
