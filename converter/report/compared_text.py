"""A comparison as text: the columns of its table, and the table for a terminal, a pull request, a
spreadsheet and a CI server."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from converter.report.compared import Accuracy, Change, Compared, Row, front
from converter.text import words
from converter.text.screen import Text, lines

STYLES = {"passed": "green", "failed": "red", "error": "red"}


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        title: Its head.
        shown: A row's text.
        value: What it is sorted by; None where a row has nothing.
        less: Whether the first click brings the least to the top.
        note: What stands below the text.
    """

    title: str
    shown: Callable[[Row], str]
    value: Callable[[Row], float | None]
    less: bool = True
    note: Callable[[Row], str] = lambda row: ""


def _drop(row: Row) -> str:
    return "" if row.drop is None else f"drop {words.number(row.drop)}"


def _spread(row: Row) -> str:
    if row.spread is None or row.spread >= 1:
        return ""
    return f"\N{PLUS-MINUS SIGN}{words.percent(row.spread / 2)}"


def columns(rows: Sequence[Row]) -> list[Column]:
    """The columns of figures that a row has something in."""
    accuracy = Accuracy.of(rows)
    every = [
        Column(accuracy.metric or "Metric", lambda row: f"{words.number(row.value)}{row.unit}",
               lambda row: row.value, not accuracy.higher_is_better, _drop),
        Column("Cosine, worst", lambda row: words.cosine(row.cosine), lambda row: row.cosine,
               False),
        Column("Median, ms", lambda row: words.milliseconds(row.p50_ms), lambda row: row.p50_ms,
               note=_spread),
        Column("p95, ms", lambda row: words.milliseconds(row.p95_ms), lambda row: row.p95_ms),
        Column("Samples/s", lambda row: words.number(row.throughput, 3),
               lambda row: row.throughput, False),
        Column("Size", lambda row: words.size(row.bytes), lambda row: row.bytes),
        Column("Memory", lambda row: words.size(row.memory), lambda row: row.memory),
        Column("Nodes", lambda row: str(row.nodes), lambda row: row.nodes),
    ]  # fmt: skip
    return [item for item in every if any(item.value(row) is not None for row in rows)]


def cell(column: Column, row: Row) -> str:
    """A row's text in a column; a dash where it has nothing."""
    return words.NONE if column.value(row) is None else column.shown(row)


def ordered(compared: Compared) -> list[Row]:
    """The rows as they are shown: what to ship, the front, what else passed, the rest."""
    first = front(compared.rows)
    return sorted(
        compared.rows,
        key=lambda row: (row.name != compared.ship, row.name not in first, not row.usable),
    )


def told(change: Change) -> str:
    """``net onnx int8: size 4.1 MB, was 3.9 MB``."""
    if change.what == "rows":
        return f"{change.name}: {'gone' if change.now == words.NONE else 'new'}"
    return f"{change.name}: {change.what} {change.now}, was {change.before}"


def as_terminal(compared: Compared) -> RenderableType:
    """A row an artifact; what to ship, and what changed."""
    title = f"{compared.title}: {compared.verdicts}"
    table = Table(
        title=lines(title), title_justify="left", title_style="bold", box=box.SIMPLE,
        pad_edge=False, padding=(0, 1, 0, 0),
    )  # fmt: skip
    table.add_column("", no_wrap=True)
    table.add_column("name", overflow="fold", min_width=12)
    table.add_column("verdict", max_width=len("not checked"))
    shown, first = columns(compared.rows), front(compared.rows)
    for item in shown:
        table.add_column(item.title.replace(", ", ",\n"), justify="right", no_wrap=True)
    for row in ordered(compared):
        sign = "\N{RIGHTWARDS ARROW}" if row.name == compared.ship else "*" * (row.name in first)
        name = "\n".join(filter(None, (row.name, row.doubt, row.why)))
        table.add_row(
            Text(sign), lines(name), lines(row.verdict, STYLES.get(row.verdict, "yellow")),
            *(Text(cell(item, row)) for item in shown),
        )  # fmt: skip
    below = [Text("*: no other is better in accuracy, latency and size")] if first else []
    if compared.want:
        below.append(Text(f"{_ship(compared)} ({compared.want})", "bold"))
        below += [Text(f"  {reason}") for reason in compared.reasons]
    for change in compared.changes:
        below.append(Text(told(change), "bold red" if change.regressed else ""))
    return Group(table, *below)


