"""A page of its own for a difference: what was found, and the error along the graph."""

from __future__ import annotations

from converter.diff.difference import Difference
from converter.diff.tensors import TensorError
from converter.diff.words import told, verdict
from converter.report import svg
from converter.report.html import style
from converter.text import markup, words
from converter.text.markup import Markup


def as_html(found: Difference, a: str, b: str, based_on: str) -> str:
    """The page; names of models and tensors are untrusted, and escaped.

    Args:
        found: What was found.
        a: What the first model is called.
        b: What the second model is called.
        based_on: What they were compared on, in words.
    """
    environment = markup.environment()
    return environment.from_string(_PAGE).render(
        found=found,
        a=a,
        b=b,
        based_on=based_on,
        verdict=verdict(found),
        style=style(environment),
        plot=_plot(found),
        rows=error_rows(found),
        told=told(found),
    )


def error_rows(found: Difference) -> list[tuple[str, str, str, str]]:
    """A row for each output and for the tensors around the place where they part."""
    tensors: dict[str, tuple[str, TensorError]] = {}
    if found.first is not None:
        tensors = {error.name: ("before", error) for error in found.first.before}
        tensors[found.first.tensor.name] = ("first", found.first.tensor)
    for error in found.outputs:
        tensors.setdefault(error.name, ("output", error))
    return [
        (what, error.name, error.odd or words.number(error.error), words.decibel(error.sqnr_db))
        for what, error in tensors.values()
    ]


def _plot(found: Difference) -> Markup | None:
    points = [
        (point.place, point.error.error, f"{point.error.name} ({point.op}): {point.error.words}")
        for point in found.along
    ]
    names = [point.error.name for point in found.along]
    first = names.index(found.first.tensor.name) if found.first else None
    return svg.along_plot(points, found.tolerance, first)


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{ a }} and {{ b }}</title>
<style>
{{ style }}</style>
</head>
<body>
<main>
<header class="hero {{ "failed" if found.first else "passed" }}">
  <p class="kicker">A: {{ a }}, B: {{ b }}</p>
  <h1>{{ verdict }}</h1>
  <p>{{ based_on }}</p>
</header>
<section>
<h2>What was found</h2>
<ul>
{% for line in told %}<li>{{ line }}</li>
{% endfor %}</ul>
<table>
<thead><tr><th></th><th>tensor</th><th>error</th><th>SQNR</th></tr></thead>
<tbody>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table>
</section>
{% if plot %}
<section>
<figure>
<figcaption>Error along the graph<span>relative to each tensor's largest value</span></figcaption>
{{ plot }}
</figure>
</section>
{% endif %}
</main>
</body>
</html>
"""
