"""Where a server is asked, and how: what ``--server`` says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from converter.errors import UsageError

PROTOCOLS = ("v2", "v2-json", "grpc", "json")
"""Open Inference Protocol over HTTP with binary tensors, with JSON, over gRPC; plain JSON."""

_PORTS = {"http": 80, "https": 443, "grpc": 8001, "grpcs": 8001}
_MODEL = re.compile(r"/v2/models/([^/]+)(/infer)?")


@dataclass(frozen=True)
class Address:
    """A model on a server.

    Attributes:
        protocol: Of :data:`PROTOCOLS`; ``""`` where the server has to be asked which V2 it has.
        host, port, secure: Where; with TLS.
        model: Its name; of ``json``, the path. Empty where it isn't known yet.
    """

    protocol: str
    host: str
    port: int
    secure: bool
    model: str

    @property
    def place(self) -> str:
        """``127.0.0.1:8000``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(url: str, protocol: str | None = None) -> Address:
    """Reads an address.

    Args:
        url: ``http://HOST:PORT``, ``http://HOST:PORT/v2/models/NAME``, ``grpc://HOST:PORT/NAME``,
            or for plain JSON the URL that requests are posted to.
        protocol: What the user says that it speaks, where the URL doesn't.

    Raises:
        UsageError: It is no such address.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise UsageError(
            f"--server {url}: that isn't the address of a server",
            code="option-value",
            hint="Write http://HOST:PORT or grpc://HOST:PORT/MODEL. For plain JSON, write "
            "http://HOST:PORT/PATH.",
        )
    secure, path = parts.scheme.endswith("s"), parts.path.rstrip("/")
    if parts.scheme.startswith("grpc"):
        protocol, model = "grpc", unquote(path.lstrip("/"))
    elif named := _MODEL.fullmatch(path):
        protocol, model = protocol or "", unquote(named[1])
    else:
        protocol, model = protocol or ("json" if path else ""), path
    return Address(protocol, parts.hostname, port or _PORTS[parts.scheme], secure, model)
