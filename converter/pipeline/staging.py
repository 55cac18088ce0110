"""Makes an output folder appear whole or not at all, and loses nothing on the way.

Work happens in a folder beside the output, held by a lock for as long as its process lives; what
is made there becomes the output by one rename. What it replaces is set aside into the same folder
first, looked at once more, and given back under its name whatever fails. What a killed run left is
recognised by its mark and its free lock, and put right or cleared by the next run.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from converter.errors import UsageError, from_os_error
from converter.files import output_guard
from converter.pipeline.publish_journal import JOURNAL, Journal
from converter.runtime.supervised import work_at

SCRATCH = ".scratch"
"""The folder in the staging folder for files that go again before the output is in place."""

_TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR}


class Staging:
    """The folder in which ``out`` is made; a context manager that leaves nothing behind.

    Args:
        out: The output folder; of a link, what it leads to. Absent or empty, unless ``overwrite``.
        overwrite: Whether an output of ours may be replaced.
        reads: What the run reads, by what it is: a folder that holds any of it isn't replaced.

    Attributes:
        folder: What becomes the output.
        left: What was replaced and couldn't be deleted then, in words; empty otherwise.
        journal: Where whoever adds to a repository says so first: if the output isn't put in place
            after that, it is taken back.
        stayed: What a killed run added and couldn't be taken back: it was changed since.

    Raises:
        UsageError: The output is in the way, or another run is writing to it.
    """

    def __init__(
        self, out: Path, *, overwrite: bool = False, reads: Mapping[str, Path] | None = None
    ) -> None:
        self.out = resolved(out)
        if not self.out.name:
            raise UsageError(
                f"{self.out} can't be the output folder",
                code="output-in-the-way",
                hint="Choose another --out.",
            )
        self._home = self.out.with_name(f".{self.out.name}.modelyard-staging")
        self.folder = self._home / "made"
        self._old = self._home / "old"  # to be given back
        self._gone = self._home / "gone"  # to be deleted
        self.failed = self.out.with_name(f"{self.out.name}.failed")
        self.left = ""
        self.journal = Journal(self._home / JOURNAL)
        self.stayed: list[str] = []
        self._overwrite = overwrite
        self._reads = dict(reads or {})
        self._lock = -1
        self._made: list[Path] = []

    def __enter__(self) -> Staging:
        try:
            self._make_parents()
            self._take()
            self.require_free()
            self.folder.mkdir()
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

    # -- taking the place ------------------------------------------------------------------

    def _make_parents(self) -> None:
        missing = [p for p in self.out.parents if not p.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            self._made.append(folder)

    def _take(self) -> None:
        """Makes the folder to work in and locks it; clears one whose owner has died."""
        for _ in range(100):
            self._home.mkdir(exist_ok=True)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
            self._lock = os.open(self._home, flags)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                self._unlock()
                raise UsageError(
                    f"another run is writing to {self.out}",
                    code="output-busy",
                    hint="Wait for it, or choose another --out.",
                ) from error
            if self._still_ours():
                work_at(self.out)
                self._put_right()
                return
            self._unlock()
        raise UsageError(f"other runs keep writing to {self.out}", code="output-busy")

    def clear(self) -> None:
        """Clears what a killed run left, as the next run would."""
        with suppress(OSError, UsageError):
            self._take()
            self._leave()

    def _still_ours(self) -> bool:
        """Whether the locked folder is the one that the path names, not one removed since."""
        try:
            now = self._home.stat()
        except FileNotFoundError:
            return False
        held = os.fstat(self._lock)
        return (now.st_dev, now.st_ino) == (held.st_dev, held.st_ino)

    def _put_right(self) -> None:
        """Gives back what a killed run had set aside, and clears the rest of what it left."""
        if any(self._home.iterdir()) and not output_guard.is_marked(self._home):
            self._unlock()
            raise UsageError(
                f"{self._home} is in the way: Modelyard works in this folder, but didn't "
                "make the files in it",
                code="output-in-the-way",
                hint="Move it away, or choose another --out.",
            )
        output_guard.mark(self._home)
        self._take_back()
        if self._old.exists() and not self._was_replaced():
            self._move_beside(self._old, self.out)
        for item in self._home.iterdir():
            if item.name != output_guard.MARK:
                output_guard.remove(item)

    def _take_back(self) -> None:
        """Takes back what was added to repositories for an output that wasn't put in place."""
        if self.folder.exists():
            self.stayed = self.journal.take_back()

    def _was_replaced(self) -> bool:
        """Whether what was set aside gave way to what was made: both are ours, as we made them."""
        both = (self._old, self.out)
        return not self.folder.exists() and all(
            output_guard.is_ours(folder) and not output_guard.strange(folder) for folder in both
        )

    # -- what is in the way ----------------------------------------------------------------

    def require_free(self) -> None:
        """Refuses where the output is in the way, and may not be replaced.

        Raises:
            UsageError: It says what is.
        """
        if not os.path.lexists(self.out):
            return
        if not self.out.is_dir() or self.out.is_symlink():
            raise UsageError(
                f"the output {self.out} is a file",
                code="output-in-the-way",
                hint="Choose another --out.",
            )
        if any(self.out.iterdir()):
            self._require_replaceable()
        if _holds(self.out, Path.cwd()):
            raise UsageError(
                f"the output folder {self.out} is the working directory, or contains it, so "
                "a new folder can't replace it",
                code="output-in-the-way",
                hint="Run it from elsewhere, or choose another --out.",
            )

    def require_apart(self, repository: Path) -> None:
        """Refuses a repository in which the output would lie, or the other way round: one would
        be replaced with the other, and a server would take what lies there for models.

        Raises:
            UsageError: They overlap.
        """
        place = resolved(repository)
        for folder in (self.out, self.failed):
            if place.is_relative_to(folder) or folder.is_relative_to(place):
                raise UsageError(
                    f"--repository {repository} and the output folder {folder} are inside "
                    "one another",
                    code="option-conflict",
                    hint="Choose another --out. The repository gets a copy of the package.",
                )

    def _require_replaceable(self) -> None:
        """Refuses to replace a folder that isn't empty, unless all of it is ours and unused."""
        why = self._not_replaceable()
        if not self._overwrite:
            raise UsageError(
                f"the output folder {self.out} isn't empty: {why or 'it holds an earlier output'}",
                code="output-in-the-way",
                hint="Choose another --out; --overwrite replaces only what modelyard made."
                if why
                else "Choose another --out, or pass --overwrite to replace it.",
            )
        if why:
            raise UsageError(
                f"the output folder {self.out} can't be replaced: {why}",
                code="output-in-the-way",
                hint="--overwrite replaces only what Modelyard made and nobody changed. Move "
                "your own files away, or choose another --out.",
            )

    def _not_replaceable(self) -> str:
        """Why the output that is there may not be replaced; empty where it may."""
        reasons = []
        if not output_guard.is_ours(self.out):
            names = sorted(item.name for item in self.out.iterdir())
            reasons.append(f"modelyard didn't make it; it holds {output_guard.listed(names)}")
        elif found := output_guard.strange(self.out):
            reasons.append(
                "it holds files that Modelyard didn't make, or that were changed since: "
                + output_guard.listed(found)
            )
        used = [what for what, path in self._reads.items() if _holds(self.out, path)]
        if used:
            reasons.append(f"it holds files that this run reads: {', '.join(used)}")
        if _holds(self.out, Path.cwd()):
            reasons.append("it is the working directory, or holds it")
        return "; ".join(reasons)

    # -- putting it in place ---------------------------------------------------------------

    def commit(self) -> Path:
        """Renames what was made into place, and removes an old report of failure.

        Raises:
            UsageError: Something has come into the way since; what was made lies beside it.
            MachineError: The disk failed. What was there is there again.
        """
        try:
            self.require_free()
            self._place(self.out, self._old if self._overwrite else None)
        except (OSError, UsageError) as error:
            why = error.message if isinstance(error, UsageError) else _words(error)
            raise self._not_placed(why) from error
        self._made.clear()
        self._remove_failed()
        return self.out

    def commit_failed(self, report: list[str]) -> Path:
        """Leaves only the files named in ``report``, in ``OUT.failed``, or beside it where that
        isn't an old report of ours; gives the folder."""
        for item in self.folder.iterdir():
            if item.name not in report:
                output_guard.remove(item)
        try:
            if self._is_old_report():
                self._place(self.failed, self._gone)
                placed = self.failed
            else:
                placed = self._move_beside(self.folder, self.failed)
        except OSError as error:
            raise from_os_error(error, f"writing {self.failed}") from error
        self._made.clear()
        return placed

    def _place(self, target: Path, aside: Path | None) -> None:
        """Renames what was made to ``target``. What it replaces, where it may, goes to ``aside``
        meanwhile, and is back if that fails."""
        try:
            if aside:
                self._set_aside(target, aside)
            self.folder.rename(target)
        finally:
            if aside and aside.exists() and self.folder.exists():
                aside.rename(target)
        if aside and aside.exists():
            self._delete(aside)

    def _set_aside(self, target: Path, aside: Path) -> None:
        """Moves a folder that isn't empty, and looks at it once more: nobody can write into it by
        its name now."""
        if not target.is_dir() or not any(target.iterdir()):
            return
        target.rename(aside)
        found = output_guard.strange(aside)
        if found:
            raise UsageError(
                f"{output_guard.listed(found)} appeared in {target} during this run",
                code="output-busy",
            )

    def _delete(self, folder: Path) -> None:
        """Deletes what was replaced; what can't be deleted is left, and told of."""
        try:
            if folder != self._gone:
                folder.rename(self._gone)
            output_guard.remove(self._gone)
        except OSError as error:
            self.left = f"the replaced output couldn't be deleted ({_words(error)}): {self._home}"

    def _not_placed(self, why: str) -> UsageError:
        """The error of an output that isn't put in place; what was made is kept beside it."""
        try:
            where = f"This run's output is in {self._move_beside(self.folder, self.out, 2)}."
            self._made.clear()
        except OSError as error:
            where = f"This run's output couldn't be kept ({_words(error)})."
        if self._old.exists():
            where += f" The earlier output is in {self._old}: give the folder its name back."
        return UsageError(
            f"{self.out} was not put in place: {why}",
            code="output-in-the-way",
            hint=f"Nothing was replaced. {where}",
        )

    def _move_beside(self, folder: Path, target: Path, number: int = 1) -> Path:
        """Renames a folder to ``target``, or to that name with the first number that is free;
        gives the name."""
        while True:
            beside = target if number == 1 else target.with_name(f"{target.name}-{number}")
            number += 1
            if os.path.lexists(beside):
                continue
            try:
                return folder.rename(beside)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise

    def _is_old_report(self) -> bool:
        """Whether ``OUT.failed`` is a report of ours that nobody changed or uses."""
        if not self.failed.is_dir() or self.failed.is_symlink():
            return False
        reads = {**self._reads, "the working directory": Path.cwd()}
        used = any(_holds(self.failed, path) for path in reads.values())
        return not used and output_guard.is_failed_report(self.failed)

    def _remove_failed(self) -> None:
        """Removes the report of an earlier run that failed; a folder that isn't one stays."""
        try:
            if self._is_old_report():
                self.failed.rename(self._gone)
                self._delete(self._gone)
        except OSError as error:
            self.left = f"the old report couldn't be deleted ({_words(error)}): {self.failed}"

    # -- leaving ---------------------------------------------------------------------------

    def _unlock(self) -> None:
        os.close(self._lock)
        self._lock = -1

    def _leave(self) -> None:
        if self._lock >= 0:
            self._take_back()
            if self._still_ours() and not self._old.exists() and not self.left:
                with suppress(OSError):  # the next run clears it
                    output_guard.remove_marked(self._home)
            work_at(None)
            self._unlock()
        for folder in reversed(self._made):
            try:
                folder.rmdir()
            except OSError:
                break  # somebody else uses it by now
        self._made.clear()


def resolved(path: Path) -> Path:
    """A path without links.

    Raises:
        UsageError: Its links lead to each other.
    """
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise UsageError(
            f"{path} can't be found: {error}", code="file-not-found", hint="Choose another --out."
        ) from error


def _holds(folder: Path, path: Path) -> bool:
    """Whether ``path``, or what it leads to, is the folder or lies in it."""
    places = (path.parent.resolve() / path.name, path.resolve())
    return any(place.is_relative_to(folder) for place in places)


def _words(error: OSError) -> str:
    return error.strerror or str(error)
