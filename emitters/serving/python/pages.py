"""A page for each Python server, of its declarations.

    python -m emitters.serving.python.pages docs

What a page says of install, start, scale and TLS is what the README of every package says.
"""

from __future__ import annotations

import sys
from pathlib import Path

from converter import plugins
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from emitters.serving.python.served import RUNTIMES, Served
from emitters.serving.python.server import INSTALL, PythonServer
from emitters.serving.request import serving

FOLDER = "servers"

NAME = "NAME"
"""What a page calls the model."""

RUN = """`tests/serving/test_python_live.py`, on Linux x86-64 and Python 3.11, in an environment of
the lock's versions, with {model}: started by `modelyard serve`; answers under the gates
over {over}; the package's self-test and clients; 24 callers at once, of whom
some share a run of the model and three are wrong; a wrong name, type, shape, too large a batch, no
JSON, 70 MB of text, each refused with a reason, and a good request answered after it."""


def page(server: PythonServer) -> str:
    """The text of a server's page."""
    artifact = Artifact("onnx", "fp32", Path("model.onnx"))
    request = serving(Request(source=f"{NAME}.onnx", name=NAME))
    served = Served(NAME, artifact, (), (), 8, request, [])
    readme, wire = server.readme(served), server.wire(served)
    protocols = {"json": ["plain JSON"], "v2": ["V2 (HTTP)"]}[wire.kind]
    over = " and ".join([*protocols, *(["V2 (gRPC)"] if wire.grpc else [])])
    runtimes = (RUNTIMES[target] for target in server.accepts)
    needs = ", ".join(f"`{item}`" for item in dict.fromkeys((*server.requires, *runtimes)))
    ports = ", ".join(f"{number} ({name})" for name, number in server.ports.items())
    files = "\n".join(f"| `{name}` | {what} |" for name, what in readme.files)
    parts = [
        "Written by `python -m emitters.serving.python.pages docs`.\n"
        "What the Python servers have in common: [serving-python.md](../serving-python.md).",
        f"{needs} (one runtime of these); about {server.megabytes} MB to download.\n"
        f"Asked over {over}, a request at `{wire.path}`. Ports: {ports}.",
        f"| file | what it is |\n|---|---|\n{files}",
    ]
    run = RUN.format(over=over, model=server.seen)
    sections = [
        ("Install", INSTALL), ("Start", readme.start), ("Load", readme.load),
        ("Unload", readme.unload), ("Scale", readme.scale), ("Secure", readme.tls),
        ("What was run", f"{run}\n\nNot run: {server.unseen}."),
    ]  # fmt: skip
    parts += [f"## {title}\n{text.strip()}" for title, text in sections if text]
    return "\n\n".join((f"# {server.title}: `--serve {server.name}`", *parts)) + "\n"


def pages() -> dict[str, str]:
    """Each page by its file's name."""
    servers = (plugins.load("servers", name) for name in plugins.available("servers"))
    return {f"{s.name}.md": page(s) for s in servers if isinstance(s, PythonServer)}


def main(docs: str) -> None:
    """Writes them into the folder of pages."""
    folder = Path(docs) / FOLDER
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
