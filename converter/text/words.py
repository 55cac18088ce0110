"""Numbers as people read them, the same in every rendering."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Protocol
from unicodedata import category

NONE = "\N{EN DASH}"
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_COMMAND = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]"
)
"""What commands a terminal: ECMA-48's control sequences, strings as of hyperlinks, and escapes."""
_CONTROL = re.compile(r"\s*[\x00-\x1f\x7f-\x9f\u2028\u2029][\s\x00-\x1f\x7f-\x9f]*")
LONGEST_WORD, LONGEST = 1000, 20_000
"""Characters of a name, and of a line with names in it, that are shown: a file may hold names of
megabytes."""
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
_MINUS, _TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"


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
        return f"1 {_MINUS} {1 - value:.1e}"
    return f"{value:.6f}"


def limit(value: float) -> str:
    """A limit with all its digits, as it was given: ``0.99999``."""
    return repr(float(value)).removesuffix(".0")


def beside(value: float, limit: float | None, told: Callable[[float], str] = number) -> str:
    """A value in the digits that tell it from a limit: ``0.99998999`` beside ``0.99999``.

    Args:
        value: The value.
        limit: The limit; None for as many digits as usual.
        told: Writes a number as usual.
    """
    text = told(value)
    if limit is None or value == limit:
        return text
    for digits in range(4, 18):
        shown = _read(text)
        if shown != limit and (shown < limit) == (value < limit):
            break
        text = f"{value:.{digits}g}"
    return text


def _read(text: str) -> float:
    """The number that :func:`number` or :func:`cosine` wrote."""
    whole, _, less = text.partition(f" {_MINUS} ")
    return float(whole.split()[0].replace(",", "")) - float(less or 0)


def size(count: int | None) -> str:
    """Bytes: ``97.8 MB`` (of 1,000,000 bytes)."""
    if count is None:
        return NONE
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:  # three digits of more are "1e+03"
            break
        value, unit = value / 1000, larger
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"


_BYTES = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BYTES |= {f"{unit}I": 1 << 10 * power for power, unit in enumerate("KMGT", 1)}


def bytes_of(text: str) -> int:
    """The bytes of ``200MB`` or ``1.5 GB`` (powers of 1000), of ``64MiB`` (of 1024).

    Raises:
        ValueError: It is no size.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?\s*", text.upper())
    if found is None or not (count := int(float(found[1]) * _BYTES[found[2] or ""])):
        raise ValueError(f"{text}: no size, as 200MB, 1.5GB or 64MiB are")
    return count


def size_ratio(ratio: float | None) -> str:
    """A size beside another: ``0.254x``; never rounded to 1."""
    if ratio is None:
        return NONE
    near = ratio != 1 and abs(ratio - 1) < 5e-4
    return f"{number(ratio, 6 if near else 3)}\N{MULTIPLICATION SIGN}"


def count(things: int) -> str:
    """``4.09 billion``; every digit below a million; ``1.05e+310`` where no float is as large."""
    if things >= 10**15:
        return f"{Decimal(things):.3g}"
    for name, unit in (("billion", 1e9), ("million", 1e6)):
        if things >= unit:
            return f"{number(things / unit, 3)} {name}"
    return f"{things:,}"


def milliseconds(value: float | None) -> str:
    """``12.3``, three significant digits."""
    return number(value, 3)


def percent(share: float | None) -> str:
    """A share of 1 as ``98.4%``; never rounded up to 100%, or down to nothing."""
    if share is None:
        return NONE
    if 0 < share < 5e-4:
        return "<0.1%"
    if share in (0, 1):
        return f"{share:.0%}"
    return f"{min(share, 0.9999):.2%}" if share > 0.99 else f"{share:.1%}"


def decibel(value: float | None, *, exact: bool = False) -> str:
    """``63.2 dB``; ``exact`` where None stands for no difference at all."""
    if value is None:
        return "exact" if exact else NONE
    return f"{value:.1f} dB"


class Ratio(Protocol):
    """A latency beside another's: its factor, between which ends it lies, what is wrong with it."""

    @property
    def speedup(self) -> float: ...

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...

    @property
    def doubt(self) -> str: ...


def speedup(ratio: Ratio) -> str:
    """How an artifact's latency compares with its source's: ``1.8x faster``, ``about 4x slower``,
    ``as fast``; what is wrong with the measurement where no figure stands on it."""
    if ratio.doubt:
        return ratio.doubt
    slower = ratio.high < 1
    ends = (1 / ratio.high, 1 / ratio.low) if slower else (ratio.low, ratio.high)
    factor = times(1 / ratio.speedup if slower else ratio.speedup, *ends)
    if ratio.low <= 1 <= ratio.high or float(factor.split()[-1][:-1].replace(",", "")) == 1:
        return "about as fast"
    return f"{factor} {'slower' if slower else 'faster'}"


def times(value: float, low: float, high: float) -> str:
    """A factor in the digits that its spread allows: ``1.84x``, ``12x``, ``about 4x``.

    The last digit stands for more than the spread; at least one is told, two of what begins with
    1 or 2, and at most three.

    Args:
        value: The factor, above 0.
        low: The least that was measured.
        high: The most that was measured.
    """
    digit = 10.0 ** math.floor(math.log10(value))
    coarsest = digit / 10 if value < 3 * digit else digit
    spread = max(high - low, digit / 100)
    last = min(10.0 ** math.ceil(math.log10(spread) - 1e-9), coarsest)
    places = max(0, -round(math.log10(last)))
    about = "about " if spread > 1.001 * last else ""
    return f"{about}{round(value / last) * last:,.{places}f}{_TIMES}"


def seconds(value: float) -> str:
    """``0.4 s``, ``3 min 12 s``."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s"


def runtime(facts: Mapping[str, Any]) -> str:
    """Name and version of what a session runs in: ``onnxruntime 1.31.1``."""
    return f"{facts.get('name', '')} {facts.get('version', '')}".strip()


def printable(text: str) -> str:
    """``text`` from a file in one line: control and format characters are visible escapes, such
    as ``\\x1b``, ``\\u202e`` and ``\\n``; of a word of more than :data:`LONGEST_WORD` characters,
    and of more than :data:`LONGEST` in all, the middle is left out; all else is as it was."""
    if len(text) > LONGEST_WORD:
        text = middle(_LONG_WORD.sub(lambda word: middle(word[0], LONGEST_WORD), text), LONGEST)
    if text.isprintable():
        return text
    return "".join(repr(c)[1:-1] if category(c) in _UNSEEN else c for c in text)


def one_line(said: object) -> str:
    """What a library says as one line: its colours, line breaks and other control characters are
    left out."""
    text = str(said)
    return text if text.isprintable() else _CONTROL.sub(" ", _COMMAND.sub("", text)).strip()


def middle(text: str, width: int) -> str:
    """At most ``width`` characters, the middle left out."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - (width - 1 - head) :]}"
