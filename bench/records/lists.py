"""What others publish of their lists of models (``data/``), and how each is made here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.records import corpus, winml
from bench.records.small import Made

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Listed:
    """A line of a list.

    Attributes:
        title: The model, and its task where the list has one.
        theirs: What its maker publishes of it: "pass" or another word.
        name: The case that it is here; empty where it is none.
        why: Why it is none.
    """

    title: str
    theirs: str
    name: str
    why: str = ""


def listed(record: str) -> list[Listed]:
    """The lines of a record's list, in order."""
    rows = [line.split("\t") for line in (DATA / f"{record}.tsv").read_text().splitlines()[1:]]
    if record == "onnx2tf":
        return [
            Listed(model, theirs, " ".join(corpus.BUILT.get(model, ())), "not a known architecture")
            for _, model, theirs in rows
        ]
    found = []
    for model, task, kind, built, accuracy in rows:
        theirs = f"{built}, accuracy {accuracy}" if accuracy else built
        unknown = winml.UNKNOWN.get(kind, "the task isn't made here")
        why = winml.UNKNOWN.get(f"{kind} {task}", unknown)
        found.append(Listed(f"{model}: {task}", theirs, winml.key(model, task, kind), why))
    return found


def makers(record: str) -> dict[str, Callable[[], Made]]:
    """How to make each case of a record, by its name."""
    if record == "onnx2tf":
        return {" ".join(how): partial(corpus.build, *how) for how in corpus.BUILT.values()}
    rows = [line.split("\t") for line in (DATA / "winml.tsv").read_text().splitlines()[1:]]
    return winml.makers([(row[0], row[1], row[2]) for row in rows])
