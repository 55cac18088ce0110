"""Every promise of SECURITY.md names the tests that hold it, and they are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_promise_has_its_tests() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith(("- ", "| "))]
    promises = [line for line in lines if "---" not in line and not line.startswith("| source |")]
    assert len(promises) > 20 and [line for line in promises if not NAMED.search(line)] == []
    assert [f"{file}::{name}" for file, name in NAMED.findall(text) if name not in held(file)] == []


def held(file: str) -> set[str]:
    """The tests in a file."""
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
