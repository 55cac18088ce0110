"""report.json, byte for byte the same for the same report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from converter.errors import from_os_error
from converter.files.scrub import scrub
from converter.report.model import Report

Written = TypeVar("Written", bound=BaseModel)


def scrubbed(model: Written) -> Written:
    """``model`` without paths of this machine."""
    return type(model).model_validate(scrub(model.model_dump(mode="json")))


def as_json(model: BaseModel) -> str:
    """A model as JSON: fields in their order, two spaces, no NaN, a newline at the end."""
    plain = model.model_dump(mode="json")
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_report(path: Path) -> Report:
    """A report.json read back; raises pydantic's ValidationError where it isn't one."""
    return Report.model_validate_json(path.read_bytes())


def write_text(path: Path, text: str) -> Path:
    """Writes UTF-8 text; raises MachineError where the disk is full."""
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise from_os_error(error, f"writing {path.name}") from error
    return path
