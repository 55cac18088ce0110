"""Every error that a user can meet, each with its exit code.

An error says what was being done, to what, what was found and what to do next.
It carries no traceback to the user: the command line prints ``message``, then
``details`` (one a line), then ``hint``, and exits with ``exit_code``.

| code | means |
|---|---|
| 0 | done, checked |
| 1 | a bug of ours |
| 2 | usage: flags, a file that isn't there, samples that don't fit, an output in the way |
| 3 | this model can't be read or converted; the whole list of why |
| 4 | a gate was missed |
| 5 | a dependency or device is missing |
| 6 | the machine gave out: disk, memory, time where that is limited, a child killed |
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from converter.text.words import printable


@dataclass(frozen=True)
class Unsupported:
    """One thing that a target, or the pipeline, can't take.

    Attributes:
        node: The node's name in the graph, or ``""`` where it isn't about one node.
        op: The operator, with its domain where that isn't ``ai.onnx``: ``com.example::Foo``.
        reason: What about it can't be taken.
        remedy: What the user can do.
    """

    node: str
    op: str
    reason: str
    remedy: str = ""

    def __str__(self) -> str:
        where = f"{self.op} ({self.node})" if self.node else self.op
        return f"{where}: {self.reason}" + (f" - {self.remedy}" if self.remedy else "")


class ModelyardError(Exception):
    """Base of all errors meant for the user.

    Args:
        message: One sentence: what was being done, to what, what was found.
        code: Which kind of error it is, a key of ``converter/errors.yaml``; the class's code
            if empty.
        hint: What to do next; empty where there is nothing to say.
        details: Everything else there is to say about it, one item a line.

    Attributes:
        left: The folder of the report that a failed conversion left.
    """

    exit_code = 1
    kind = code = "internal"

    def __init__(
        self, message: str, *, code: str = "", hint: str = "", details: Sequence[object] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.hint = hint
        self.details = tuple(str(item) for item in details)
        self.left: Path | None = None

    def __str__(self) -> str:
        lines = [self.message, *(f"  {item}" for item in self.details)]
        if self.hint:
            lines += self.hint.split("\n")
        return "\n".join(map(printable, lines))

    def as_dict(self) -> dict[str, object]:
        """The error for ``--json``."""
        return {
            "error": self.kind,
            "code": self.code,
            "exit_code": self.exit_code,
            "message": self.message,
            "details": list(self.details),
            "hint": self.hint,
        }

    @staticmethod
    def told(said: Mapping[str, Any]) -> ModelyardError:
        """The error that another process or an earlier run told, as :meth:`as_dict` has it."""
        code, hint = (str(said.get(name, "")) for name in ("code", "hint"))
        details = said.get("details", ())
        error = ModelyardError(str(said.get("message")), code=code, hint=hint, details=details)
        error.exit_code, error.kind = int(said.get("exit_code", 1)), str(said.get("error"))
        return error


class InternalError(ModelyardError):
    """A bug of ours."""


class UsageError(ModelyardError):
    """Flags, a file that isn't there, samples that don't fit, an output in the way."""

    exit_code = 2
    kind = code = "usage"


class ModelError(ModelyardError):
    """This model can't be read or converted."""

    exit_code = 3
    kind = code = "model"


class UnsupportedError(ModelError):
    """The model holds what a target can't take.

    Args:
        message: What was done, to what.
        items: All that the target can't take; they are the error's details.
        code: The kind of error that the terminal prints; empty for ``unsupported``.
        hint: What to do next.
    """

    kind = code = "unsupported"

    def __init__(
        self, message: str, items: Sequence[Unsupported], *, code: str = "", hint: str = ""
    ) -> None:
        super().__init__(message, code=code, hint=hint, details=items)
        self.items = tuple(items)


class GateError(ModelyardError):
    """A gate on accuracy or latency was missed."""

    exit_code = 4
    kind = "gate"
    code = "gate-missed"


class PartlyError(GateError):
    """Artifacts missed a gate, and the others were given (``--keep-going``).

    Args:
        message: What missed a gate.
        report: The report of all artifacts.
        hint: What to do next.
        details: What was not converted and which gates were missed, printed one a line.

    Attributes:
        report: The report of all of them.
        converted: What :func:`converter.api.convert` would have given.
    """

    def __init__(
        self, message: str, *, report: Any, hint: str = "", details: Sequence[object] = ()
    ) -> None:
        super().__init__(message, hint=hint, details=details)
        self.report = report
        self.converted: Any = None


class DependencyError(ModelyardError):
    """A package or device is missing; ``hint`` holds the line that installs it."""

    exit_code = 5
    kind = code = "dependency"


class MachineError(ModelyardError):
    """The machine gave out: disk, memory, a child killed."""

    exit_code = 6
    kind = code = "machine"


_OUT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_GAVE_OUT = {errno.EIO, errno.EMFILE, errno.ENFILE, errno.EAGAIN}
_NO_PLACE = "No usable temporary directory"  # tempfile's words, where every folder is full
_CUT_SHORT = re.compile(r"\d+ requested and \d+ written")  # numpy's, which forgets the number


def from_os_error(error: OSError, doing: str) -> ModelyardError:
    """The error a user should see for ``error``, met while ``doing`` something.

    Disks that are full or broken, quota and file-size limits, memory, processes and open files
    are the machine's (6); a file that can't be found, read or written is usage (2).
    """
    what = error.strerror or str(error) or type(error).__name__
    where = f" ({error.filename})" if error.filename else ""
    full = error.errno in _OUT_OF_SPACE or what.startswith(_NO_PLACE)
    if full or _CUT_SHORT.fullmatch(what):
        return MachineError(
            f"{doing}: {what}{where}",
            code="write-failed",
            hint="Free some space, or raise the file-size limit (ulimit -f), and run it again.",
        )
    if error.errno == errno.ENOMEM:
        return MachineError(f"{doing}: out of memory{where}", code="out-of-memory")
    if error.errno in _GAVE_OUT:
        return MachineError(f"{doing}: {what}{where}", code="machine")
    code = "file-not-found" if error.errno == errno.ENOENT else "file-access"
    return UsageError(f"{doing}: {what}{where}", code=code)


class BudgetError(GateError):
    """No set of layers in float32 meets a budget."""
