"""How an error reaches the user: one clear message on stderr and an exit code, no traceback."""

from __future__ import annotations

import json
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from converter.errors import InternalError, MachineError, ModelyardError, from_os_error


@contextmanager
def reporting() -> Iterator[None]:
    """Ends the process with the exit code that belongs to whatever is raised inside."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except Exception as error:  # the last one: everything else is a bug of ours
        _show(_known(error), error)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _known(error: Exception) -> ModelyardError:
    if isinstance(error, ModelyardError):
        return error
    if isinstance(error, MemoryError):
        return MachineError("the machine ran out of memory", hint="Use fewer or smaller samples.")
    if isinstance(error, OSError):
        return from_os_error(error, "working")
    return InternalError(
        f"a bug in modelyard: {type(error).__name__}: {error}",
        hint=f"Please report it, with {_keep_log(error)}",
    )


def _keep_log(error: Exception) -> Path:
    from converter.cache import cache_root

    folder = cache_root() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / time.strftime("%Y%m%d-%H%M%S.log")
    log.write_text("".join(traceback.format_exception(error)))
    return log


def debugging() -> bool:
    """Whether ``--debug`` was given, to whatever command."""
    return "--debug" in sys.argv


def _show(known: ModelyardError, error: Exception) -> None:
    if debugging():
        traceback.print_exception(error)
    if "--json" in sys.argv:
        click.echo(json.dumps(known.as_dict(), indent=2))
    lines = [known.message]
    lines += [f"  - {item}" for item in known.details]
    if known.hint:
        lines.append(known.hint)
    click.echo(click.style("error: ", fg="red", bold=True) + _harmless("\n".join(lines)), err=True)
    sys.exit(known.exit_code)


def _harmless(text: str) -> str:
    """``text`` without control characters: names in it come from files that nobody vouches for."""
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)
