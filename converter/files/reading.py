"""What libraries raise on a user's file becomes an error of the user's: here, and nowhere else.

Only what reads the user's bytes is inside :func:`reading`. What goes wrong in our own code there is
a bug of ours all the same, and is let through: a name that isn't there, a check that failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from converter import plugins
from converter.errors import MachineError, ModelError, ModelyardError, from_os_error
from converter.text.words import one_line

AGAIN = "If it was downloaded or copied, do that again; else write it again where it was made."
_OURS = Path(__file__).resolve().parents[2]
_PACKAGES = ("converter", "emitters", "modelyard", "parsers", "recipes", "zoo")
_BUGS = (AttributeError, NameError, AssertionError, NotImplementedError, TypeError)
"""What is a bug where our own lines raise it; in a library, a file it can't make sense of."""
_LINES, _LENGTH = 3, 300


@contextmanager
def reading(
    what: str, kind: type[ModelyardError] = ModelError, hint: str = AGAIN
) -> Iterator[None]:
    """Turns what libraries raise inside on a user's file into one error that names it.

    Args:
        what: The file, for messages.
        kind: What it is to the user: ModelError of models, UsageError of samples and recipes.
        hint: What to do about it.

    Raises:
        ModelyardError: Of that kind; of the machine's where memory or disk gave out.
    """
    code = "model-damaged" if issubclass(kind, ModelError) else "file-unreadable"
    try:
        yield
    except (ModelyardError, ImportError):  # a package that is missing or damaged has its own words
        raise
    except MemoryError as error:
        raise MachineError(
            f"reading {what}: the machine ran out of memory", code="out-of-memory"
        ) from error
    except RecursionError as error:
        raise kind(f"{what} is nested too deeply to be read", code=code, hint=hint) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:  # h5py's own have none
            raise from_os_error(error, f"reading {what}") from error
        if isinstance(error, _BUGS) and _raised_by_us(error):
            raise
        raise kind(f"{what} can't be read: {said(error)}", code=code, hint=hint) from error


def said(error: BaseException) -> str:
    """What a library says is wrong, in a few lines: what came first, and where it says it was."""
    causes = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    told = [_short(cause) for cause in (causes[-1], *causes[-2:0:-1])]
    return "; in: ".join(dict.fromkeys(text for text in told[:_LINES] if text))


def _short(error: BaseException) -> str:
    text = shortened(str(error)) or type(error).__name__
    return f"{type(error).__name__}: {text}" if isinstance(error, LookupError) else text


def shortened(text: str) -> str:
    """The first lines of what a library says, as one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    joined = one_line(" ".join(lines[:_LINES]))
    return joined if len(joined) <= _LENGTH else f"{joined[:_LENGTH]}..."


def _raised_by_us(error: BaseException) -> bool:
    """Whether the innermost line of Python that it came from is ours, or a plug-in's."""
    place: TracebackType | None = error.__traceback__
    file = ""
    while place is not None:
        file, place = place.tb_frame.f_code.co_filename, place.tb_next
    path = Path(file)
    if path.is_relative_to(_OURS) and path.relative_to(_OURS).parts[0] in _PACKAGES:
        return True
    return any(path.is_relative_to(place) for place in plugins.places())
