"""The report's plots: small SVG drawings that take their colours from the page's CSS.

A drawing is 420 units wide and scales with its column, so that its text stays readable on a
phone. Series differ by shape and label, not by colour alone. Whatever comes from a model is
escaped by :class:`converter.text.markup.Markup`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from converter.check.comparison import OutputResult
from converter.check.gates import GateResult
from converter.check.latency import LatencyPoint
from converter.report.model import StepReport
from converter.text import words
from converter.text.markup import Markup

WIDTH = 420
CURVES = 4
"""How many outputs the cosine plot shows: the worst ones."""

_LEFT, _RIGHT = 14, 14
_EXACT = 1e-16  # where a distance of zero is drawn on a logarithmic axis


@dataclass(frozen=True)
class Axis:
    """A horizontal or vertical axis: from values to places."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value lies; outside the axis, at its nearer end."""
        scale: Callable[[float], float] = math.log10 if self.log else float
        value = min(max(value, self.low), self.high)
        low, high = scale(self.low), scale(self.high)
        share = (scale(value) - low) / (high - low) if high > low else 0.5
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values along the axis."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            step = max(1, -(-(last - first) // most))
            decades = [10.0**power for power in range(first, last + 1, step)]
            return decades if len(decades) > 1 else [self.low, self.high]
        raw = (self.high - self.low) / max(most - 1, 1)
        unit: float = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
        width = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw * 0.999)
        count = math.floor((self.high - self.low) / width + 1e-9)
        return [self.low + index * width for index in range(count + 1)]


def cosine_plot(outputs: Sequence[OutputResult], limit: float | None) -> Markup | None:
    """The samples' distance to the source (1 - cosine), worst first; None where there is none.

    Args:
        outputs: Float outputs; the worst :data:`CURVES` are drawn.
        limit: The gate's.
    """
    drawn = sorted((o for o in outputs if o.cosines), key=lambda o: o.cosines[0])[:CURVES]
    if not drawn:
        return None
    distances = [[max(1 - value, _EXACT) for value in output.cosines] for output in drawn]
    low = min(min(values) for values in distances)
    high = max(max(values) for values in distances)
    if limit is not None and limit < 1:
        low, high = min(low, 1 - limit), max(high, 1 - limit)
    top, bottom = 16, 196
    x = Axis(0, 1, 62, WIDTH - _RIGHT)
    y = Axis(decade(low, math.floor), decade(high, math.ceil), bottom, top, log=True)
    parts = [y_grid(y, x), _limit_line(y, x, limit)]
    for number, values in enumerate(distances):
        parts.append(_curve(values, x, y, number))
    parts.append(_x_caption(x, bottom, "worst sample", "best sample"))
    height = bottom + 36
    for number, output in enumerate(drawn):
        parts.append(_key(number, height + 18 * number, words.middle(output.name, 44)))
    return drawing(parts, height + 18 * len(drawn), "1 minus cosine of each sample, worst first")


def steps_plot(steps: Sequence[StepReport]) -> Markup | None:
    """Signal to noise after each step, in dB, against the source and against the step before."""
    if not steps:
        return None
    known = [v for s in steps for v in (s.source_sqnr_db, s.previous_sqnr_db) if v is not None]
    high = max([60.0, *known])
    high = 20 * math.ceil(high / 20) + 20  # the last stretch is for "exact"
    x = Axis(min([0.0, *known]), high, _LEFT, WIDTH - 52)
    parts: list[Markup] = []
    top = 6
    for number, step in enumerate(steps):
        y = top + 42 * number
        parts.append(text_at(_LEFT, y + 12, words.middle(step.step, 54), "name"))
        parts.append(_lollipop(x, y + 27, step))
    bottom = top + 42 * len(steps)
    grid = [tick for tick in x.ticks() if tick < high - 10]
    parts.insert(0, x_grid(x, top + 16, bottom, grid, "{:.0f}"))
    parts.append(text_at(x.at(high), bottom + 14, "exact", "tick middle"))
    parts.append(Markup('<circle class="mark a" cx="20" cy="{}" r="5"/>').format(bottom + 30))
    parts.append(text_at(32, bottom + 34, "against the source", "tick"))
    parts.append(Markup('<circle class="mark hollow" cx="190" cy="{}" r="5"/>').format(bottom + 30))
    parts.append(text_at(202, bottom + 34, "against the step before", "tick"))
    return drawing(parts, bottom + 42, "Signal to noise ratio after each step, in decibels")


