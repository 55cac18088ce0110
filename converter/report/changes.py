"""What is otherwise than in an earlier run, and what of it is worse by more than noise.

Accuracy: a metric that lost more than :data:`POINTS`, or a distance to the source (1 - cosine) that
grew by half and by more than float32 rounds. Latency: medians farther apart than both runs' rounds
were among themselves, and than :data:`NOISE`; only on one model of CPU. Size and nodes: by more
than :data:`GROWN`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from converter.report.compared import Change, Row
from converter.text import words

POINTS = 0.1
"""What a metric may lose: points of one in percent, hundredths of another's value."""

NOISE = 0.05
"""The share by which the medians of two runs of the same file differ, at least."""

GROWN = 0.01
"""The share that a size or a number of nodes may grow by."""

_ROUNDING = 1e-6
_RANKS = ("passed", "unlowered", "not judged", "not checked", "failed", "error")


def changes(rows: Sequence[Row], earlier: Sequence[Row]) -> list[Change]:
    """Row by row, what changed; rows that only one side has are named.

    Args:
        rows: Of now. A row is the earlier one of the same run, part, target and precision; without
            such a one, of the same model, where that is one.
        earlier: Of the earlier run.
    """
    found, left = list[Change](), list(earlier)
    for row in rows:
        before = _same(row, left, rows)
        if before is None:
            found.append(Change(name=row.name, what="rows", before=words.NONE, now=row.verdict,
                                regressed=False))  # fmt: skip
            continue
        left.remove(before)
        found += _between(row, before)
    for row in left:
        found.append(Change(name=row.name, what="rows", before=row.verdict, now=words.NONE,
                            regressed=False))  # fmt: skip
    return sorted(found, key=lambda change: not change.regressed)


def _same(row: Row, earlier: Sequence[Row], rows: Sequence[Row]) -> Row | None:
    def of_run(item: Row) -> tuple[str, ...]:
        return item.run, item.part, item.target, item.precision

    def of_model(item: Row) -> tuple[str, ...]:
        return item.model, item.part, item.target, item.precision

    exact = [item for item in earlier if of_run(item) == of_run(row)]
    if row.verdict == "error":  # which may not know what it would have been
        exact = [item for item in earlier if item.run == row.run]
    if exact:
        return exact[0]
    alike = [item for item in earlier if of_model(item) == of_model(row)]
    alone = sum(of_model(item) == of_model(row) for item in rows) == 1
    return alike[0] if len(alike) == 1 and alone else None


def _between(now: Row, before: Row) -> Iterator[Change]:
    def change(what: str, then: str, this: str, regressed: bool) -> Change:
        return Change(name=now.name, what=what, before=then, now=this,  # type: ignore[arg-type]
                      regressed=regressed)  # fmt: skip

    if now.verdict != before.verdict:
        worse = _RANKS.index(now.verdict) > _RANKS.index(before.verdict)
        yield change("verdict", before.verdict, now.verdict, worse)
    yield from (change("accuracy", *item) for item in _accuracy(now, before))
    yield from (change("latency", *item) for item in _latency(now, before))
    if now.bytes != before.bytes and now.bytes and before.bytes:
        sizes = words.size(before.bytes), words.size(now.bytes)
        if sizes[0] == sizes[1]:
            sizes = f"{before.bytes:,} B", f"{now.bytes:,} B"
        yield change("size", *sizes, now.bytes > before.bytes * (1 + GROWN))
    if now.nodes != before.nodes and now.nodes is not None and before.nodes is not None:
        grown = now.nodes > before.nodes * (1 + GROWN)
        yield change("nodes", str(before.nodes), str(now.nodes), grown)


def _accuracy(now: Row, before: Row) -> Iterator[tuple[str, str, bool]]:
    """A metric that both have; else the distance to the source."""
    if now.metric and now.metric == before.metric and None not in (now.value, before.value):
        assert now.value is not None and before.value is not None
        lost = (before.value - now.value) * (1 if now.higher_is_better else -1)
        scale = 1.0 if now.unit == "%" else abs(before.value) / 100
        if abs(lost) > 1e-9:
            shown = (f"{now.metric} {words.number(value)}{now.unit}"
                     for value in (before.value, now.value))  # fmt: skip
            yield (*shown, lost > POINTS * scale)  # type: ignore[misc]
    elif now.cosine is not None and before.cosine is not None:
        then, this = (max(0.0, 1 - value) for value in (before.cosine, now.cosine))
        if abs(this - then) > _ROUNDING / 10:
            grown = this > 1.5 * then + _ROUNDING
            cosines = words.cosine(before.cosine), words.cosine(now.cosine)
            yield (f"cosine {cosines[0]}", f"cosine {cosines[1]}", grown)


def _latency(now: Row, before: Row) -> Iterator[tuple[str, str, bool]]:
    """Medians that are farther apart than noise."""
    if now.p50_ms is None or before.p50_ms is None or now.machine != before.machine:
        return
    (low, high), (lower, higher) = _range(now, now.p50_ms), _range(before, before.p50_ms)
    if low > higher or high < lower:
        shown = (f"{words.milliseconds(value)} ms" for value in (before.p50_ms, now.p50_ms))
        yield (*shown, low > higher)  # type: ignore[misc]


def _range(row: Row, median: float) -> tuple[float, float]:
    half = median * max(row.spread or 0.0, NOISE) / 2
    return median - half, median + half
