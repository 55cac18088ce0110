"""Makes an output folder appear whole or not at all.

Work happens in a staging folder beside the output, held by a lock for as long as its
process lives; it becomes the output by one rename. What a killed run left is recognised
by its free lock and cleared by the next run.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from types import TracebackType

from converter.errors import UsageError, from_os_error


class Staging:
    """The staging folder for ``out``; a context manager that leaves nothing behind.

    Args:
        out: The output folder: absent or empty, unless ``overwrite``.
        overwrite: Whether a folder that isn't empty may be replaced.

    Raises:
        UsageError: The output is in the way, or another run is writing to it.
    """

    def __init__(self, out: Path, *, overwrite: bool = False) -> None:
        self.out = out
        self.folder = out.with_name(f".{out.name}.modelyard-staging")
        self._old = out.with_name(f".{out.name}.modelyard-old")
        self.failed = out.with_name(f"{out.name}.failed")
        self._overwrite = overwrite
        self._lock = -1
        self._made: list[Path] = []

    def __enter__(self) -> Staging:
        try:
            self._make_parents()
            self._take()
            self._put_right()
            self._require_free()
        except OSError as error:
            self._leave()
            raise from_os_error(error, f"writing to {self.out}") from error
        except BaseException:  # an interrupt too gives the lock back; all of it goes on
            self._leave()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def _make_parents(self) -> None:
        missing = [p for p in self.out.absolute().parents if not p.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            self._made.append(folder)

    def _take(self) -> None:
        """Makes the staging folder and locks it; clears one whose owner has died."""
        for _ in range(100):
            self.folder.mkdir(exist_ok=True)
            self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(self._lock)
                self._lock = -1
                raise UsageError(
                    f"another run is writing to {self.out}",
                    hint="Wait for it, or choose another --out.",
                ) from error
            if self._still_ours():
                _empty(self.folder)
                return
            os.close(self._lock)
            self._lock = -1
        raise UsageError(f"other runs keep writing to {self.out}")

    def _still_ours(self) -> bool:
        """Whether the locked folder is the one that the path names, not one moved away since."""
        try:
            now = self.folder.stat()
        except FileNotFoundError:
            return False
        held = os.fstat(self._lock)
        return (now.st_dev, now.st_ino) == (held.st_dev, held.st_ino)

    def _put_right(self) -> None:
        """Finishes the replacement that a killed run was in the middle of."""
        if not self._old.exists():
            return
        if self.out.exists():
            shutil.rmtree(self._old)
        else:
            self._old.rename(self.out)

    def _require_free(self) -> None:
        if self.out.is_dir():
            if any(self.out.iterdir()) and not self._overwrite:
                raise UsageError(
                    f"the output folder {self.out} isn't empty",
                    hint="Choose another --out, or pass --overwrite to replace it.",
                )
        elif self.out.exists():
            raise UsageError(f"the output {self.out} is a file", hint="Choose another --out.")

    def commit(self) -> Path:
        """Renames the staging folder into place, and removes an old failed report."""
        try:
            if self.out.is_dir() and any(self.out.iterdir()):
                self.out.rename(self._old)
            self.folder.rename(self.out)
            if self._old.exists():
                shutil.rmtree(self._old)
        except OSError as error:
            raise from_os_error(error, f"putting {self.out} in place") from error
        self._made.clear()
        self._remove_failed()
        return self.out

    def commit_failed(self, report: list[str]) -> Path:
        """Leaves only the files named in ``report``, in ``OUT.failed``."""
        self._remove_failed()
        for item in self.folder.iterdir():
            if item.name not in report:
                shutil.rmtree(item) if item.is_dir() else item.unlink()
        self.folder.rename(self.failed)
        self._made.clear()
        return self.failed

    def _remove_failed(self) -> None:
        if self.failed.is_dir():
            shutil.rmtree(self.failed)

    def _leave(self) -> None:
        if self._lock >= 0:
            if self._still_ours():
                shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1
        for folder in reversed(self._made):
            try:
                folder.rmdir()
            except OSError:
                break  # somebody else uses it by now
        self._made.clear()


def _empty(folder: Path) -> None:
    for item in folder.iterdir():
        shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
