"""A page of its own for a difference: what was found, and the error along the graph."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from converter.diff import Difference, Finding
from converter.diff.tensors import TensorError
from converter.report import svg, words


def as_html(found: Difference, a: str, b: str, based_on: str) -> str:
    """The page; names of models and tensors are untrusted, and escaped.

    Args:
        found: What was found.
        a, b: What the models are called.
        based_on: What they were compared on, in words.
    """
    environment = Environment(
        loader=PackageLoader("converter.report", "."), autoescape=True, undefined=StrictUndefined
    )
    assert environment.loader is not None
    style, _, _ = environment.loader.get_source(environment, "report.css")
    return environment.from_string(_PAGE).render(
        found=found,
        a=a,
        b=b,
        based_on=based_on,
        verdict=verdict(found),
        style=Markup(style),  # our own file
        plot=_plot(found),
        rows=error_rows(found),
        told=told(found),
    )


def verdict(found: Difference) -> str:
    """The result in a sentence."""
    if found.first is None:
        odd = [error for error in found.inner if error.words.startswith(("NaN", "infinite"))]
        inside = f", but inside {odd[0].name} is {odd[0].odd}" if odd else ""
        return f"No difference: every output agrees within {found.tolerance:g}{inside}."
    tensor = found.first.tensor
    return f"They part at {tensor.name}: {tensor.words}."


def told(found: Difference) -> list[str]:
    """What there is to say besides, a line each."""
    lines = [
        f"{len(found.along)} tensors compared, of {found.common} that both have; "
        f"{found.nodes_a} nodes in A, {found.nodes_b} in B"
    ]
    if found.first is not None:
        lines += _about(found.first)
    if found.inner:
        names = _listed([error.name for error in found.inner])
        lines.append(f"inner tensors differ, without effect on an output: {names}")
    if found.misnamed:
        lines.append(
            f"differ, though what follows agrees (fused, renamed or evened out): "
            f"{_listed(found.misnamed)}"
        )
    if found.closed:
        lines.append(f"subgraphs were not looked into: {_listed(found.closed)}")
    return lines


def _about(first: Finding) -> list[str]:
    tensor = first.tensor
    lines = [f"in A it is computed by {_chain(first.nodes_a, first.inside_a)}"]
    lines.append(f"in B it is computed by {_chain(first.nodes_b, first.inside_b)}")
    if tensor.other != tensor.name:
        lines.append(f"in B it is called {tensor.other}")
    if tensor.value_a or tensor.value_b:
        at = ", ".join(map(str, tensor.index))
        where = f"on {tensor.sample}, at [{at}]" if tensor.index else f"on {tensor.sample}"
        lines.append(f"{where}: {tensor.value_a} in A, {tensor.value_b} in B")
    lines += [f"before it, {error.name} is {error.words}" for error in first.before]
    if not first.before:
        lines.append("before it there are only inputs and weights")
    return lines


def _chain(nodes: Sequence[object], count: int) -> str:
    shown = ", ".join(f"{getattr(n, 'op', '')} {getattr(n, 'name', '')}" for n in nodes)
    return f"{shown} and {count - len(nodes)} more nodes" if count > len(nodes) else shown


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


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
