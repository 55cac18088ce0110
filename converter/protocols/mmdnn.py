"""What a parser says of the framework that it reads to users of MMdnn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Known:
    """What MMdnn's users know of a source.

    Attributes:
        aliases: Other names of it.
        shaped: Whether ``--inputShape`` goes without the names of its inputs.
        example: Of ``mmconvert``.
        files: The fields of a request that ``-in`` and ``-iw`` are, each of which may be None,
            and whether ``-sf`` named this source; None where nothing about them is special.
            Raises UsageError for what can't be.
        written: The fields of a request that ``-df`` with its name is, beside or in place of a
            target of that name.
        fetched: Models that ``mmdownload`` had, and where each comes from now.
    """

    aliases: tuple[str, ...] = ()
    shaped: bool = False
    example: str = ""
    files: Callable[[str | None, str | None, bool], Mapping[str, Any] | None] = lambda *_: None
    written: Mapping[str, Any] = field(default_factory=dict)
    fetched: Mapping[str, str] = field(default_factory=dict)
