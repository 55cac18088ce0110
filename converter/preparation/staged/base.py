"""What all of preparation has: what a file is, what was seen of it, and what is wrong with it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent

FILE = "stages.json"

Array = np.ndarray[Any, Any]

Arrays = dict[str, Array]

Known = Mapping[str, Any]
"""A part of a declaration."""

Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""Outputs by name of inputs by name."""

TYPES = {"picture": ("image/",), "sound": ("audio/",), "text": ("text/plain",),
         "row": ("text/csv",)}  # fmt: skip
"""What of a request's content type says that it is a kind; others say nothing."""

ANY = ("", "application/octet-stream", "application/x-www-form-urlencoded")
"""Content types of whoever doesn't say; the last is curl's."""

DAMAGED = (OSError, SyntaxError, ValueError, TypeError, EOFError, struct.error, zlib.error)


class StageError(ValueError):
    """What was sent can't be prepared: the sender's mistake, in one line.

    Args:
        told: What is wrong; cut to 400 characters.
        hint: What to do about it, in the words of the command line; may be empty.
        status: HTTP's.

    Attributes:
        hint: What to do about it, in the words of the command line; may be empty.
        status: HTTP's.
    """

    def __init__(self, told: str, hint: str = "", status: int = 400) -> None:
        super().__init__(told if len(told) <= 400 else f"{told[:400]}...")
        self.hint, self.status = hint, status


class MissingPackage(ImportError):
    """A package that isn't installed; ``name`` is pip's."""


@dataclass(frozen=True)
class Item:
    """One of a request's files.

    Attributes:
        kind: ``picture``, ``sound``, ``text`` or ``row``.
        data: Its bytes, or a text.
        name: What messages call it.
        pair: A second text; None without one.
    """

    kind: str
    data: Any
    name: str
    pair: str | None = None


@dataclass(frozen=True)
class Seen:
    """What of a file its answer needs.

    Attributes:
        size: Width and height of a picture, upright.
        scale, offset: Of x and of y: in the model's picture it is ``x * scale + offset``.
        seconds: Of a sound.
        feeds: The arrays.
    """

    size: tuple[int, int] = (0, 0)
    scale: tuple[float, float] = (1.0, 1.0)
    offset: tuple[float, float] = (0.0, 0.0)
    seconds: float = 0.0
    feeds: Arrays = field(default_factory=dict)


def kind_of(known: Known) -> str:
    """The kind of files that a part of preparation takes."""
    return str(known["takes"] if known["kind"] == "step" else known["kind"])


def packages_of(kind: str) -> tuple[str, ...]:
    """What reads a kind of files, by the names of modules."""
    known = {"picture": ("PIL",), "sound": ("soundfile", "soxr"), "text": ("tokenizers",)}
    return known.get(kind, ())


def library_of(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        wanted = {"PIL": "pillow"}.get(name, name)
        raise MissingPackage(f"it needs the package {wanted}", name=wanted) from error


def one_line(error: BaseException) -> str:
    """What an error says, without where something lies in memory."""
    return " ".join(str(error).split()).partition(" <_io.")[0]
