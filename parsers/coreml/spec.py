"""What is known of the source format coreml without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec

SPECS = {
    "coreml": ParserSpec(
        options=("state_as_inputs", "signature"),
        extra="coreml",
        marks=Marks(suffixes=(".mlmodel",), folder="an .mlpackage"),
    )
}