def _ship(compared: Compared) -> str:
    return f"Ship {compared.ship}" if compared.ship else "Nothing meets the need"


def as_markdown(compared: Compared) -> str:
    """A pull request's comment (GitHub's Markdown): what to ship, what is worse, the table."""
    said = [f"### {_plain(compared.title)}: {_plain(compared.verdicts)}", ""]
    if compared.want:
        said += [f"**{_plain(_ship(compared))}** ({_plain(compared.want)})", ""]
        said += [*(f"- {_plain(reason)}" for reason in compared.reasons), ""]
    if compared.against:
        worse = len(compared.regressions)
        said += [f"**{worse} regression{'s' * (worse != 1)}** against {_plain(compared.against)}"]
        said += ["", *(f"- {'⚠️ ' * item.regressed}{_plain(told(item))}"
                       for item in compared.changes), ""]  # fmt: skip
    shown, first = columns(compared.rows), front(compared.rows)
    said.append("| | artifact | verdict | " + " | ".join(item.title for item in shown) + " |")
    said.append("|---|---|---|" + "---:|" * len(shown))
    for row in ordered(compared):
        sign = "**ship**" if row.name == compared.ship else "front" * (row.name in first)
        name = " ".join(filter(None, (row.name, f"({row.doubt})" * bool(row.doubt))))
        why = f": {row.why}" if row.why else ""
        cells = [sign, _plain(name), _plain(row.verdict + why), *(cell(c, row) for c in shown)]
        said.append("| " + " | ".join(cells) + " |")
    return "\n".join([*said, ""])


_MARKED = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]#|~"} | {"<": "&lt;", "@": "&#64;"})


def _plain(text: str) -> str:
    """A text of one line without Markdown's signs, tags, or mentions of people."""
    return words.printable(" ".join(text.split())).translate(_MARKED)


def as_csv(compared: Compared) -> str:
    """Every field of every row; a text that a spreadsheet would compute begins with ``'``."""
    first = front(compared.rows)
    names = [name for name in Row.model_fields if name != "options"]
    options = list(dict.fromkeys(name for row in compared.rows for name in row.options))
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow([*names, "front", "ship", *map(_safe, options)])
    for row in compared.rows:
        values = [getattr(row, name) for name in names]
        more = [row.name in first, row.name == compared.ship]
        chosen = [row.options.get(name, "") for name in options]
        writer.writerow([_safe(value) for value in (*values, *more, *chosen)])
    return made.getvalue()


def _safe(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = words.printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def as_junit(compared: Compared) -> str:
    """A test suite with a case for each row: what missed a gate or got worse has failed, what
    nobody judged is skipped. The format is Jenkins' and GitLab's JUnit XML."""
    suite = ElementTree.Element("testsuite", name=_xml(compared.title))
    counts = {"tests": len(compared.rows), "failures": 0, "errors": 0, "skipped": 0}
    for row in compared.rows:
        case = ElementTree.SubElement(
            suite, "testcase", name=_xml(row.name), classname=_xml(row.run or compared.title)
        )
        worse = [told(change) for change in compared.regressions if change.name == row.name]
        if row.verdict == "error":
            kind = "error"
        elif row.verdict == "failed" or worse:
            kind = "failure"
        elif not row.usable:
            kind = "skipped"
        else:
            continue
        counts[{"error": "errors", "failure": "failures"}.get(kind, kind)] += 1
        message = "; ".join(filter(None, (row.verdict, row.why, *worse)))
        ElementTree.SubElement(case, kind, message=_xml(message))
    for name, count in counts.items():
        suite.set(name, str(count))
    ElementTree.indent(suite)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return head + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _xml(text: str) -> str:
    """A text without what XML can't hold (control characters, lone surrogates)."""
    plain = words.printable(text)
    return "".join(sign for sign in plain if sign not in "\ufffe\uffff")
