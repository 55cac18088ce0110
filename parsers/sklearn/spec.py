"""What is known of the source format sklearn without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec
from parsers.sklearn.framework import SKLEARN

SPECS = {
    "sklearn": ParserSpec(
        framework=SKLEARN,
        extra=SKLEARN.extra,
        marks=Marks(
            suffixes=(".skops", ".joblib", ".pkl"),
            archives=((r"^schema\.json$", "a model of scikit-learn (.skops)"),),
        ),
    )
}
