"""Errors as the parent gets them, and how an exception in user code becomes one."""

from __future__ import annotations

import errno
import os
import sys
import sysconfig
import traceback
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .distributions import DISTRIBUTIONS

# usage        the request cannot be met as asked: no such class, wrong arguments, wrong weights
# unsupported  the model cannot be exported; details hold every reason known
# dependency   a package is missing in this interpreter; `package` names it, where it is known
# untrusted    reading the file would run code that it brings
# source       the user's code raised
# broken       a library can't make sense of the user's file
# machine      disk or memory gave out
# internal     a defect of the worker
KINDS = (
    "usage", "unsupported", "dependency", "untrusted", "source", "broken", "machine", "internal",
)  # fmt: skip

OURS = [os.path.dirname(os.path.dirname(os.path.realpath(__file__)))]  # noqa: PTH120
"""Where our code lies; `main.py` adds the folder of a plug-in's."""
_STDLIB = sysconfig.get_paths()["stdlib"]
_INSTALLED = ("site-packages", "dist-packages")
_MAX_TRACEBACK_LINES = 60


class WorkerError(Exception):
    """An answer of the form {"error": {"kind": ..., "message": ..., ...}}.

    Args:
        kind: One of :data:`KINDS`.
        message: What is wrong.
        details: More lines.
        trace: The end of a traceback in user code.
        **extra: Further keys of the answer.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        details: Sequence[str] = (),
        trace: str = "",
        **extra: Any,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.details = list(details)
        self.trace = trace
        self.extra = extra

    def payload(self) -> Dict[str, Any]:
        """The error object of the answer, as JSON-ready values."""
        return {
            "kind": self.kind,
            "message": self.message,
            "details": self.details,
            "traceback": self.trace,
            **self.extra,
        }


def missing_package(package: str, purpose: str) -> WorkerError:
    """A `dependency` error; the parent knows the command that installs `package`."""
    return WorkerError(
        "dependency",
        f"{package} is needed {purpose} and is not installed in {sys.executable}",
        package=package,
    )


def _is_users(filename: str) -> bool:
    """Whether a frame's file is neither ours, the standard library's nor an installed package."""
    if filename.startswith(("<", *OURS)):
        return False
    parts = filename.replace("\\", "/").split("/")
    return not filename.startswith(_STDLIB) and not any(p in _INSTALLED for p in parts)


def _frames(error: BaseException) -> List[traceback.FrameSummary]:
    """The frames of `error` from the first that is not the worker's or the import system's."""
    frames = list(traceback.extract_tb(error.__traceback__))
    while frames and (frames[0].filename.startswith((*OURS, "<frozen", _STDLIB))):
        frames.pop(0)
    return frames


def _place(error: BaseException) -> Optional[Tuple[str, int]]:
    """The innermost line of the user's own files, or None."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 0
    for frame in reversed(_frames(error)):
        if _is_users(frame.filename):
            return frame.filename, frame.lineno or 0
    return None


def where(error: BaseException) -> str:
    """`file:line: ` of the user's innermost frame, or an empty text."""
    place = _place(error)
    return f"{place[0]}:{place[1]}: " if place else ""


def tail(error: BaseException) -> str:
    """The traceback from the user's first frame on, with the worker's own frames left out."""
    lines = traceback.format_list(_frames(error))
    lines += traceback.format_exception_only(type(error), error)
    return "\n".join("".join(lines).splitlines()[-_MAX_TRACEBACK_LINES:])


def from_user_code(error: BaseException, doing: str, hint: str = "") -> WorkerError:
    """The `source` (or `dependency`, for a missing import) error for what user code raised.

    Args:
        error: What was raised.
        doing: What the code was run for: "loading net.py".
        hint: What to do, behind the message.
    """
    if isinstance(error, WorkerError):
        return error
    text = str(error) or "no message"
    if isinstance(error, SystemExit):
        text = f"the code called exit({error.code!r})"
    message = f"{where(error)}{type(error).__name__} while {doing}: {text}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        top = error.name.partition(".")[0]
        message += f". {top!r} is neither beside the source nor installed in {sys.executable}"
        package = DISTRIBUTIONS.get(top)
        return WorkerError("dependency", message, trace=tail(error), package=package, module=top)
    return WorkerError("source", message + hint, code="model-code-failed", trace=tail(error))


_GAVE_OUT = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM, errno.EIO, errno.EMFILE, errno.ENFILE,
)  # fmt: skip
# What is a defect where the worker's own lines raise it; in a library, a file it can't read.
_DEFECTS = (AttributeError, NameError, AssertionError, NotImplementedError, TypeError)


def gave_out(error: Exception) -> bool:
    """Whether it is the machine's: memory, disk, open files."""
    return isinstance(error, MemoryError) or getattr(error, "errno", None) in _GAVE_OUT


def is_librarys(error: Exception) -> bool:
    """Whether a library raised it because of what it was given: it isn't the machine's, no package
    is missing, and no line of ours is wrong."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = isinstance(error, _DEFECTS) and frames[-1].filename.startswith(tuple(OURS))
    return not (ours or gave_out(error) or isinstance(error, ImportError))


def from_library(error: Exception, reading: bool) -> WorkerError:
    """The answer to what nobody expected: `broken` where a library raised it while `reading` the
    user's file, `machine` where that gave out, else a defect of ours."""
    if gave_out(error):
        return WorkerError("machine", str(error) or "the machine ran out of memory")
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if reading and is_librarys(error):
        text = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        return WorkerError("broken", text or type(error).__name__, trace=trace)
    return WorkerError("internal", f"{type(error).__name__}: {error}", trace=trace)
