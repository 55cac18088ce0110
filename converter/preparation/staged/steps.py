"""Functions of the user's that prepare files and make answers."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from converter.preparation.staged.base import Known, MissingPackage, StageError


class Steps:
    """Calls functions of the user's in this process.

    Args:
        folder: Where their files lie, whose text a declaration doesn't hold.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._functions: dict[str, Any] = {}

    def __call__(self, known: Known, *given: Any) -> dict[str, Any]:
        """What a function makes of what it is given.

        Raises:
            StageError: It refuses a file (its own ``ValueError``), or fails; with the line.
            MissingPackage: Its file imports what isn't installed.
        """
        function = self.load(known)
        try:
            made = function(*given)
        except ValueError as error:
            raise StageError(f"{known['step']}{_line_of(error, known)}: {error}") from error
        except ImportError as error:
            raise _missing(known, error) from error
        except (Exception, SystemExit) as error:
            raise _failed(known["step"], error, known) from error
        if not isinstance(made, Mapping):
            told = f"{known['step']} gives a {type(made).__name__}, and is to give a dict"
            raise StageError(told, "", 500)
        return dict(made)

    def load(self, known: Known) -> Any:
        """A function, found in its file.

        Raises:
            StageError: There is none, or its file fails.
            MissingPackage: Its file imports what isn't installed.
        """
        if known["step"] not in self._functions:
            self._functions[known["step"]] = _function_of(known, self._folder)
        return self._functions[known["step"]]

    def close(self) -> None:
        """Ends what they run in: nothing here."""


def _function_of(known: Known, folder: Path) -> Any:
    """A user's function, by its file's text, or by the file in a folder."""
    file, _, name = known["step"].rpartition(":")
    code = known.get("code") or (folder / file).read_text("utf-8")
    module = ModuleType(f"step_{Path(file).stem}")
    sys.modules[module.__name__] = module
    try:
        exec(compile(code, file, "exec"), module.__dict__)
    except ImportError as error:
        raise _missing(known, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(file, error, known) from error
    if not callable(getattr(module, name, None)):
        raise StageError(f"{file} has no function {name}", "", 500)
    return getattr(module, name)


def _missing(known: Known, error: ImportError) -> MissingPackage:
    file = known["step"].rpartition(":")[0]
    return MissingPackage(f"{file} needs the package {error.name}", name=error.name or file)


def _failed(what: str, error: BaseException, known: Known) -> StageError:
    told = f"{what} failed{_line_of(error, known)}: {type(error).__name__}: {error}"
    return StageError(told, "", 500)


def _line_of(error: BaseException, known: Known) -> str:
    """The last line of the user's file that an error went through; of a file that is no Python the
    line that isn't."""
    file = known["step"].rpartition(":")[0]
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    if isinstance(error, SyntaxError) and error.filename == file:
        lines.append(error.lineno)
    return f" ({file}, line {lines[-1]})" if lines else ""
