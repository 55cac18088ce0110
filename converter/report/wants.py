"""What to ship: the row that meets a stated need, as ``p95=20ms drop<0.5 size<10MB`` states it.

Each term limits a figure, or, without a number, names the one to be best in. Without such a term,
it is the first. Rows that missed a gate, or that nobody judged, are never taken.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from converter.errors import UsageError
from converter.report.compared import Compared, Row
from converter.text import words

_TIMES = {"": 1.0, "MS": 1.0, "S": 1000.0, "US": 0.001}
_TERM = re.compile(r"([A-Za-z]\w*)(?:(<=|>=|<|>|=)([^\s<>=]+))?")


def _milliseconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(US|MS|S|)", text.upper())
    if found is None:
        raise ValueError(f"{text}: no time, as 20ms or 1.5s are")
    return float(found[1]) * _TIMES[found[2]]


def _number(text: str) -> float:
    return float(text.removesuffix("%"))


@dataclass(frozen=True)
class _Figure:
    """A figure of rows: how it is called and written, and whether less of it is better."""

    title: str
    of: Callable[[Row], float | None]
    read: Callable[[str], float]
    shown: Callable[[float], str]
    less: bool = True

    @property
    def best(self) -> str:
        return f"the {'lowest' if self.less else 'highest'} {self.title}"


def _ms(value: float) -> str:
    return f"{words.milliseconds(value)} ms"


def _size(value: float) -> str:
    return words.size(round(value))


FIGURES = {
    "p50": _Figure("median latency", lambda row: row.p50_ms, _milliseconds, _ms),
    "p95": _Figure("p95 latency", lambda row: row.p95_ms, _milliseconds, _ms),
    "throughput": _Figure("throughput", lambda row: row.throughput, _number,
                          lambda value: f"{words.number(value)}/s", less=False),
    "drop": _Figure("metric drop", lambda row: row.drop, _number, words.number),
    "cosine": _Figure("cosine", lambda row: row.cosine, _number, words.cosine, less=False),
    "error": _Figure("absolute error", lambda row: row.max_abs, _number, words.number),
    "size": _Figure("size", lambda row: row.bytes, words.bytes_of, _size),
    "memory": _Figure("memory", lambda row: row.memory, words.bytes_of, _size),
}  # fmt: skip
"""The figures that a need can name."""

_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_SAID = {"<": "below", "<=": "at most", ">": "above", ">=": "at least"}


@dataclass(frozen=True)
class Term:
    """One limit; or the figure to be best in, where ``limit`` is None."""

    name: str
    sign: str = ""
    limit: float | None = None

    @property
    def figure(self) -> _Figure:
        return FIGURES[self.name]

    def misses(self, row: Row) -> str:
        """Why a row doesn't keep to it; empty where it does."""
        value = self.figure.of(row)
        if value is None:
            return f"no {self.figure.title} was measured"
        if self.limit is None or _HOLDS[self.sign](value, self.limit):
            return ""
        limit = f"not {_SAID[self.sign]} {self.figure.shown(self.limit)}"
        return f"{self.figure.title} {self.figure.shown(value)}, {limit}"

    def says(self, value: float) -> str:
        """``4.2 ms (at most 20 ms)``."""
        if self.limit is None:
            return self.figure.shown(value)
        return f"{self.figure.shown(value)} ({_SAID[self.sign]} {self.figure.shown(self.limit)})"


def read_want(text: str) -> list[Term]:
    """The terms of a need, the one to be best in first.

    Raises:
        UsageError: A term can't be read, or names no figure.
    """
    terms: list[Term] = []
    for part in re.sub(r"\s*(<=|>=|<|>|=)\s*", r"\1", text.replace(",", " ")).split():
        found = _TERM.fullmatch(part)
        if found is None or found[1] not in FIGURES:
            nearest = get_close_matches(part, FIGURES, 1)
            raise UsageError(
                f"--want {text!r}: {part!r} isn't a limit",
                code="option-value",
                hint=(f"Did you mean {nearest[0]}? " if nearest else "")
                + "Write a limit as p95<20ms or size<10MB. The figures are: "
                f"{', '.join(FIGURES)}.",
            )
        name, sign, limit = found.groups()
        if sign == "=":
            sign = "<=" if FIGURES[name].less else ">="
        try:
            terms.append(Term(name, sign or "", FIGURES[name].read(limit) if limit else None))
        except ValueError as error:
            raise UsageError(f"--want {text!r}: {error}", code="option-value") from None
    if not terms:
        raise UsageError(
            "--want is empty", code="option-value", hint='Write --want "p95<20ms size<10MB".'
        )
    return sorted(terms, key=lambda term: term.limit is not None)


def choose(rows: Sequence[Row], terms: Sequence[Term]) -> tuple[str, list[str]]:
    """The name of the row to ship, empty where there is none, and why.

    Args:
        rows: All rows.
        terms: What :func:`read_want` gave: the first is the one to be best in.
    """
    why_not = {row.name: _why_not(row, terms) for row in rows}
    able = [row for row in rows if not why_not[row.name]]
    if not able:
        return "", [f"{name}: {why}" for name, why in why_not.items()]

    def rank(row: Row) -> list[float]:
        values = ((term.figure.of(row) or 0.0, term.figure.less) for term in terms)
        return [value if less else -value for value, less in values]

    best = min(able, key=rank)
    said = [f"{t.figure.title} {t.says(value)}" for t in terms
            if (value := t.figure.of(best)) is not None]  # fmt: skip
    first = terms[0].figure.best
    of = f"{first} of the {len(able)} that meet it" if len(able) > 1 else "the only one to meet it"
    reasons = [f"{best.name}: {', '.join(said)}; {of}"]
    if best.doubt:
        reasons.append(f"Keep in mind: {best.doubt}")
    for row in sorted(able, key=rank)[1:]:
        why_not[row.name] = f"meets it, with {_beside(row, best, terms)}"
    return best.name, [*reasons, *(f"{name}: {why}" for name, why in why_not.items() if why)]


def _beside(row: Row, best: Row, terms: Sequence[Term]) -> str:
    """The first figure in which a row isn't as good as the best one."""
    for term in terms:
        value = term.figure.of(row)
        if value is not None and value != term.figure.of(best):
            return f"{term.figure.title} {term.figure.shown(value)}"
    return "the same figures"


def _why_not(row: Row, terms: Sequence[Term]) -> str:
    if not row.usable:
        return f"{row.verdict}{': ' if row.why else ''}{row.why}"
    return "; ".join(filter(None, (term.misses(row) for term in terms)))


def decide(compared: Compared, want: str) -> None:
    """Notes what to ship for a need; raises UsageError where that can't be read."""
    compared.want = want
    compared.ship, compared.reasons = choose(compared.rows, read_want(want))
