"""Core ML: an ``.mlpackage`` or ``.mlmodel`` becomes a Model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from converter.coreml_file import is_package

if TYPE_CHECKING:
    from converter.ir import Model


class CoremlParser:
    """The plug-in."""

    name = "coreml"
    extra = "coreml"

    def sniff(self, source: str) -> bool:
        """A package, or a file that is called ``.mlmodel``."""
        path = Path(source)
        return is_package(path) or path.suffix.lower() in (".mlmodel", ".mlpackage")

    def read(self, path: Path) -> Model:
        """A package's Model, with its own names.

        Raises:
            UsageError: It isn't there or can't be read.
            ModelError: It is damaged, or of a kind that isn't read.
        """
        from parsers.coreml_import.importer import read

        return read(path)
