"""Around a command that does something: a folder for its temporary files, and what libraries log.

The help does without, which is quicker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from converter.cli.errors import debugging
from converter.cli.printing import echo
from converter.files.temporary import own_folder


@contextmanager
def around() -> Iterator[None]:
    """Until the command ends."""
    logging.lastResort = _Logged()
    if debugging():
        logging.getLogger("modelyard").setLevel(logging.DEBUG)
    with own_folder():
        yield


class _Logged(logging.Handler):
    """What libraries log: theirs to debug with, with names as the file has them."""

    def emit(self, record: logging.LogRecord) -> None:
        if debugging():
            echo(record.getMessage(), err=True)
