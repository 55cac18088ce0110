"""Who writes a package doesn't vouch for it: writer and reader have no code in common."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("folder", "other"), [("emitters", "parsers"), ("parsers", "emitters")])
def test_they_share_only_what_knows_no_operation(folder: str, other: str) -> None:
    """The package's layout and coremltools' protobufs; errors, shapes and graphs as anywhere."""
    files = [path.read_text(encoding="utf-8") for path in (ROOT / folder / "coreml").rglob("*.py")]
    assert any("modelyard.containers.coreml" in text for text in files)
    assert not [t for t in files if re.search(rf"^\s*(from|import) {other}\b", t, re.MULTILINE)]
