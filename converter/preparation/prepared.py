"""Users' files as arrays: what :mod:`converter.preparation.stages` does, with the tool's errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import DependencyError, UsageError
from converter.preparation import stages

Array = np.ndarray[Any, Any]


@contextmanager
def told() -> Iterator[None]:
    """Errors of stages as the tool's own.

    Raises:
        UsageError: A file can't be prepared.
        DependencyError: What reads it isn't installed.
    """
    try:
        yield
    except stages.StageError as error:
        raise UsageError(str(error), hint=error.hint) from error
    except stages.MissingPackage as error:
        raise DependencyError(str(error), hint=f"pip install {error.name}") from error


def picture_array(
    known: Mapping[str, Any], file: Path, name: str, table: Array
) -> tuple[Array, stages.Seen]:
    """One picture as an input, without a batch, and where its pixels came from; see
    :func:`stages.read_picture`.

    Raises:
        UsageError: It can't be read, or doesn't come to its size.
    """
    with told():
        return stages.read_picture(known, file, name, table)
