"""The JSON schema of catalogue.yaml: ``python -m zoo.schema docs`` writes it into ``docs``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from zoo.catalogue import Entries

NAME = "catalogue.schema.json"
"""Its file's name."""


def schema_text() -> str:
    """JSON Schema, draft 2020-12, of the catalogue as it is written in YAML."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Catalogue"}
    return json.dumps(dialect | Entries.json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1], NAME).write_text(schema_text(), encoding="utf-8")
