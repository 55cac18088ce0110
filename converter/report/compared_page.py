"""The page of a comparison: one file, without a network; the comparison first, details folded."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment

from converter.report.compared import Compared, Row, front
from converter.report.compared_text import Column, cell, columns, ordered
from converter.report.html import page_environment, style
from converter.report.scatter import scatter
from converter.text.markup import Markup

SEAL = '<meta name="generator" content="modelyard comparison {}">'
"""What says that a page is ours; with the seal of the page in which it is empty."""

_BEFORE = 2
"""Cells of a row before those of the columns."""


@dataclass(frozen=True)
class View:
    """What the comparison's part of a page shows.

    Attributes:
        rows: In order.
        links: Of each row: to its details.
        columns: Of figures.
        names: Of the rows that no other beats.
        front: Their numbers and rows.
        filters: What the table can be filtered by, with the values that there are.
        drawing: Accuracy over latency; None where too little is known.
        ship: The row to ship.
        script, script_hash: What sorts and filters, and how the page's policy names it.
        style: What it looks like.
    """

    rows: Sequence[Row]
    links: Sequence[str]
    columns: Sequence[Column]
    names: set[str]
    front: Sequence[tuple[int, Row]]
    filters: Sequence[tuple[str, list[str]]]
    drawing: Markup | None
    ship: str
    script: Markup
    script_hash: str
    style: Markup
    before: int = _BEFORE

    cell = staticmethod(cell)


def view_of(
    rows: Sequence[Row], environment: Environment, ship: str = "", link: str = "#detail-{}"
) -> View:
    """The view of rows in their order.

    Args:
        rows: The rows.
        environment: The page's.
        ship: The name of the row to ship.
        link: Where the details of a row are, by its number.
    """
    assert environment.loader is not None
    script, _, _ = environment.loader.get_source(environment, "compared.js")
    looks, _, _ = environment.loader.get_source(environment, "compared.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    names = front(rows)
    kinds = {name: sorted({getattr(row, name) for row in rows} - {""})
             for name in ("target", "precision", "verdict")}  # fmt: skip
    return View(
        rows, [link.format(number) for number, _ in enumerate(rows, 1)], columns(rows), names,
        [(number, row) for number, row in enumerate(rows, 1) if row.name in names],
        [(name, values) for name, values in kinds.items() if len(values) > 1],
        scatter(rows, names, ship), ship, Markup(script), f"sha256-{digest}", Markup(looks),
    )  # fmt: skip


def as_html(compared: Compared) -> str:
    """The page, its seal left empty; names from files are escaped."""
    environment = page_environment()
    return environment.get_template("compared.html.j2").render(
        compared=compared,
        view=view_of(ordered(compared), environment, compared.ship),
        overall=_overall(compared),
        seal=Markup(SEAL.format("")),  # our own words
        style=style(environment),
    )


def _overall(compared: Compared) -> str:
    """The class of the page's head: of some that failed, it depends on what is needed."""
    usable = [row.usable for row in compared.rows]
    if compared.regressions or not any(usable) or (compared.want and not compared.ship):
        return "failed"
    return "passed" if all(usable) or compared.ship else "unlowered"
