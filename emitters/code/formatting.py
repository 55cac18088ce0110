"""Lines of Python no longer than they may be, broken as Black and Ruff break them."""

from __future__ import annotations

from collections.abc import Iterator

WIDTH = 100
_OPEN, _CLOSE = "([{", ")]}"
_INDENT = "    "


def formatted(line: str) -> list[str]:
    """A statement as lines; its own indentation is kept."""
    if len(line) <= WIDTH:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    found = _last_bracket(line)
    if found is None:
        return [line]
    start, end = found
    head, body, tail = line[: start + 1], line[start + 1 : end], line[end:]
    inner = indent + _INDENT
    parts = list(_split(body))
    generator = len(parts) == 1 and " for " in body
    whole = inner + body
    if len(whole) <= WIDTH:
        return [head, whole, indent + tail]
    if generator or (len(parts) == 1 and not body.rstrip().endswith(",")):
        return [head, *formatted(whole), indent + tail]
    lines = [head]
    for part in parts:
        lines += formatted(f"{inner}{part},")
    return [*lines, indent + tail]


def _last_bracket(line: str) -> tuple[int, int] | None:
    """Where the last outermost pair of brackets that isn't empty opens and closes."""
    depth, start, found = 0, 0, None
    for at, letter in _outside_texts(line):
        if letter in _OPEN:
            start = at if depth == 0 else start
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
            if depth == 0 and at > start + 1:
                found = (start, at)
    return found


def _split(body: str) -> Iterator[str]:
    """What stands between commas, outermost ones."""
    depth, start = 0, 0
    for at, letter in _outside_texts(body):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and depth == 0:
            yield body[start:at].strip()
            start = at + 1
    if body[start:].strip():
        yield body[start:].strip()


def _outside_texts(line: str) -> Iterator[tuple[int, str]]:
    quote = ""
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            yield at, letter
