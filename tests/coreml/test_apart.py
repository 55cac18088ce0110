"""Who writes a package doesn't vouch for it: writer and reader have no code in common."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _imported(folder: str) -> Iterator[str]:
    for file in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
            elif isinstance(node, ast.Import):
                yield from (item.name for item in node.names)


def test_the_writer_imports_nothing_of_the_readers() -> None:
    assert not [name for name in _imported("emitters/coreml") if name.startswith("parsers")]


def test_the_reader_imports_nothing_of_the_writers() -> None:
    assert not [name for name in _imported("parsers/coreml_import") if name.startswith("emitters")]


def test_they_share_only_what_knows_no_operation() -> None:
    """The package's layout and coremltools' protobufs; errors, shapes and graphs as anywhere."""
    both = set(_imported("emitters/coreml")) & set(_imported("parsers/coreml_import"))
    assert "converter.coreml_file" in both
    assert not [name for name in both if name.startswith(("emitters", "parsers"))]
