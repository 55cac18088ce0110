"""HTTP/1.1 as far as requests to a model need it: a connection that is kept, few cycles a request.

A load generator has to cost little beside what it measures, so a request is made of bytes once, and
of an answer only the status and the length are read (RFC 9112, sections 4, 6.3 and 7.1).
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass

TIMEOUT_S = 60.0
_PIECE = 1 << 18
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:\s*chunked", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection:\s*close", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """What came back: the status, the lines before the body, and the body."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str:
        """A header's value; empty without it."""
        pattern = rb"\r\n" + re.escape(name.encode()) + rb":[ \t]*([^\r]*)"
        found = re.search(pattern, self.head, re.IGNORECASE)
        return found[1].decode("latin-1").strip() if found else ""


def message(
    method: str, place: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> bytes:
    """A request as it goes over the wire.

    Args:
        method: ``GET``, ``POST``...
        place: ``HOST:PORT``, for the header ``Host``.
        path: With the query.
        body: The body, whose length is declared.
        headers: Further headers, in Latin-1.
    """
    lines = [f"{method} {path} HTTP/1.1", f"Host: {place}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class Connection:
    """One connection to a server; opened at the first request, and again where it was closed.

    Args:
        host: A name or an address.
        port: TCP.
        secure: Whether it speaks TLS.
    """

    def __init__(self, host: str, port: int, *, secure: bool) -> None:
        self._host, self._port, self._secure = host, port, secure
        self._socket: socket.socket | None = None

    def ask(self, request: bytes) -> Answer:
        """Sends a request and reads its answer.

        A connection that was kept and that the server has closed meanwhile is opened once more.

        Raises:
            OSError: There is no connection, or it broke.
        """
        kept = self._socket is not None
        try:
            return self._ask(request)
        except (ConnectionError, EOFError):
            self.close()
            if not kept:
                raise
            return self._ask(request)

    def close(self) -> None:
        """Ends the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(self, request: bytes) -> Answer:
        if self._socket is None:
            self._socket = self._opened()
        try:
            self._socket.sendall(request)
            answer = self._read(self._socket)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            self.close()
            raise TimeoutError(f"no answer in {TIMEOUT_S:g} s") from error
        except BaseException:  # Ctrl-C too
            self.close()  # what is left of this answer would be the next one's
            raise
        if _CLOSES.search(answer.head):
            self.close()
        return answer

    def _opened(self) -> socket.socket:
        made = socket.create_connection((self._host, self._port), TIMEOUT_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The kernel's own timeout: Python's costs a poll() before each of the other calls.
        made.settimeout(None)
        for way in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):  # a struct timeval: socket(7)
            seconds = struct.pack("ll", int(TIMEOUT_S), round(TIMEOUT_S % 1 * 1e6))
            made.setsockopt(socket.SOL_SOCKET, way, seconds)
        if not self._secure:
            return made
        return ssl.create_default_context().wrap_socket(made, server_hostname=self._host)

    def _read(self, stream: socket.socket) -> Answer:
        data = bytearray()
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += _piece(stream)
        head, rest = bytes(data[: end + 2]), data[end + 4 :]
        status = int(head[9:12])
        if length := _LENGTH.search(head):
            return Answer(status, head, _exactly(stream, rest, int(length[1])))
        if _CHUNKED.search(head):
            return Answer(status, head, _chunks(stream, rest))
        return Answer(status, head, b"")


def _exactly(stream: socket.socket, data: bytearray, count: int) -> bytes:
    while len(data) < count:
        data += _piece(stream)
    return bytes(data)


def _chunks(stream: socket.socket, data: bytearray) -> bytes:
    body = b""
    while True:
        while (end := data.find(b"\r\n")) < 0:
            data += _piece(stream)
        size = int(data[:end].split(b";")[0], 16)
        data = bytearray(_exactly(stream, data[end + 2 :], size + 2))
        body += data[:size]
        data = data[size + 2 :]
        if size == 0:
            return bytes(body)


def _piece(stream: socket.socket) -> bytes:
    piece = stream.recv(_PIECE)
    if not piece:
        raise ConnectionResetError("the server closed the connection")
    return piece
