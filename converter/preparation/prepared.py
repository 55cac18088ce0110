"""Users' files as arrays: what :mod:`converter.preparation.stages` does, with the tool's errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import DependencyError, UsageError
from converter.ir.model import TensorSpec
from converter.preparation.staged.base import MissingPackage, Run, Seen, StageError
from converter.preparation.staged.pictures import read_picture
from converter.preparation.stages import Stages

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
    except StageError as error:
        raise UsageError(str(error), code="file-not-prepared", hint=error.hint) from error
    except MissingPackage as error:
        raise DependencyError(
            str(error), code="package-missing", hint=f"pip install {error.name}"
        ) from error


def stages_of(declared: Mapping[str, Any], folder: Path = Path()) -> Stages:
    """What a declaration says, done; functions of the user's in a process of their own.

    Args:
        declared: What inputs are made of and what outputs mean.
        folder: Where a tokenizer's file lies.
    """
    if not any(item["kind"] == "step" for item in (*declared["prepare"], *declared["answer"])):
        return Stages(declared, folder)
    from converter.preparation.steps_apart import StepsApart  # of the few who have such

    return Stages(declared, folder, StepsApart())


def run_rows(run: Run, inputs: Sequence[TensorSpec], rows: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs of prepared rows; of a model without a batch, of the one row. A model that takes one
    row at a time runs on each.

    Args:
        run: What runs the model.
        inputs: The model's.
        rows: Arrays by input, with the batch first.
    """
    ranks = {spec.name: len(spec.shape or ()) for spec in inputs}

    def once(part: Mapping[str, Array]) -> Mapping[str, Array]:
        return run({n: a if a.ndim == ranks[n] else a[0] for n, a in part.items()})

    count = max(array.shape[0] if array.ndim else 1 for array in rows.values())
    single = {spec.name for spec in inputs if (spec.shape or ())[:1] == (1,)}
    single &= {name for name, array in rows.items() if array.shape[:1] == (count,)}
    if count == 1 or not single:
        return dict(once(rows))
    runs = [
        once({n: a[i : i + 1] if n in single else a for n, a in rows.items()}) for i in range(count)
    ]
    return {name: np.concatenate([np.atleast_1d(one[name]) for one in runs]) for name in runs[0]}


def picture_array(
    known: Mapping[str, Any], file: Path, name: str, table: Array
) -> tuple[Array, Seen]:
    """One picture as an input, without a batch; see :func:`read_picture`.

    Args:
        known: How it is prepared.
        file: The encoded picture.
        name: What messages call it.
        table: What each value becomes, [channels, 256]; its dtype is the result's.

    Returns:
        [channels, height, width] or [height, width, channels]; where its pixels came from.

    Raises:
        UsageError: It can't be read, or doesn't come to its size.
    """
    with told():
        return read_picture(known, file, name, table)
