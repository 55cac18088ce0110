"""How an error reaches the user: one clear message on stderr and an exit code, no traceback."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from converter.cli.printing import echo, echo_json
from converter.errors import (
    InternalError,
    MachineError,
    ModelyardError,
    UsageError,
    from_os_error,
)
from converter.text.words import printable

_DETAILS = 200
"""Lines of details that are shown."""


@contextmanager
def reporting() -> Iterator[None]:
    """Ends the process with the exit code that belongs to whatever is raised inside."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks a sign is no reason to fail
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        echo("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        if "--json" in sys.argv:
            echo_json(UsageError(error.format_message(), code="command-line").as_dict())
        error.show(shown := io.StringIO())
        text = shown.getvalue().expandtabs().replace("Error: ", "error[command-line]: ", 1)
        echo(*text.splitlines(), err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except Exception as error:  # the last one: everything else is a bug of ours
        _show(known(error), error)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second one would cut what cleans up
    raise SystemExit(128 + number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # a terminal's and the one passed on are one
    raise KeyboardInterrupt


def known(error: Exception) -> ModelyardError:
    """The error that is shown for what was raised: of what nobody foresaw, a bug of ours."""
    if isinstance(error, ModelyardError):
        return error
    if isinstance(error, MemoryError):
        return MachineError(
            "the machine ran out of memory",
            code="out-of-memory",
            hint="Use fewer or smaller samples.",
        )
    if isinstance(error, OSError):
        return from_os_error(error, "working")
    from converter.plugins.extras import damaged

    if (found := damaged(error)) is not None:
        return found
    return InternalError(
        f"a bug in modelyard: {type(error).__name__}: {error}",
        hint=f"Please report it, with {_keep_log(error)}",
    )


def _keep_log(error: Exception) -> Path:
    import time

    from converter.files.cache_root import cache_root
    from converter.files.temporary import outside

    text, name = _traced(error), time.strftime("%Y%m%d-%H%M%S.log")
    for folder in (cache_root() / "logs", outside()):
        with suppress(OSError):  # a cache that can't be written to
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
            return folder / name
    return Path(name)


def debugging() -> bool:
    """Whether ``--debug`` was given, to whatever command."""
    return "--debug" in sys.argv


def plain() -> bool:
    """Whether the terminal is to show no colours (``NO_COLOR``: no-color.org)."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def _show(known: ModelyardError, error: Exception) -> NoReturn:
    if debugging():
        echo(*_traced(error).splitlines(), err=True)
    end_with(known)


def _traced(error: Exception) -> str:
    import traceback

    return "".join(traceback.format_exception(error))


def end_with(known: ModelyardError) -> NoReturn:
    """Shows an error, and ends the process with its exit code."""
    if "--json" in sys.argv:
        with suppress(OSError):  # a stdout that is full may be what it is about
            echo_json(known.as_dict())
    with suppress(OSError):
        say(known)
    sys.exit(known.exit_code)


def title(code: str) -> str:
    """How an error's line begins: ``error[file-not-found]: ``."""
    text = f"error[{code}]: "
    return text if plain() else click.style(text, fg="red", bold=True)


def say(known: ModelyardError) -> None:
    """An error on stderr: its message, its details a line each, its hint."""
    lines = [known.message.strip()]
    lines += [f"  - {item}" for item in known.details[:_DETAILS]]
    if (more := len(known.details) - _DETAILS) > 0:
        lines.append(f"  and {more:,} more, which --json has")
    if known.hint:
        lines += known.hint.split("\n")
    click.echo(title(known.code) + "\n".join(map(printable, lines)), err=True)
