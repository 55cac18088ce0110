"""The commands ``modelyard``, ``mmconvert`` and ``mmdownload``; ``python -m modelyard``."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from importlib import import_module

from modelyard.own import claim


def main() -> None:
    """The command ``modelyard``."""
    _run("converter.cli")


def mmconvert() -> None:
    """The command ``mmconvert``."""
    _run("converter.cli.mmconvert")


def mmdownload() -> None:
    """The command ``mmdownload``."""
    _run("converter.cli.mmdownload")


def _run(module: str) -> None:
    """Runs the ``main`` of a module of ours; what is in its way is one line and exit code 5."""
    _open_streams()
    # a graph is many objects that stay: to look through all of them takes a third of a second
    gc.set_threshold(*gc.get_threshold()[:2], 50)
    atexit.register(gc.freeze)  # the last to be called: what is there goes as it is
    try:
        claim()
    except ImportError as error:
        sys.exit(_refused(error))
    import_module("converter.runtime.supervised").supervised(
        lambda: import_module(module).main(),
        lambda out: import_module("converter.pipeline.staging").Staging(out).clear(),
        lambda error: import_module("converter.cli.errors").end_with(error),
    )


def _open_streams() -> None:
    """Gives streams that were closed (``>&-``) their numbers back: the next file would get those,
    and what libraries print would go into it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        with suppress(OSError):
            os.fstat(number)
            continue
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free
        stream = open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)


def _refused(error: ImportError) -> int:
    print(f"error[dependency]: {error}", file=sys.stderr)
    return 5


if __name__ == "__main__":
    if not sys.flags.safe_path:  # python -m: the folder comes first, and its files aren't meant
        del sys.path[0]
    main()
