"""Pages that run from top to bottom show what a reader sees: the tutorials, the guides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.running import ROOT, Reader, blocks_of

FOLDERS = ("tutorials", "guides", "coming-from", "reference")
PAGES = sorted(
    path.relative_to(ROOT / "docs").as_posix()
    for folder in FOLDERS
    for path in (ROOT / "docs" / folder).glob("*.md")
    if any(block.kind in ("console", "hidden") for block in blocks_of(path.read_text("utf-8")))
)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_it_says(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    with Reader(tmp_path) as reader:
        wrong = list(reader.follow(text))
    assert not wrong, "\n\n".join(map(str, wrong))


def test_no_page_leaves_an_output_out() -> None:
    assert [page for page in PAGES if "TODO" in (ROOT / "docs" / page).read_text("utf-8")] == []
