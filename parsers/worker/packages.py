"""The packages of the interpreter that runs the worker."""

from __future__ import annotations

import importlib
import sys
from importlib import metadata
from typing import Any, Optional

from .errors import WorkerError, missing_package


def installed(package: str) -> Optional[str]:
    """The version of an installed distribution, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def require(name: str, package: str, purpose: str) -> Any:
    """Import a package that this worker needs; raise dependency if it is not there.

    Args:
        name: The module.
        package: The distribution that has it.
        purpose: What it is needed for: "to read .h5 files".
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.partition(".")[0] != error.name.partition(".")[0]:
            package = error.name.partition(".")[0]
        raise missing_package(package, purpose) from error
    # Installed, yet broken: a native library is missing, or versions do not go together.
    except (ImportError, OSError) as error:
        raise WorkerError(
            "dependency",
            f"{package} is needed {purpose}, but importing it in {sys.executable} fails: "
            f"{type(error).__name__}: {error}",
            package=package,
            broken=True,
        ) from error
