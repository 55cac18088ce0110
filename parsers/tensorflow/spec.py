"""What is known of the source format tensorflow without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec
from parsers.tensorflow.framework import TENSORFLOW

SPECS = {
    "tensorflow": ParserSpec(
        framework=TENSORFLOW,
        extra=TENSORFLOW.extra,
        marks=Marks(suffixes=(".pb", ".meta"), folder="a SavedModel (saved_model.pb)"),
    )
}