def along_plot(
    errors: Sequence[tuple[int, float | None, str]], limit: float, first: int | None
) -> Markup | None:
    """Relative errors of tensors along a graph; None where there are none.

    Args:
        errors: For each tensor the number of its node, its error (None: NaN, or no error can be
            told; drawn at the top), and what to call it.
        limit: The largest error of tensors that agree.
        first: Which of them is the first that doesn't; None for none.
    """
    if all(error is None for _, error, _ in errors):
        return None
    top, bottom, exact = 16, 216, 22  # below the axis, a row for what doesn't differ at all
    known = [limit, *(max(error, _EXACT) for _, error, _ in errors if error)]
    x = Axis(0, max(place for place, _, _ in errors) or 1, 62, WIDTH - _RIGHT)
    low, high = decade(min(known), math.floor), decade(max(known), math.ceil)
    y = Axis(low, high, bottom - exact, top, log=True)
    line = Markup('<line class="{}" x1="{}" x2="{}" y1="{at}" y2="{at}"/>')
    parts = [y_grid(y, x), line.format("limit", x.start, x.end, at=y.at(limit))]
    if any(error == 0 for _, error, _ in errors):
        parts.append(line.format("grid", x.start, x.end, at=bottom))
        parts.append(text_at(x.start - 6, bottom + 4, "exact", "tick end"))
    middle = (x.start + x.end) / 2
    parts.append(
        text_at(
            middle, bottom + 16, f"dashed: tolerance {words.limit(limit)}", "tick middle limit-text"
        )
    )
    dot = Markup('<circle class="{}" cx="{}" cy="{}" r="{}"><title>{}</title></circle>')
    for number, (place, error, name) in enumerate(errors):
        at = bottom if error == 0 else y.at(y.high if error is None else max(error, _EXACT))
        classes, radius = ("mark hollow", 6.5) if number == first else ("dot s0", 2.6)
        parts.append(dot.format(classes, x.at(place), at, radius, name))
    parts.append(_x_caption(x, bottom, "first node", "last node"))
    return drawing(parts, bottom + 24, "Relative error of each compared tensor, along the graph")


