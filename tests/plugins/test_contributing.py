"""CONTRIBUTING's walk through a plug-in: its lines stand in the files that the tests install."""

import re
from pathlib import Path

TOY = Path(__file__).with_name("toy")
PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def test_its_snippets_are_in_the_files() -> None:
    found = re.findall(r"```\w+\n# (\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert {Path(name).stem for name, _ in found} >= {"pyproject", "parser", "merge", "target"}
    for name, snippet in found:
        rest = (TOY / name).read_text()
        for piece in snippet.split("...\n"):  # in order, each whole
            assert piece in rest, f"{name} has no such lines:\n{piece}"
            rest = rest.partition(piece)[2]
