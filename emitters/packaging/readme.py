"""A package's README.md."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from converter.text.markup import shown
from emitters.packaging.facts import Wire
from emitters.templates import render

_CURL_VALUES = 32  # as many as still fit into a line for a shell


@dataclass(frozen=True)
class Readme:
    """What only the server knows, in Markdown: a sentence and a block of commands each.

    Attributes:
        install, start, load, unload, scale, tls: How that is done; empty where it can't be.
        files: What its own files are, by name: ``("model.py", "the handler")``.
        notes: Lines on what was decided.
        ask: How users' files are sent; empty where the server prepares none.
    """

    install: str = ""
    start: str = ""
    load: str = ""
    unload: str = ""
    scale: str = ""
    tls: str = ""
    files: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = field(default_factory=list)
    ask: str = ""

    def sections(self) -> list[tuple[str, Markup]]:
        """Title and text of those that there are, whose lines stay lines."""
        titled = [
            ("Install", self.install),
            ("Start", self.start),
            ("Send it files", self.ask),
            ("Load", self.load),
            ("Unload", self.unload),
            ("Scale", self.scale),
            ("TLS", self.tls),
        ]
        return [(title, Markup(text.strip())) for title, text in titled if text]


def write_readme(
    folder: Path, facts: Mapping[str, Any], readme: Readme, values: Mapping[str, Any]
) -> None:
    """Writes ``README.md`` into a package.

    Args:
        folder: The package's.
        facts: What ``modelyard.json`` says.
        readme: The server's own.
        values: What the template has besides.
    """
    rows = [
        (kind, item["name"].replace("|", "\\|"), item["dtype"], _shape(item["shape"]))
        for kind, items in (("input", facts["inputs"]), ("output", facts["outputs"]))
        for item in items
    ]
    text = render(
        "emitters.packaging",
        "readme.md.j2",
        {**values, "facts": facts, "readme": readme, "rows": rows},
        finalize=shown,
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _shape(shape: Sequence[Any]) -> str:
    """Free dimensions by their names, where these are words."""
    dims = (str(dim) if re.fullmatch(r"\w+", str(dim)) else "any" for dim in shape)
    return "[" + ", ".join(dims) + "]"


def curl(wire: Wire, inputs: Sequence[Mapping[str, Any]], sample: Mapping[str, Any] | None) -> str:
    """A request by hand: the first sample where its bytes are a whole request, else zeros where
    they fit into a line.

    Args:
        wire: How the server is asked.
        inputs: As they are served: ``name``, ``dtype``, ``shape``.
        sample: The first sample's files; None without samples.

    Returns:
        The command; empty where the zeros would be too many.
    """
    address = f"{wire.url}{wire.path}"
    sizes = [[1 if isinstance(n, str) or n < 0 else n for n in item["shape"]] for item in inputs]
    if wire.kind == "v2-binary" and sample and len(inputs) == 1:
        (file,) = (item["file"] for item in sample["feeds"].values())
        return (
            "curl --fail -H 'Inference-Header-Content-Length: 0' "
            f"-H 'Content-Type: application/octet-stream' --data-binary @{file} {address}"
        )
    if sum(_product(size) for size in sizes) > _CURL_VALUES:
        return ""
    if wire.kind == "json":
        zeros: Any = {i["name"]: _zeros(i, s) for i, s in zip(inputs, sizes, strict=True)}
        body: Any = {wire.inputs: zeros} if wire.inputs else zeros
    else:
        body = {"inputs": [_v2(i, s) for i, s in zip(inputs, sizes, strict=True)]}
    data = json.dumps(body).replace("'", "'\\''")
    return f"curl --fail -H 'Content-Type: application/json' -d '{data}' {address}"


def _v2(item: Mapping[str, Any], size: Sequence[int]) -> dict[str, Any]:
    from emitters.packaging.script.over_http import V2_TYPES

    values = [_zero(item["dtype"])] * _product(size)
    kind = V2_TYPES[item["dtype"]]
    return {"name": item["name"], "shape": list(size), "datatype": kind, "data": values}


def _zeros(item: Mapping[str, Any], size: Sequence[int]) -> Any:
    if not size:
        return _zero(item["dtype"])
    return [_zeros(item, size[1:]) for _ in range(size[0])]


def _zero(dtype: str) -> object:
    if dtype == "bool":
        return False
    if dtype == "string":
        return ""
    return 0.0 if "float" in dtype else 0


def _product(size: Sequence[int]) -> int:
    total = 1
    for dim in size:
        total *= dim
    return total
