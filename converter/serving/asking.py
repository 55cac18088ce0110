"""Small questions to servers that start."""

from __future__ import annotations

import urllib.request
from contextlib import suppress
from http.client import HTTPException


def answers(url: str) -> bool:
    """Whether a GET is answered by 200."""
    with suppress(OSError, HTTPException), urllib.request.urlopen(url, timeout=5) as page:
        return bool(page.status == 200)
    return False
