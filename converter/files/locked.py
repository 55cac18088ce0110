"""Folders to work in that a killed process may leave: the next one recognizes and clears them.

Such a folder has a mark of ours, and a lock for as long as its process lives: one with the mark
that nobody holds the lock of belongs to a process that is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from converter.files import output_guard

REPOSITORY_PREFIX = ".modelyard-"
"""What the names of folders start with in which repositories' additions are made and taken back."""


@contextlib.contextmanager
def locked_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A new folder in ``parent``, which goes again at the end; those of killed processes go first.

    Args:
        parent: Where it is made.
        prefix: What its name starts with, which says whose it is.
    """
    sweep(parent, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        output_guard.mark(folder)  # from here on it may be swept up where nobody holds the lock
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def sweep(parent: Path, prefix: str) -> None:
    """Removes what killed processes of this user left in a folder."""
    for folder in parent.glob(f"{prefix}*"):
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(folder, flags)
        except OSError:
            continue
        try:
            if os.fstat(handle).st_uid != os.geteuid():
                continue
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if output_guard.is_marked(folder):
                output_guard.remove_marked(folder)
        except OSError:
            pass  # someone is working in it
        finally:
            os.close(handle)
