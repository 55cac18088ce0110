"""How each TFLite operator is said in ONNX: a module a family, a function an operator."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Imports every module here, so that its lowerings are registered."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
