"""What ``modelyard zoo`` prints."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from converter.cli.printing import echo, echo_json
from converter.files.store import size_of
from converter.text.screen import Console, Text, lines
from zoo.entry import Entry, Joined

Fetched = Mapping[str, tuple[Entry, Mapping[str, Path]]]


def show_list(entries: Mapping[str, Entry | Joined], as_json: bool) -> None:
    """A line for each model: name, framework, task."""
    if as_json:
        echo_json({name: _short(entry) for name, entry in entries.items()})
        return
    table = Table(box=None, pad_edge=False)
    for title in ("name", "framework", "task", ""):
        table.add_column(title, no_wrap=True)
    for name, entry in entries.items():
        table.add_row(Text(name, "bold"), entry.framework, entry.task, Text(_mark(entry), "dim"))
    console = _console()
    console.print(table)
    count = f"{len(entries)} models" if len(entries) != 1 else "1 model"
    console.print(f"{count}. modelyard zoo show NAME; modelyard convert zoo:NAME", style="dim")


def show_entry(name: str, entry: Entry | Joined, as_json: bool) -> None:
    """Prints all facts of a model, its files and whether they are in the cache, and how to convert
    it.

    Args:
        name: Its name in the zoo, without ``zoo:``.
        entry: What the catalogue says of it.
        as_json: Whether that is printed as JSON.
    """
    if isinstance(entry, Joined):
        _show_joined(name, entry, as_json)
        return
    files = {role: (file.origin, file.sha256, file.cached()) for role, file in entry.files.items()}
    line = convert_line(name, entry)
    if as_json:
        facts = entry.model_dump(mode="json", exclude_unset=True)
        cached = {role: size for role, (_, _, size) in files.items()}
        echo_json({"name": name, **facts, "cached": cached, "line": line})
        return
    console = _console()
    console.print(Text.assemble((name, "bold"), f"  {entry.title}"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for title, value in _facts(entry):
        grid.add_row(Text(title, "dim"), lines(value))
    for role, (origin, sha256, size) in files.items():
        where = f"{_bytes(size)} in the cache" if size is not None else "not fetched"
        grid.add_row(Text(role, "dim"), lines(f"{origin}\n{where}, sha256 {sha256[:16]}..."))
    console.print(grid)
    echo("", f"modelyard convert zoo:{name} fetches the files, and is the same as", "")
    echo(*line.split("\n"))


def _show_joined(name: str, entry: Joined, as_json: bool) -> None:
    """What several models are, and how to convert them."""
    line = f"modelyard run {shlex.quote(entry.recipe)}"
    if as_json:
        echo_json({"name": name, **entry.model_dump(mode="json"), "line": line})
        return
    console = _console()
    console.print(Text.assemble((name, "bold"), f"  {entry.title}"))
    for title, value in (("task", entry.task), ("licence", entry.licence), ("parts", entry.told())):
        console.print(Text.assemble((f"{title}  ", "dim"), value))
    echo("", f"modelyard convert zoo:{name} fetches the files, and is the same as", "", line)


def show_fetched(fetched: Fetched, as_json: bool) -> None:
    """The paths of the files, by model and role."""
    if as_json:
        paths = {
            name: {role: str(path) for role, path in files.items()}
            for name, (_, files) in fetched.items()
        }
        echo_json(paths)
        return
    for name, (_, files) in fetched.items():
        echo(name if files else f"{name} has no files: its source comes with modelyard")
        for role, path in files.items():
            echo(f"  {role:8} {_bytes(size_of(path)):>8}  {path}")


def show_copies(entry: Entry, copies: Mapping[str, Path]) -> None:
    """Where the files of a model were put, and whose they are."""
    for role, path in copies.items():
        echo(f"{role:8} {_bytes(size_of(path)):>8}  {path}")
    echo(f"{entry.title}; licence: {entry.licence}")


def convert_line(name: str, entry: Entry) -> str:
    """The command that does what ``convert zoo:NAME`` does once the files are in the cache, an
    option on each line; what only a recipe can say (``prepare``, ``answer``) isn't in it."""
    from converter.options.request import option_of
    from zoo.catalogue import fields_of

    fields = fields_of(name, entry, {role: file.item.path for role, file in entry.files.items()})
    words = [f"modelyard convert {shlex.quote(str(fields.pop('source')))}"]
    for key, value in fields.items():
        if key in ("preparation", "answer"):  # which stand in recipes alone
            continue
        if key == "kwargs":
            words += [f"--arg {shlex.quote(f'{k}={json.dumps(v)}')}" for k, v in value.items()]
            continue
        option = option_of(key)
        if option.pairs:
            words += [f"{option.flags[0]} {k}={v}" for k, v in value.items()]
        elif value is True:
            words.append(option.flags[0])
        elif isinstance(value, list) and not option.split:
            words += [f"{option.flags[0]} {shlex.quote(str(item))}" for item in value]
        else:
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            words.append(f"{option.flags[0]} {shlex.quote(text)}")
    return " \\\n    ".join(words)


def _facts(entry: Entry) -> list[tuple[str, str]]:
    weights = "" if entry.weights == "trained" else "random: for speed, never for accuracy"
    expected = ", ".join(f"{key} {value:.0%}" for key, value in entry.expected.items())
    samples = entry.samples.path if entry.samples else "none: seeded random inputs"
    trust = "runs code of its own; vouched for by its sha256" if entry.model.trust_source else ""
    facts = [
        ("task", entry.task),
        ("framework", entry.framework),
        ("licence", entry.licence),
        ("weights", weights),
        ("trust", trust),
        ("inputs", "\n".join(entry.model.inputs)),
        ("images", _images(entry)),
        ("prepare", ", ".join(item["kind"] for item in entry.prepare)),
        ("answer", ", ".join(item["kind"] for item in entry.answer)),
        ("samples", samples),
        ("expected", expected),
        ("broken", entry.broken or ""),
    ]
    return [(title, value) for title, value in facts if value]


def _images(entry: Entry) -> str:
    given = entry.preprocessing.model_dump(exclude_unset=True)
    return ", ".join(
        f"{key} {','.join(map(str, value)) if isinstance(value, list) else value}"
        for key, value in given.items()
    )


def _short(entry: Entry | Joined) -> dict[str, Any]:
    if isinstance(entry, Joined):
        return entry.model_dump(mode="json")
    keys = ("title", "task", "framework", "licence", "weights", "broken")
    return {key: getattr(entry, key) for key in keys}


def _mark(entry: Entry | Joined) -> str:
    if isinstance(entry, Joined):
        return "joined"
    marks = ["random"] if entry.weights == "random" else []
    return ", ".join([*marks, *(["broken"] if entry.broken else [])])


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 100, highlight=False)
