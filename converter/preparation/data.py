"""What all parts of a declaration are; see :mod:`converter.preparation.declared`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Data(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_serialization_defaults_required=True
    )


class Code(Data):
    """A function of the user's.

    Attributes:
        step: ``FILE.py:FUNCTION``.
        requires: What pip installs for it.
        code: The file's text; empty where the file lies beside what does it.
    """

    kind: Literal["step"] = "step"
    step: str = Field(pattern=r"\.py:\w+$")
    requires: tuple[str, ...] = ()
    code: str = ""
