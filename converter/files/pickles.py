"""Whose pickle a file is, without reading it as one."""

from __future__ import annotations

import pickletools
from contextlib import suppress

PICKLE_MARK = b"\x80"
"""What pickles of protocol 2 and newer begin with."""

HEAD = 4096
"""As many bytes tell."""


def first_module(head: bytes) -> str:
    """The package that a pickle's first global is of, from its first bytes; else empty."""
    if not head.startswith(PICKLE_MARK):
        return ""
    strings: list[str] = []
    with suppress(ValueError, EOFError, IndexError, KeyError, UnicodeError):  # cut, or no pickle
        for code, value, _ in pickletools.genops(head):
            if code.name == "GLOBAL":
                return str(value).split(".")[0].split(" ")[0]
            if code.name == "STACK_GLOBAL" and len(strings) > 1:
                return strings[-2].split(".")[0]
            if isinstance(value, str):
                strings.append(value)
    return ""