def latency_plot(points: Sequence[LatencyPoint], gate: GateResult | None) -> Markup | None:
    """A box for each point: quartiles and median, whiskers from the fastest run to p95.

    Args:
        points: The artifact's, and its source's.
        gate: The latency gate, whose limit is drawn; None for none.
    """
    if not points:
        return None
    low = min(point.min_ms for point in points)
    high = max(_reach(point) for point in points)
    if gate and gate.limit:
        low, high = min(low, gate.limit), max(high, gate.limit)
    log = high > 20 * low > 0
    x = _latency_axis(low, high, log)
    groups = sorted({(point.batch, point.concurrency) for point in points})
    parts: list[Markup] = []
    y = 4.0
    for batch, callers in groups:
        who = f"batch {batch}, {callers} caller{'s' * (callers > 1)}"
        parts.append(text_at(_LEFT, y + 12, who, "name"))
        y += 21
        if gate and gate.limit and (batch, callers) == (1, 1):
            parts.append(_latency_limit(x, y, gate.limit, len(points) // len(groups)))
        for point in (p for p in points if (p.batch, p.concurrency) == (batch, callers)):
            parts.append(_box(point, x, y))
            y += 36
        y += 6
    parts.insert(0, x_grid(x, 18, y, x.ticks(5), None))
    parts.append(text_at(WIDTH - _RIGHT, y + 28, "milliseconds a run", "tick end"))
    return drawing(parts, y + 34, "Latency in milliseconds: quartiles, median, fastest run to p95")


def load_plot(series: Mapping[str, Sequence[tuple[float, float]]], limit: float | None) -> str:
    """A file of its own: p95 over throughput, a curve for each batch size.

    Args:
        series: Points (samples a second, milliseconds), by what the curve is called.
        limit: What p95 is to stay below; None for no line.
    """
    most = max((rate for curve in series.values() for rate, _ in curve), default=1)
    times = [*(time for curve in series.values() for _, time in curve), *([limit] if limit else [])]
    x, y = Axis(0, most * 1.04, *_ACROSS), Axis(0, max(times, default=1) * 1.04, *_UP)
    caption = "samples a second; p95 in milliseconds"
    return _file(series, x, y, caption, "p95 latency over throughput", limit)


def growth_plot(series: Mapping[str, Sequence[tuple[float, float]]], unit: str) -> str:
    """A file of its own: seconds over sizes, both logarithmic.

    Args:
        series: Points (size, seconds), by what the curve is called.
        unit: What sizes are counted in.
    """
    sizes, seconds = zip(*(point for curve in series.values() for point in curve), strict=True)
    x, y = (
        Axis(decade(min(values), math.floor), decade(max(values), math.ceil), *ends, log=True)
        for values, ends in ((sizes, _ACROSS), (seconds, _UP))
    )
    return _file(series, x, y, f"{unit}; seconds", f"Seconds over {unit}")


def budget_plot(series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """A file of its own: what is left in a lower precision, over how close the artifact is.

    Args:
        series: Points (1 - cosine, share from 0 to 1 of the multiply-adds), by what the curve is
            called.
    """
    distances = [distance for curve in series.values() for distance, _ in curve]
    ends = decade(min(distances), math.floor), decade(max(distances), math.ceil)
    percent = {name: [(at, 100 * share) for at, share in curve] for name, curve in series.items()}
    caption = "1 - cosine on the worst sample; % of the multiply-adds lowered"
    label = "Share of the multiply-adds in the lower precision, over the distance from the source"
    return _file(percent, Axis(*ends, *_ACROSS, log=True), Axis(0, 100, *_UP), caption, label)


def front_plot(
    trials: Sequence[Sequence[tuple[float, float]]], limit: float | None
) -> Markup | None:
    """p95 over throughput: a package as it is, every trial, and the front of those that no other
    beats in both; None where nothing was measured.

    Args:
        trials: Points (samples a second, milliseconds) of each trial, by callers; the package as it
            is first.
        limit: What p95 was to stay below; None for no line.
    """
    every = sorted({point for trial in trials for point in trial}, reverse=True)
    if not every:
        return None
    front = list[tuple[float, float]]()
    for point in every:  # from the most throughput down, whatever is quicker than all before
        if not front or point[1] < front[-1][1]:
            front.append(point)
    longest = max(time for _, time in every)
    if limit is not None and limit > 1.5 * longest:  # all would lie at the bottom
        limit = None
    series = {
        "tried": every,
        "the front: none is better in both": front[::-1],
        "as it is": trials[0],
    }
    x = Axis(0, every[0][0] * 1.04, *_ACROSS)
    y = Axis(0, max(longest, limit or 0) * 1.04, *_UP)
    caption = "samples a second; p95 in milliseconds"
    return _curves(series, x, y, caption, "p95 latency over throughput", limit, loose={"tried"})


_ACROSS, _UP = (62, WIDTH - _RIGHT), (216, 16)
"""Where the axes of a drawing of curves begin and end."""


def _file(
    series: Mapping[str, Sequence[tuple[float, float]]],
    x: Axis,
    y: Axis,
    caption: str,
    label: str,
    limit: float | None = None,
) -> str:
    return (
        str(_curves(series, x, y, caption, label, limit))
        .replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        .replace(">", f"><style>{_STYLE}</style>", 1)
    )


def _curves(
    series: Mapping[str, Sequence[tuple[float, float]]],
    x: Axis,
    y: Axis,
    caption: str,
    label: str,
    limit: float | None = None,
    loose: Collection[str] = (),
) -> Markup:
    """Points joined by lines, but for those that are loose."""
    bottom, top = _UP
    parts = [y_grid(y, x), x_grid(x, top, bottom, x.ticks(5), None)]
    if limit:
        line = Markup('<line class="limit" x1="{}" x2="{}" y1="{at}" y2="{at}"/>')
        parts.append(line.format(x.start, x.end, at=y.at(limit)))
    dot = Markup('<circle class="dot s{}" cx="{}" cy="{}" r="3"/>')
    for number, (name, curve) in enumerate(series.items()):
        places = [(x.at(across), y.at(up)) for across, up in curve]
        path = " ".join(f"{px},{py}" for px, py in places if name not in loose)
        parts.append(Markup('<polyline class="curve s{}" points="{}"/>').format(number % 4, path))
        parts += [dot.format(number % 4, px, py) for px, py in places]
        parts.append(_key(number % 4, bottom + 44 + 18 * number, name))
    parts.append(text_at(x.end, bottom + 30, caption, "tick end"))
    # the last size's name is wider than what is left beside it
    return drawing(parts, bottom + 40 + 18 * len(series), label, WIDTH + _RIGHT)


_STYLE = (
    "svg{background:#fff;font:11px sans-serif}.grid{stroke:#ddd}.end{text-anchor:end}"
    ".middle{text-anchor:middle}.curve{fill:none;stroke-width:1.6}.limit{stroke:#b00;"
    "stroke-dasharray:4 3}.s0{stroke:#2f6fb0}.s1{stroke:#c2571a}.s2{stroke:#3c8a4b}"
    ".s3{stroke:#7a4fa3}.dot{fill:#fff}"
)
"""Of a drawing that isn't in a page."""


def _latency_limit(x: Axis, y: float, limit: float, rows: int) -> Markup:
    at = x.at(limit)
    line = Markup('<line class="limit" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>')
    anchor = "end" if at > WIDTH / 2 else ""
    label = text_at(
        at + (0 if anchor else 4),
        y - 9,
        f"p95 \u2264 {words.limit(limit)} ms",
        f"tick {anchor} limit-text",
    )
    if at < 190:  # the group's name is there
        label = text_at(200, y - 9, f"gate: p95 \u2264 {words.limit(limit)} ms", "tick limit-text")
    return line.format(at, y - 2, y + 36 * rows - 12) + label


def _reach(point: LatencyPoint) -> float:
    return point.max_ms if point.p95_ms is None else point.p95_ms


def _latency_axis(low: float, high: float, log: bool) -> Axis:
    if log:
        start, end = decade(low, math.floor), decade(high, math.ceil)
        return Axis(start, end, _LEFT, WIDTH - 30, log=True)
    return Axis(0, high * 1.04 or 1.0, _LEFT, WIDTH - 30)


def _box(point: LatencyPoint, x: Axis, y: float) -> Markup:
    kind = "a" if point.role == "artifact" else "b"
    low, q1, median, q3, high = (
        x.at(v) for v in (point.min_ms, point.p25_ms, point.p50_ms, point.p75_ms, _reach(point))
    )
    middle = y + 9
    label = f"{point.role} {words.milliseconds(point.p50_ms)} ms"
    drawn = Markup(
        '<g><title>{title}</title><line class="whisker {k}" x1="{low}" x2="{high}" y1="{m}" '
        'y2="{m}"/><line class="whisker {k}" x1="{high}" x2="{high}" y1="{t}" y2="{b}"/>'
        '<rect class="box {k}" x="{q1}" y="{y}" width="{w}" height="18" rx="3"/>'
        '<line class="median" x1="{med}" x2="{med}" y1="{y}" y2="{e}"/></g>'
    ).format(
        title=f"{point.name}: p50 {words.milliseconds(point.p50_ms)} ms, {point.n} runs",
        k=kind,
        low=low,
        high=high,
        m=middle,
        t=middle - 4,
        b=middle + 4,
        q1=q1,
        y=y,
        e=y + 18,
        w=round(max(q3 - q1, 2), 2),
        med=median,
    )
    at_end = high + 8 + 6.6 * len(label) > WIDTH
    place = (low - 6, "tick end") if at_end and low > 8 * len(label) else (high + 8, "tick")
    if at_end and place[1] == "tick":
        return drawn + text_at(_LEFT, y + 31, label, "tick")
    return drawn + text_at(place[0], middle + 4, label, place[1])


def _lollipop(x: Axis, y: float, step: StepReport) -> Markup:
    def place(value: float | None) -> float:
        return x.at(x.high if value is None else value)

    source, previous = place(step.source_sqnr_db), place(step.previous_sqnr_db)
    label = words.decibel(step.source_sqnr_db, exact=True)
    title = (
        f"{step.step}: {label} against the source, "
        f"{words.decibel(step.previous_sqnr_db, exact=True)} against the step before"
    )
    return Markup(
        '<g><title>{}</title><line class="stem" x1="{}" x2="{}" y1="{y}" y2="{y}"/>'
        '<circle class="mark hollow" cx="{}" cy="{y}" r="6.5"/>'
        '<circle class="mark a" cx="{}" cy="{y}" r="4"/></g>'
    ).format(title, x.start, source, previous, source, y=y)


def _curve(values: Sequence[float], x: Axis, y: Axis, number: int) -> Markup:
    last = max(len(values) - 1, 1)
    ordered = sorted(values, reverse=True)
    places = [(x.at(i / last), y.at(value)) for i, value in enumerate(ordered)]
    path = " ".join(f"{px},{py}" for px, py in places)
    drawn = Markup('<polyline class="curve s{}" points="{}"/>').format(number, path)
    if len(places) <= 40:
        dot = Markup('<circle class="dot s{}" cx="{}" cy="{}" r="2.6"/>')
        drawn += Markup("").join(dot.format(number, px, py) for px, py in places)
    return drawn


def _limit_line(y: Axis, x: Axis, limit: float | None) -> Markup:
    if limit is None or limit >= 1:
        return Markup("")
    at = y.at(1 - limit)
    line = Markup('<line class="limit" x1="{}" x2="{}" y1="{at}" y2="{at}"/>')
    label = text_at(
        x.end, at - 5, f"gate: cosine \u2265 {words.limit(limit)}", "tick end limit-text"
    )
    return line.format(x.start, x.end, at=at) + label


def _key(number: int, y: float, name: str) -> Markup:
    line = Markup('<line class="curve s{}" x1="62" x2="90" y1="{y}" y2="{y}"/>')
    return line.format(number, y=y) + text_at(98, y + 4, name, "tick")


def x_grid(
    x: Axis, top: float, bottom: float, ticks: Sequence[float], pattern: str | None
) -> Markup:
    """Vertical lines of a grid, with their numbers below.

    Args:
        x: The axis, which turns values into units of the drawing.
        top: Where the lines begin, in units from the drawing's top.
        bottom: Where they end.
        ticks: The values that have a line.
        pattern: A ``str.format`` pattern for the numbers; None for the shortest text.
    """
    line = Markup('<line class="grid" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>')
    parts = []
    for tick in ticks:
        label = pattern.format(tick) if pattern else f"{tick:g}"
        parts.append(line.format(x.at(tick), top, round(bottom, 1)))
        parts.append(text_at(x.at(tick), bottom + 14, label, "tick middle"))
    return Markup("").join(parts)


def y_grid(y: Axis, x: Axis, most: float = math.inf) -> Markup:
    """Horizontal lines at ticks, their numbers beside them.

    Args:
        y: The axis whose ticks have lines.
        x: The axis along which they run.
        most: The largest tick that has a line.
    """
    line = Markup('<line class="grid" x1="{}" x2="{}" y1="{at}" y2="{at}"/>')
    parts = []
    for tick in y.ticks():
        if tick > most:
            continue
        at = y.at(tick)
        label = "exact" if 0 < tick <= _EXACT * 1.01 else f"{tick:.0e}".replace("e-0", "e-")
        label = f"{tick:g}" if tick >= 0.01 or not tick else label
        parts.append(line.format(x.start, x.end, at=at))
        parts.append(text_at(x.start - 6, at + 4, label, "tick end"))
    return Markup("").join(parts)


def _x_caption(x: Axis, bottom: float, left: str, right: str) -> Markup:
    return text_at(x.start, bottom + 16, left, "tick") + text_at(
        x.end, bottom + 16, right, "tick end"
    )


def text_at(x: float, y: float, text: str, classes: str) -> Markup:
    """A text in a drawing.

    Args:
        x: Units from the left; ``classes`` say whether the text begins, ends or is centred there.
        y: Units from the top to the text's baseline.
        text: The text, which is escaped.
        classes: CSS classes, separated by spaces.
    """
    pattern = Markup('<text x="{}" y="{}" class="{}">{}</text>')
    return pattern.format(round(x, 2), round(y, 2), classes, text)


def drawing(parts: Sequence[Markup], height: float, label: str, width: int = WIDTH) -> Markup:
    """A whole drawing, which scales with its column.

    Args:
        parts: What is in it.
        height: Units.
        label: What it shows, for those who don't see it.
        width: Units.
    """
    pattern = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    return pattern.format(width, round(height), label, Markup("").join(parts))


def decade(value: float, rounding: Callable[[float], int]) -> float:
    """The power of ten at or beyond a value, by ``math.floor`` or ``math.ceil``."""
    power = rounding(math.log10(value) + (-1e-9 if rounding is math.ceil else 1e-9))
    if rounding is math.ceil and 10.0**power <= value * (1 + 1e-9):
        power += 1
    return 10.0**power
