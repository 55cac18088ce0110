"""What is known of the source format mar without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec

MANIFEST = "MAR-INF/MANIFEST.json"

SPECS = {
    "mar": ParserSpec(
        marks=Marks(
            suffixes=(".mar",),
            archives=((rf"^{MANIFEST}$", "a model archive of TorchServe (.mar)"),),
        ),
    )
}
