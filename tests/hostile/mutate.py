"""Damage to files: their bytes, their structure, and which of them are there; as a seed says."""

from __future__ import annotations

import copy
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.hostile.formats import IMPOSSIBLE, Field, Tree, read, write

Files = dict[str, bytes]

NUMBERS = (0, 1, -1, 2, 7, 255, 65536, 10**6, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**62,
           2**63 - 1, -(2**63), 2**64 - 1)  # fmt: skip
REALS = (0.0, -0.0, 1e-45, 1e300, -1e300, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", " ", "\0", "a\0b", "\x1b[31mred\x07", "\r\n\t", "\u202e\u2066",
         "\ud800", "é日本\U0001f600",
         "../../../etc/passwd", "/etc/passwd", "..", "/", "~", "%s%n{}{0.__class__}", "${HOME}`id`",
         "<script>alert(1)</script>", "]]>", "'\";--", "\\", "n" * 300, "n" * 70_000, "-1", "1e999",
         "nan", "None", "true", "float32", "com.microsoft", "ai.onnx", "batch", "__reduce__",
         "2020-13-45", "0x", "!!python/object:os.system", "builtins.eval", "x:y:z")  # fmt: skip
BAD_BYTES = (b"\xff\xfe\xfd", b"\xc3(", b"\0" * 9, b"\xed\xa0\x80", b"\x80\x05.")
OTHERS: tuple[Tree, ...] = (None, True, 0, -1, 1.5, "", "text", [], {}, [[]], {"a": 1}, b"",
                            b"\xff")  # fmt: skip
SPLICED = (b"\0", b"\xff" * 8, b"\xff\xff\xff\x7f", b"{", b"[" * 3000, b"{\"a\":" * 3000, b"}",
           b"&a [*a, *a]",
           b"<<: *x\n", b"!!python/name:os.system ''\n", b"? - : -\n", b"- - - - -\n", b"\t\n",
           b"%YAML 9.9\n---\n",
           b"PK\x03\x04", b"PK\x05\x06", b"\x80\x04", b"\x93NUMPY", b"TFL3", b"1e999", b"NaN",
           b"\xef\xbb\xbf",
           b"(" * 900, b"2020-13-45", b"\x0a\xff\xff\xff\xff\x07")  # fmt: skip
_LARGEST = 1 << 22


def damaged(
    files: Files, seed: str, open_to: Sequence[str], keep: Sequence[int] | None = None
) -> Files:
    """The files after the changes that ``seed`` says.

    Args:
        files: By path.
        seed: Always gives the same.
        open_to: Paths of those that may change.
        keep: Which of the changes to make; all by default.
    """
    made = dict(files)
    for number in range(changes(seed)):
        if keep is None or number in keep:
            _change(made, random.Random(f"{seed}/{number}"), open_to)
    return made


def changes(seed: str) -> int:
    """How many changes a seed means."""
    return random.Random(seed).choice((1, 1, 1, 2, 3, 6))


def _change(files: Files, rng: random.Random, open_to: Sequence[str]) -> None:
    there = [path for path in open_to if path in files]
    if not there:
        return
    path, way = rng.choice(there), rng.random()
    if way < 0.01:
        del files[path]
    elif way < 0.02:
        files[path] = files[rng.choice(sorted(files))]
    elif way < 0.35 or not _restructure(files, path, rng):
        files[path] = _bytes_changed(files[path], rng)


# -- bytes ---------------------------------------------------------------------------------


def _bytes_changed(data: bytes, rng: random.Random) -> bytes:
    """Some of them others, gone, twice, or new ones between: anywhere, or near an end."""
    size = max(1, len(data))
    low, high = rng.choice([(0, size), (0, min(size, 400)), (max(0, size - 400), size)])
    at = rng.randrange(low, high)
    length = rng.choice([1, 2, 4, 8, 64, rng.randrange(1, size + 1)])
    way = rng.randrange(7)
    if way == 0:
        return data[:at]
    if way == 1:
        return data[:at] + data[at + length :]
    if way == 2:
        more = data[at : at + length] * rng.choice([2, 3, 100 if length < 999 else 2])
        return data[:at] + more + data[at:]
    if way == 3:
        return data[:at] + rng.choice(SPLICED) + data[at:]
    if way == 4:
        number = struct.pack("<I", rng.choice(NUMBERS) & 0xFFFFFFFF)
        put = rng.choice([number, rng.choice(BAD_BYTES)])
        return data[:at] + put + data[at + len(put) :]
    changed = bytearray(data or b"\0")
    for _ in range(rng.choice([1, 1, 2, 5, 40])):
        at = rng.randrange(min(low, len(changed) - 1), min(high, len(changed)))
        others = [rng.randrange(256), changed[at] ^ 1 << rng.randrange(8)]
        changed[at] = rng.choice([0, 255, 127, 128, *others])
    return bytes(changed)


# -- structure -----------------------------------------------------------------------------

Slot = tuple[Any, Any]
"""A list or a mapping, and where in it."""


def slots(tree: Tree) -> Iterator[Slot]:
    """Every place in a tree that holds something."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        keys: list[Any] = []
        if isinstance(node, Field):
            keys = [2]
        elif isinstance(node, list | dict):
            keys = list(node if isinstance(node, dict) else range(len(node)))
        for key in keys:
            yield node, key
            waiting.append(node[key])


def _restructure(files: Files, path: str, rng: random.Random) -> bool:
    """Changes a place in a file's structure; False where it has none, or nothing came of it."""
    for _ in range(6):
        tree = read(path, files[path])
        if not isinstance(tree, list | dict):
            return False
        places = list(slots(tree))
        try:
            rng.choice(_WAYS)(tree, places, rng)
            made = write(path, tree)
        except IMPOSSIBLE:
            continue
        if made != files[path] and len(made) < _LARGEST:
            files[path] = made
            return True
    return False


def _other_value(tree: Tree, places: list[Slot], rng: random.Random) -> None:
    scalars = [(node, key) for node, key in places if not isinstance(node[key], list | dict)]
    node, key = rng.choice(scalars)
    node[key] = _other(node[key], rng)


def _other(value: Tree, rng: random.Random) -> Tree:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        others = [value + 1, value - 1, -value, value * 1000]
        return rng.choice([rng.choice(NUMBERS), *others, rng.randrange(300)])
    if isinstance(value, float):
        return rng.choice(REALS)
    if isinstance(value, str):
        texts = [rng.choice(TEXTS), value[:-1], value + rng.choice(TEXTS), value.upper()]
        return rng.choice([*texts, rng.choice(BAD_BYTES)])
    return _bytes_changed(value, rng) if isinstance(value, bytes) else rng.choice(OTHERS)


def _other_type(tree: Tree, places: list[Slot], rng: random.Random) -> None:
    node, key = rng.choice(places)
    node[key] = rng.choice(OTHERS)


def _gone(tree: Tree, places: list[Slot], rng: random.Random) -> None:
    node, key = rng.choice(places)
    if isinstance(node, Field):
        node[2] = b""
    else:
        del node[key]


def _twice(tree: Tree, places: list[Slot], rng: random.Random) -> None:
    node, key = rng.choice(places)
    times = rng.choice([1, 1, 2, 1000])
    if isinstance(node, Field):
        node[2] = node[2] * (times + 1)
    elif isinstance(node, dict):
        node[rng.choice([f"{key}2", *TEXTS])] = copy.deepcopy(node[key])
    else:
        node[key:key] = [copy.deepcopy(node[key]) for _ in range(times)]


def _swapped(tree: Tree, places: list[Slot], rng: random.Random) -> None:
    (one, a), (other, b) = rng.choice(places), rng.choice(places)
    like = [(node, key) for node, key in places if type(node[key]) is type(one[a])]
    other, b = rng.choice([(other, b), *[rng.choice(like)] * 3])
    one[a], other[b] = copy.deepcopy(other[b]), copy.deepcopy(one[a])


def _copied(tree: Tree, places: list[Slot], rng: random.Random) -> None:
    one, a = rng.choice(places)
    like = [(node, key) for node, key in places if type(node[key]) is type(one[a])]
    other, b = rng.choice(like)
    one[a] = copy.deepcopy(other[b])


def _renamed(tree: Tree, places: list[Slot], rng: random.Random) -> None:
    node, key = rng.choice([(n, k) for n, k in places if isinstance(n, dict | Field)])
    if isinstance(node, Field):
        node[0] = rng.choice([node[0] + 1, max(1, node[0] - 1), rng.randrange(1, 40), 2**29 - 1])
    else:
        node[rng.choice(TEXTS)] = node.pop(key)


def _nested(tree: Tree, places: list[Slot], rng: random.Random) -> None:
    """A place in itself, so many times."""
    node, key = rng.choice([(n, k) for n, k in places if isinstance(n[k], list | dict)] or places)
    value = node[key]
    for _ in range(rng.choice([1, 3, 30, 120, 400])):
        if isinstance(value, list) and value and isinstance(value[0], Field):
            value = [Field([rng.choice(value)[0], 2, value])]
        else:
            value = {str(key): value} if isinstance(node, dict) else [value]
    node[key] = value


_WAYS: tuple[Callable[[Tree, list[Slot], random.Random], None], ...] = (
    *[_other_value] * 6, _other_type, *[_gone] * 3, *[_twice] * 2, *[_swapped] * 2, *[_copied] * 3,
    _renamed, _nested,
)  # fmt: skip


# -- smaller -------------------------------------------------------------------------------


def smaller(files: Files, open_to: Sequence[str]) -> Iterator[Files]:
    """The files with one thing less each: a part of a structure, or of the bytes; the largest
    first."""
    for path in open_to:
        if path not in files:
            continue
        yield {name: data for name, data in files.items() if name != path}
        for made in _less(path, files[path]):
            if len(made) < len(files[path]):
                yield {**files, path: made}


def _less(path: str, data: bytes) -> Iterator[bytes]:
    count = len(list(slots(read(path, data))))
    for place in range(count):
        tree = read(path, data)
        node, key = list(slots(tree))[place]
        try:
            if isinstance(node, Field):
                node[2] = b""
            else:
                del node[key]
            yield write(path, tree)
        except IMPOSSIBLE:
            continue
    size = len(data) // 2
    while size:
        yield from (data[:at] + data[at + size :] for at in range(0, len(data), size))
        size //= 2
