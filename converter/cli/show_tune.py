"""Shows what ``tune`` found."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from converter.cli.printing import echo_json
from converter.commands.trials import in_words
from converter.commands.tune import Tuning
from converter.commands.tuning import Trial, latency_of
from converter.text import words
from converter.text.screen import Console, Text


def show_tuning(made: Tuning, as_json: bool) -> None:
    """What would be tried; or what was, the package as it is first, and what came of it."""
    if as_json:
        echo_json(made.as_dict())
        return
    console = Console(soft_wrap=True, highlight=False)
    if not made.trials:
        console.print(Text(f"{made.server}, {made.package}: tune would try"))
        for knob in made.knobs:
            console.print(Text(f"  {knob.name}: {', '.join(map(str, knob.values))} "
                               f"(now {knob.value})"))  # fmt: skip
        return
    columns = ("callers", "samples/s", "p95 ms", "memory MB", "settings")
    table = Table(*columns, box=None, pad_edge=False)
    for trial in made.trials:
        table.add_row(*map(Text, _row(trial, made)))
    console.print(table)
    for line in _said(made):
        console.print(Text(line))


def _row(trial: Trial, made: Tuning) -> list[str]:
    """The load that counts, or the lightest; what is otherwise; why it doesn't count."""
    first = made.trials[0].values
    other = {name: value for name, value in trial.values.items() if value != first[name]}
    settings = in_words(other) or "as it is"
    if not trial.points:
        return [*[words.NONE] * 4, f"{settings}: {trial.failed}"]
    point = made.goal.point(trial, made.limit_ms)
    seen = point or trial.points[0]
    memory = None if seen.memory is None else seen.memory / 1e6
    figures = map(words.number, (seen.throughput, latency_of(seen), memory))
    note = "" if point else ": over the limit, or wrong"
    return [str(seen.concurrency), *figures, settings + note]


def _said(made: Tuning) -> Iterator[str]:
    if made.changed:
        yield f"better: {in_words(made.values)}"
        yield made.why
        yield f"written: {', '.join(made.written)}"
    else:
        yield f"{made.package} stays unchanged: {made.why}"
