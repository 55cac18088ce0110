"""What ``modelyard doctor`` prints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table

from converter.cli.printing import echo_json
from converter.commands.doctor import RUNTIMES
from converter.plugins.extras import install_line
from converter.text.screen import Console, Text

if TYPE_CHECKING:
    from converter.commands.doctor import Findings
    from converter.commands.doctor_frameworks import FrameworkState

_STYLES = {"works": "green", "fails": "red", "incomplete": "yellow", "absent": "dim"}


@contextmanager
def examining() -> Iterator[Callable[[str], None]]:
    """Shows on a terminal that frameworks are being imported; gives what to tell of it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("importing what is installed") as status:
        yield lambda text: status.update(Text(text))


def show_doctor(findings: Findings, as_json: bool) -> None:
    """What is installed and usable, how to get what isn't, then what is wrong."""
    if as_json:
        echo_json(asdict(findings))
        return
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    console.print(_facts(findings))
    console.print()
    console.print(_frameworks(findings.frameworks))
    console.print()
    for text in _to_install(findings):
        console.print(text, soft_wrap=True)  # a line to copy stays whole
    for problem in findings.problems:
        first, *lines = problem.split("\n")
        console.print(Text(f"problem: {first}", "red"))
        for line in lines:
            console.print(Text(f"  {line}"), soft_wrap=True)
    if not findings.problems:
        console.print("nothing is wrong", style="green")


def _facts(findings: Findings) -> Table:
    """What isn't a framework, a line a subject."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    if findings.interpreter:
        grid.add_row("Python", Text(f"{findings.python.split()[-1]}  {findings.interpreter}"))
        return grid
    grid.add_row("Python", findings.python)
    grid.add_row("ONNX Runtime", f"runs on {', '.join(findings.providers) or 'nothing'}")
    shown = {name for item in findings.frameworks for name in item.packages}
    others = {name: text for name, text in findings.packages.items() if name not in shown}
    grid.add_row("packages", _listed({name: text for name, text in others.items() if text}))
    lacks = {name for name in others if not others[name]}
    if not lacks.issuperset(RUNTIMES):  # one of them is enough
        lacks.difference_update(RUNTIMES)
    grid.add_row("not there", Text(", ".join(sorted(lacks)), "dim"))
    for kind, found in findings.plugins.items():
        grid.add_row(kind, ", ".join(found))
    return grid


def _frameworks(found: list[FrameworkState]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("framework", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("packages")
    for item in found:
        packages = _listed(item.packages)
        if item.missing:
            packages.append(f"{'; ' if item.packages else ''}lacks {', '.join(item.missing)}")
        table.add_row(item.name, Text(item.state, _STYLES[item.state]), packages)
    return table


def _listed(packages: dict[str, str]) -> Text:
    return Text(", ".join(f"{name}=={text}" for name, text in packages.items()))


def _to_install(findings: Findings) -> list[Text]:
    """How to get what isn't there: frameworks, and the other extras of ours."""
    lines = {item.name: item.install for item in findings.frameworks if item.state == "absent"}
    told = set(lines.values())
    for extra, missing in findings.extras.items():
        line = install_line(extra)
        if missing and line not in told and extra not in ("all", "dev"):
            lines[extra] = line
    width = max(map(len, lines), default=0)
    return [Text(f"for {name:{width}}  {line}", "dim") for name, line in lines.items()]
