"""A plot of how the TFLite emitter's time grows, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

Points = Sequence[tuple[int, float]]

WIDTH, HEIGHT = 360, 280
LEFT, TOP, RIGHT, BOTTOM = 56, 34, 16, 44
COLOR = "#2f6fb0"
TITLES = {"nodes": ("nodes", "1 to 16 thousand nodes"), "bytes": ("MB", "10 MB to 1.5 GB")}


def plot(grown: Mapping[str, Points]) -> str:
    """Two panels side by side, both axes logarithmic; dashed: what is exactly linear.

    Args:
        grown: (size, seconds) by ``nodes`` and ``bytes``.
    """
    width = WIDTH * len(grown)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" '
        f'width="{width}" height="{HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{HEIGHT}" fill="white"/>',
    ]
    for number, (kind, points) in enumerate(grown.items()):
        scale = 1e6 if kind == "bytes" else 1
        lines.append(f'<g transform="translate({number * WIDTH},0)">')
        lines += _panel([(size / scale, seconds) for size, seconds in points], *TITLES[kind])
        lines.append("</g>")
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(points: Sequence[tuple[float, float]], unit: str, title: str) -> Iterator[str]:
    sizes, seconds = [point[0] for point in points], [point[1] for point in points]
    low_x, high_x = _ends(sizes)
    low_y, high_y = _ends(seconds)

    def x(value: float) -> float:
        return round(LEFT + _share(value, low_x, high_x) * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - _share(value, low_y, high_y) * (HEIGHT - TOP - BOTTOM), 1)

    yield f'<text x="{LEFT}" y="18" font-size="13">Emitting {title}</text>'
    for value in _ticks(low_x, high_x):
        yield f'<path d="M{x(value)},{y(low_y)} V{y(high_y)}" stroke="#ddd"/>'
        yield f'<text x="{x(value)}" y="{HEIGHT - 28}" text-anchor="middle">{value:g}</text>'
    for value in _ticks(low_y, high_y):
        yield f'<path d="M{x(low_x)},{y(value)} H{x(high_x)}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y(value) + 4}" text-anchor="end">{value:g}</text>'
    yield f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">{unit}</text>'
    yield f'<text x="12" y="{HEIGHT / 2}" transform="rotate(-90 12 {HEIGHT / 2})">seconds</text>'
    last_size, last = points[-1]
    first_size = max(sizes[0], last_size * low_y / last)
    start = (x(first_size), y(last * first_size / last_size))
    yield (
        f'<path d="M{start[0]},{start[1]} L{x(last_size)},{y(last)}" stroke="#999" '
        'stroke-dasharray="4 4"/>'
    )
    line = " ".join(f"{x(size)},{y(second)}" for size, second in points)
    yield f'<polyline points="{line}" fill="none" stroke="{COLOR}" stroke-width="2"/>'
    for size, second in points:
        yield f'<circle cx="{x(size)}" cy="{y(second)}" r="3" fill="{COLOR}"/>'


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten around them."""
    return 10.0 ** math.floor(math.log10(min(values))), 10.0 ** math.ceil(math.log10(max(values)))


def _share(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low)


def _ticks(low: float, high: float) -> Iterator[float]:
    value = low
    while value <= high * 1.001:
        yield value
        value *= 10
