"""Names on Hugging Face's hub, where a file's or a folder's is expected."""

from __future__ import annotations

import re

_HUB = re.compile(r"(?:hf://|https?://[^/]*/)?((?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*)/?")
_FILE = re.compile(r"\.(?!\d)\w{1,10}$")


def hint_for(source: str) -> str | None:
    """How to fetch a source that may be such a name; None where it can't be one."""
    name = _HUB.fullmatch(source)
    if name is None or _FILE.search(source) or source.startswith("."):
        return None
    folder = name[1].rpartition("/")[2]
    return (
        f"If it is a name on Hugging Face's hub: hf download {name[1]} --local-dir {folder} "
        f"(hf comes with: pip install huggingface_hub); then modelyard convert {folder}."
    )
