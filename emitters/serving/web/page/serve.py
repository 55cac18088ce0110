"""Serves the folder of this file to browsers.

    python serve.py --port 8000

It sends the headers that make a page cross-origin isolated, which threads in WASM need, and shows
no list of files. Python 3.9 or newer, and nothing besides.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}


class Handler(SimpleHTTPRequestHandler):
    """Sends files."""

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, **TYPES}  # noqa: RUF012
    protocol_version = "HTTP/1.1"

    def end_headers(self) -> None:
        """Those of every response."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def list_directory(self, path: object) -> None:
        """No list of files."""
        self.send_error(404)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Only errors are logged."""


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description="Serves this folder to browsers.")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=8000, help="0 for a free one")
    asked = parser.parse_args()
    handler = partial(Handler, directory=str(Path(__file__).resolve().parent))
    with ThreadingHTTPServer((asked.host, asked.port), handler) as server:
        print(f"http://{asked.host}:{server.server_address[1]}/", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
