"""Writes around a flow what its package has: users' files and what the sources say of them, facts,
``selftest.py``, a client, a README."""

from __future__ import annotations

import json
import mimetypes
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from converter.check.shipping import LARGEST
from converter.protocols.flow import Example, JoinedFlow
from converter.text.markup import shown
from emitters.packaging.facts import Wire
from emitters.packaging.package import UNCHECKED
from emitters.packaging.readme import Readme
from emitters.packaging.script.stored import FACTS
from emitters.packaging.selftest import NAME, selftest
from emitters.templates import render

CLIENT = "client_requests.py"


def example_files(examples: Sequence[Example]) -> Iterator[tuple[Example, str]]:
    """Those that go along, each with its file in the package: the first, and as many others as
    aren't too large together."""
    left = LARGEST
    for number, example in enumerate(examples):
        left -= example.path.stat().st_size if number else 0
        if left >= 0:
            yield example, f"examples/{number}{example.path.suffix.lower()}"


@dataclass(frozen=True)
class FlowPackage:
    """A package whose models and configuration lie in their folder already.

    Attributes:
        flow: The flow.
        server: What runs it.
        title: What it is, for the README.
        runs: How it is asked about files.
        requires: What has to be installed, as pip takes it.
        start: As :class:`emitters.packaging.package.Package` has it.
        readme: The server's own part; None where it writes a README itself.
    """

    flow: JoinedFlow
    server: str
    title: str
    runs: Wire
    requires: Sequence[str]
    start: Sequence[str]
    readme: Readme | None = None

    def write(self, folder: Path) -> None:
        """Writes it into ``folder``.

        Raises:
            OSError: The folder can't be written.
        """
        placed = [self._placed(folder, *one) for one in example_files(self.flow.examples)]
        facts = {
            "format": 1,
            "tool": f"modelyard {version('modelyard')}",
            "model": self.flow.name,
            "server": self.server,
            "flow": list(self.flow.steps),
            "requires": list(self.requires),
            "start": list(self.start),
            "wire": asdict(self.runs),
            "gates": {"flow": self.flow.limit},
            "reference": self.flow.reference,
            "files": placed,
            "uncompared": _uncompared(placed),
        }
        text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
        (folder / FACTS).write_text(text, encoding="utf-8")
        (folder / NAME).write_text(selftest("over_files", listed=False), encoding="utf-8")
        values = {"facts": facts, "readme": self.readme, "title": self.title, "wire": self.runs}
        written = {CLIENT: "client_files.py.j2"}
        written |= {"README.md": "flow.md.j2"} if self.readme else {}
        for name, template in written.items():
            text = render(str(__package__), template, values, finalize=shown)
            (folder / name).write_text(text, encoding="utf-8")

    def _placed(self, folder: Path, example: Example, file: str) -> dict[str, Any]:
        place = folder / file
        place.parent.mkdir(exist_ok=True)
        shutil.copyfile(example.path, place)
        expected = ""
        if example.answer is not None:
            expected = f"expected/{place.stem}.json"
            (folder / expected).parent.mkdir(exist_ok=True)
            text = json.dumps(example.answer, indent=1, ensure_ascii=False) + "\n"
            (folder / expected).write_text(text, encoding="utf-8")
        kind = mimetypes.guess_type(place.name)[0] or "application/octet-stream"
        return {"file": file, "type": kind, "name": example.name, "expected": expected}


def _uncompared(placed: Sequence[dict[str, Any]]) -> str:
    """Why nothing can be compared; empty where something can."""
    if not placed:
        return "the first part has no files as samples"
    return "" if any(item["expected"] for item in placed) else UNCHECKED
