"""Ports of this machine: whether they are free, and who listens where they aren't."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from converter.errors import UsageError
from converter.serving.observed import process_at

_TRIES = 100
_FREE = range(20_000, 32_000)
"""Below what systems give to outgoing connections: one of the server's own could take its port."""


def require_free(host: str, ports: Mapping[str, int], hint: str) -> None:
    """Refuses ports that can't be listened on now.

    Args:
        host: The address to listen on.
        ports: Numbers by what listens there.
        hint: What to do.

    Raises:
        UsageError: The first that can't be, and which process listens there, where that can be
            seen.
    """
    for name, number in ports.items():
        try:
            bound(host, number).close()
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"{host}:{number} ({name}) can't be listened on: {_why(error, host, number)}",
                hint=hint,
                code="port-in-use",
            ) from error


def free(host: str, count: int) -> int:
    """The first of ``count`` free ports in a row: clients and load tools expect them so."""
    for _ in range(_TRIES):
        first = random.choice(_FREE)
        with ExitStack() as held, suppress(OSError):
            for number in range(first, first + count):
                held.enter_context(bound(host, number))
            return first
    raise UsageError(
        f"{count} free ports in a row can't be listened on at {host}", code="port-in-use"
    )


def bound(host: str, port: int) -> socket.socket:
    """A socket at an address; raises OSError or OverflowError where none can be."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError):
        made.close()
        raise
    return made


def _why(error: Exception, host: str, port: int) -> str:
    if getattr(error, "errno", None) != errno.EADDRINUSE:
        return str(error)
    pid = process_at(host, port)
    if pid is None:
        return "another process listens there"
    with suppress(OSError):
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
        return f"{name} (process {pid}) listens there"
    return f"process {pid} listens there"
