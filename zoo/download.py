"""Fetches a file over HTTPS: whole, or not at all.

Plain http is taken from this machine itself only. What an address redirects to is held to the
same rule, and a token is sent to no other host than the one it is for.
"""

from __future__ import annotations

import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from converter.errors import DependencyError, MachineError
from converter.files.store import PIECE

TIMEOUT = 60.0
"""Seconds without a byte after which a connection is given up."""

_HERE = {"127.0.0.1", "localhost", "::1"}
_SPARE = 100_000_000
"""Bytes that have to stay free on the disk."""


def download(url: str, target: Path, headers: Mapping[str, str] | None = None) -> None:
    """Writes what ``url`` gives to ``target``.

    Args:
        url: ``https://...``; ``http://127.0.0.1...`` as well.
        target: A file in a folder that is there.
        headers: Sent to the address's own host, and nowhere it redirects to.

    Raises:
        DependencyError: It can't be had: no network, a status other than 200, a connection cut
            in the middle, an address that isn't secure.
        MachineError: It is larger than the disk has room for.
        OSError: It can't be written.
    """
    require_secure(url)
    request = urllib.request.Request(url, headers={"User-Agent": "modelyard", **(headers or {})})
    with _opened(request) as response, target.open("wb") as out:
        length = response.headers.get("Content-Length")
        if length and int(length) + _SPARE > shutil.disk_usage(target.parent).free:
            raise MachineError(
                f"{url} is {int(length) / 1e9:.1f} GB, more than the disk has room for",
                code="write-failed",
                hint="Free some space, and run it again.",
            )
        found = 0
        for piece in _pieces(url, response):
            out.write(piece)
            found += len(piece)
    if length and found != int(length):
        raise _cut(url, f"it ended after {found:,} of {int(length):,} bytes")


def require_secure(url: str, before: str | None = None) -> None:
    """Refuses an address that isn't https.

    Args:
        url: The address.
        before: The address that redirected to it.

    Raises:
        DependencyError: It is neither https nor, all the way, on this machine.
    """
    parts = urlsplit(url)
    here = parts.hostname in _HERE and (before is None or urlsplit(before).hostname in _HERE)
    if parts.scheme == "https" or (parts.scheme == "http" and here):
        return
    came = f" (redirected from {before})" if before else ""
    raise DependencyError(
        f"{url}{came} isn't a secure address, so nothing was fetched",
        code="download-failed",
        hint="An address has to start with https://",
    )


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to secure addresses, without the token where the host is another."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        require_secure(newurl, req.full_url)
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and _origin(newurl) != _origin(req.full_url):
            made.remove_header("Authorization")
        return made


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _opened(request: urllib.request.Request) -> HTTPResponse:
    handlers: list[urllib.request.BaseHandler] = [_Redirects()]
    if urlsplit(request.full_url).hostname in _HERE:
        handlers.append(urllib.request.ProxyHandler({}))
    opener = urllib.request.build_opener(*handlers)
    try:
        response: HTTPResponse = opener.open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        raise _refused(request.full_url, error) from error
    except (OSError, HTTPException, ValueError) as error:
        raise _unreachable(request.full_url, error) from error
    return response


def _pieces(url: str, response: HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            piece = response.read(PIECE)
        except (OSError, HTTPException) as error:
            raise _cut(url, str(error) or type(error).__name__) from error
        if not piece:
            return
        yield piece


def _refused(url: str, error: urllib.error.HTTPError) -> DependencyError:
    hints = {
        401: "It asks for a token: for Hugging Face, set HF_TOKEN.",
        403: "It doesn't give this to you: for Hugging Face, accept the model's terms on its "
        "page, and set HF_TOKEN.",
        404: "It is there no more, or never was.",
        410: "It is there no more.",
        429: "It was asked too often: wait a while.",
    }
    return DependencyError(
        f"{url} could not be fetched: HTTP {error.code} {error.reason}",
        code="download-failed",
        hint=hints.get(error.code, "Try again later."),
    )


def _unreachable(url: str, error: Exception) -> DependencyError:
    why = getattr(error, "reason", None) or error
    secure = isinstance(why, ssl.SSLError)
    return DependencyError(
        f"{url} could not be reached: {why}",
        code="download-failed",
        hint="This machine doesn't trust the server's certificate. SSL_CERT_FILE can name other "
        "certificates."
        if secure
        else "Check the network. If there is a proxy, name it in https_proxy.",
    )


def _cut(url: str, why: str) -> DependencyError:
    return DependencyError(
        f"the connection to {url} broke: {why}. Nothing was kept",
        code="download-failed",
        hint="Run it again.",
    )
