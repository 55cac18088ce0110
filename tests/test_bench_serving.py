"""The page of ``bench.serving``: its verdicts, and its part of docs/serving.md."""

from pathlib import Path

import pytest

from bench import serving
from bench.measure import write_section
from bench.serving import Seen, compared, median, page

ROWS = {"servers": [("a 1.0",) + ("x",) * 7], "hand": []}


def test_what_is_near_enough() -> None:
    theirs = Seen(100.0, 10.0, 20.0)
    assert compared(Seen(91.0, 10.9, 21.9), theirs, 0.10)[-1] == "yes"
    for other in (Seen(89.0, 10.0, 20.0), Seen(100.0, 8.9, 20.0), Seen(100.0, 10.0, float("nan"))):
        assert compared(other, theirs, 0.10)[-1] == "**no**"
    seen = [Seen(1, 9, 5, 0.1), Seen(2, 7, 6, 0.3), Seen(9, 8, 4)]
    assert median(seen) == Seen(2, 8, 5, 0.2)


@pytest.mark.parametrize("rest", ["", "## What was run\n\nthis\n"])
def test_its_part_takes_the_place_of_the_last(rest: str, tmp_path: Path) -> None:
    text, file = page(ROWS, 3, 2.0, 400.0), tmp_path / "serving.md"
    assert "in 7 minutes" in text and "| not measured |" in text
    assert "| 2 | x1.00 |" in page({"beside": [("2", "x1.00")]}, 3, 2.0, 400.0)
    file.write_text(f"# Serving\n\n{serving.HEAD}\n\nold\n" + (rest and f"\n{rest}"))
    for _ in range(2):
        write_section(file, serving.HEAD, text)
        made = f"# Serving\n\n{serving.HEAD}\n\n{text.strip()}\n" + (rest and f"\n{rest}")
        assert file.read_text() == made
