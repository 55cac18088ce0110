"""TLS for servers: an end of ours that takes it off and passes on what is inside."""

from __future__ import annotations

import asyncio
import ssl
import threading
from contextlib import suppress
from pathlib import Path

from converter.errors import UsageError

_PIECE = 1 << 16


def context_of(certificate: Path, key: Path, protocols: list[str]) -> ssl.SSLContext:
    """A server's context for TLS.

    Args:
        certificate: The certificate, PEM, with those between it and a root.
        key: The certificate's private key, PEM.
        protocols: What ALPN offers: gRPC asks for ``h2``.

    Raises:
        UsageError: The files can't be read or don't go together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(protocols)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"--tls {certificate} {key}: {error}",
            code="file-access",
            hint="Give a certificate and its private key, both as PEM files.",
        ) from error
    return context


class SecureEnd:
    """Listens with TLS, and passes each connection on to a port of this machine.

    Args:
        host: The address that it listens on.
        port: The port that it listens on.
        context: Its certificate.
        inner: The port on 127.0.0.1 that it passes on to.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext, inner: int) -> None:
        self._inner = inner
        self._loop = asyncio.new_event_loop()
        listening = asyncio.start_server(self._serve, host, port, ssl=context)
        self._server = self._loop.run_until_complete(listening)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it, and the connections through it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inside = await asyncio.open_connection("127.0.0.1", self._inner)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass_on(reader, inside[1]), _pass_on(inside[0], writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):  # either side may go at any time
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    with suppress(OSError):
        writer.close()
