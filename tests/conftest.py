"""What every test needs."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Lets children be interrupted, where whoever started the tests ignores that: a shell does for
    what it runs in the background, and children inherit it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
