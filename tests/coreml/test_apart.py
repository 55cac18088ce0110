"""Who writes a package doesn't vouch for it: writer and reader have no code in common."""

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


def test_they_share_only_what_knows_no_operation() -> None:
    """The package's layout and coremltools' protobufs; errors, shapes and graphs as anywhere."""
    writer, reader = set(_imported("emitters/coreml")), set(_imported("parsers/coreml_import"))
    assert not [name for name in writer if name.startswith("parsers")]
    assert not [name for name in reader if name.startswith("emitters")]
    both = writer & reader
    assert "converter.coreml_file" in both
    assert not [name for name in both if name.startswith(("emitters", "parsers"))]
