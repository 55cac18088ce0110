"""Numbers as people read them, the same in every rendering."""

from __future__ import annotations

import math

NONE = "\N{EN DASH}"


def number(value: float | None, digits: int = 4) -> str:
    """Four significant digits; small and large ones as 1.2e-07."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e6:
        return f"{value:.{digits - 2}e}"
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def cosine(value: float | None) -> str:
    """Six places; closer to 1 than that, the distance: ``1 - 3.1e-09``."""
    if value is None:
        return NONE
    if value == 1:
        return "1 (exact)"
    if 0 < 1 - value < 5e-6:
        return f"1 \N{MINUS SIGN} {1 - value:.1e}"
    return f"{value:.6f}"


def size(count: int | None) -> str:
    """Bytes: ``97.8 MB`` (of 1,000,000 bytes)."""
    if count is None:
        return NONE
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"


def milliseconds(value: float | None) -> str:
    """``12.3``, three significant digits."""
    return number(value, 3)


def percent(share: float | None) -> str:
    """A share of 1 as ``98.4%``; never rounded up to 100%."""
    if share is None:
        return NONE
    if share in (0, 1):
        return f"{share:.0%}"
    return f"{min(share, 0.9999):.2%}" if share > 0.99 else f"{share:.1%}"


def decibel(value: float | None, *, exact: bool = False) -> str:
    """``63.2 dB``; ``exact`` where None stands for no difference at all."""
    if value is None:
        return "exact" if exact else NONE
    return f"{value:.1f} dB"


def speedup(value: float) -> str:
    """``1.84x faster``, ``1.20x slower``."""
    faster = value >= 1
    return f"{value if faster else 1 / value:.2f}\N{MULTIPLICATION SIGN} " + (
        "faster" if faster else "slower"
    )


def seconds(value: float) -> str:
    """``0.4 s``, ``3 min 12 s``."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s"


def printable(text: str) -> str:
    """``text`` without what a terminal would take for a command, such as ESC."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def middle(text: str, width: int) -> str:
    """At most ``width`` characters, the middle left out."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - (width - 1 - head) :]}"
