"""What is known of the source format onnx without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec
from parsers.unread_formats import UNREAD

SPECS = {
    "onnx": ParserSpec(
        refused=UNREAD,
        options=("random_as_input",),
        marks=Marks(suffixes=(".onnx",), live="an onnx.ModelProto"),
    )
}
