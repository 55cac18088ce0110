"""README.md at the top of an output: what lies where."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from converter.report.json_ import scrubbed, write_text
from converter.report.model import Report
from converter.text.words import printable

NAME = "README.md"

_TEST = "selftest.py"


def write_readme(report: Report, folder: Path) -> Path:
    """Writes it into the output's folder, without paths of this machine.

    Raises:
        MachineError: The disk is full.
    """
    lines = _lines(scrubbed(report), folder)
    return write_text(folder / NAME, "".join(f"{printable(line)}\n" for line in lines))


def _lines(report: Report, folder: Path) -> Iterator[str]:
    yield f"# {report.title}"
    yield ""
    sources = [part.source for part in report.each_part.values() if not part.failed]
    made_of = ", ".join(f"{source.name} ({source.format})" for source in sources)
    yield f"Made by {report.tool} of {made_of}."
    yield ""
    yield "| what | where |"
    yield "|---|---|"
    yield "| how close each artifact is to its source | `report.html`, `report.json` |"
    yield "| every file with its sha256, and what made it | `manifest.json` |"
    for item in report.artifacts:
        if item.path:
            yield f"| {item.title} | `{item.path}` |"
    for package in report.packages:
        yield f"| {package.part} package for {package.server} | `{package.path}/` |".replace(
            "|  ", "| "
        )
        for made in package.deployments:
            yield f"| its deployment: {made.name} | `{made.path}/` |"
    if (folder / "steps").is_dir():
        yield "| the model between the steps | `steps/` |"
    tests = sorted(path.parent.relative_to(folder).as_posix() for path in folder.rglob(_TEST))
    if tests:
        yield ""
        yield "To run the model, take a package. Its README says how to start it and how to ask it."
        yield "One command compares its answers, where it runs, with the source's outputs:"
        yield "```"
        yield from (f"python {place}/{_TEST}" for place in tests)
        yield "```"
