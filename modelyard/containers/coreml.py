"""Core ML's packages: what lies where in a folder, and the classes of the format's protobufs.

An ``.mlpackage`` is a folder: ``Manifest.json`` names its items by identifiers; the root model is
a protobuf (``Model.proto``), and beside it lies a folder of weights, which the model's constants
point into (``@model_path/weights/weight.bin`` and an offset). An ``.mlmodel`` is just the protobuf.

coremltools has the classes. It looks for a dozen frameworks when it is imported and loads each
that is there, seconds and gigabytes for nothing; here it is loaded without them.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import DependencyError, ModelError, from_os_error
from converter.plugins.extras import install_line

if TYPE_CHECKING:
    from collections.abc import Iterator

WEIGHTS = "@model_path/"
"""What a constant's file name begins with: the folder that the model's protobuf lies in."""

_LOOKED_FOR = ("torch", "tensorflow", "sklearn", "xgboost", "transformers", "scipy", "executorch")
_lock = threading.RLock()


def coremltools() -> Any:
    """The library, without the frameworks that it looks for, and silent.

    Raises:
        DependencyError: It isn't installed.
    """
    with _lock, _without_frameworks():
        os.environ.setdefault("TQDM_DISABLE", "1")
        logger = logging.getLogger("coremltools")
        logger.setLevel(logging.CRITICAL)  # its import warns of what only Apple's systems have
        try:
            import coremltools as library
        except ImportError as error:
            raise DependencyError(
                "Core ML needs coremltools", code="package-missing", hint=install_line("coreml")
            ) from error
        logger.setLevel(logging.CRITICAL)  # it sets its own level
        return library


@contextmanager
def _without_frameworks() -> Iterator[None]:
    """Has imports of frameworks that aren't loaded yet fail."""
    hidden = [name for name in _LOOKED_FOR if name not in sys.modules]
    if "coremltools" in sys.modules:
        hidden = []
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)


@dataclass(frozen=True)
class Package:
    """Where the parts of a model lie.

    Attributes:
        model: The protobuf.
        folder: What ``@model_path`` stands for in it; None for an ``.mlmodel``.
    """

    model: Path
    folder: Path | None


def is_package(path: Path) -> bool:
    """Whether it is a folder laid out as a package, by its manifest."""
    return path.is_dir() and (path / "Manifest.json").is_file() and (path / "Data").is_dir()


def find_parts(path: Path) -> Package:
    """The parts of a package, or of an ``.mlmodel``.

    Raises:
        UsageError: It isn't there or can't be read.
        ModelError: Its manifest is damaged, or names what isn't in it.
    """
    if not path.is_dir():
        return Package(path, None)
    manifest = path / "Manifest.json"
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        entry = content["itemInfoEntries"][content["rootModelIdentifier"]]
        relative = str(entry["path"])
    except OSError as error:
        raise from_os_error(error, f"reading {path.name}/{manifest.name}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{path.name} is damaged: its Manifest.json names no model "
            f"({type(error).__name__}: {error})",
            code="model-damaged",
            hint="Copy it again, as a whole folder.",
        ) from error
    data = (path / "Data").resolve()
    model = (data / relative).resolve()
    if not model.is_relative_to(data):
        raise ModelError(
            f"{path.name}: its manifest points outside of it, at {relative!r}", code="path-outside"
        )
    if not model.is_file():
        raise ModelError(
            f"{path.name} is incomplete: {relative} isn't in it",
            code="model-damaged",
            hint="Copy it again, as a whole folder.",
        )
    return Package(model, model.parent)
