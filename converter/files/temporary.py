"""A folder for the temporary files of a run and of all its children: a run leaves none behind.

It lies where temporary files do, and is ``TMPDIR`` to what a command does and starts. A call from
Python leaves its caller's ``TMPDIR`` alone: only the children get one of ours, until the caller's
process ends.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from converter.files.locked import locked_folder

PREFIX = "modelyard-run-"

_made: tuple[int, Path] | None = None
"""The folder of this process, with its id: one that was forked has none yet."""


@contextmanager
def own_folder() -> Iterator[None]:
    """Has temporary files made inside lie in a folder that goes at the end; where none can be made,
    whoever needs one says so."""
    global _made
    before = os.environ.get("TMPDIR"), tempfile.tempdir, _made
    with ExitStack() as stack:
        with suppress(OSError):
            folder = stack.enter_context(locked_folder(outside(), PREFIX))
            stack.callback(_restore, *before)
            _made = os.getpid(), folder
            os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        yield


def _restore(variable: str | None, place: str | None, made: tuple[int, Path] | None) -> None:
    global _made
    tempfile.tempdir, _made = place, made
    os.environ.pop("TMPDIR")
    if variable is not None:
        os.environ["TMPDIR"] = variable


def for_children() -> Path:
    """The folder for the temporary files of children; made when it is first asked for."""
    global _made
    if _made is None or _made[0] != os.getpid() or not _made[1].is_dir():
        stack = ExitStack()
        _made = os.getpid(), stack.enter_context(locked_folder(outside(), PREFIX))
        atexit.register(_close, stack, os.getpid())
    return _made[1]


def _close(stack: ExitStack, pid: int) -> None:
    if pid == os.getpid():
        stack.close()


def outside() -> Path:
    """Where temporary files lie that a run doesn't take along, as a log of what went wrong."""
    place = Path(tempfile.gettempdir())
    return place.parent if place.name.startswith(PREFIX) else place
