"""The JSON schemas of manifest.json, report.json and comparisons.

``python -m converter.pipeline.schemas docs`` writes them into ``docs``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import BaseModel

from converter.pipeline.manifest import Manifest
from converter.report.compared import Compared
from converter.report.json_ import write_text
from converter.report.model import Report

SCHEMAS: dict[str, type[BaseModel]] = {
    "manifest.schema.json": Manifest,
    "report.schema.json": Report,
    "comparison.schema.json": Compared,
}
"""File name in ``docs/``, and what it is the schema of."""


def schema_text(name: str) -> str:
    """The text of a schema file: JSON Schema, draft 2020-12, of the file as it is written."""
    schema = SCHEMAS[name].model_json_schema(mode="serialization")
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(dialect | schema, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Writes all schemas into the folder named on the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for name in SCHEMAS:
        write_text(folder / name, schema_text(name))


if __name__ == "__main__":
    main()
