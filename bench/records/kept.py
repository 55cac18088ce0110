"""Results in build/records: a JSON line for each case; the last one of a name counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "records"
PAGES = ROOT / "docs" / "records"


class Kept:
    """The results of one record."""

    def __init__(self, record: str) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.path = FOLDER / f"{record}.jsonl"
        self.log = FOLDER / f"{record}.log"
        self.path.touch()

    def read(self) -> dict[str, dict[str, Any]]:
        """What is there, by name; of samples, what all runs say of their targets."""
        found: dict[str, dict[str, Any]] = {}
        for item in map(json.loads, self.path.read_text().splitlines()):
            before = found.get(item["name"], {}).get("samples", [])
            now = item.get("samples", [])
            if now and len(before) == len(now):
                item["samples"] = [{**a, **b} for a, b in zip(before, now, strict=True)]
            found[item["name"]] = item
        return found

    def add(self, found: dict[str, Any]) -> None:
        """Keeps one more."""
        with self.path.open("a") as file:
            file.write(json.dumps(found) + "\n")
