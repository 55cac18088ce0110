"""The commands ``modelyard``, ``mmconvert`` and ``mmdownload``; ``python -m modelyard``."""

from __future__ import annotations

import sys
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
    try:
        claim()
    except ImportError as error:
        sys.exit(_refused(error))
    import_module("converter.supervised").supervised(lambda: import_module(module).main())


def _refused(error: ImportError) -> int:
    print(f"error: {error}", file=sys.stderr)
    return 5


if __name__ == "__main__":
    if not sys.flags.safe_path:  # python -m: the folder comes first, and its files aren't meant
        del sys.path[0]
    main()
