"""An ONNX file that came by TorchScript, held against what the model itself gave.

The worker ran the model on other values and other sizes; ONNX Runtime runs the file on the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import ModelyardError, Unsupported, UnsupportedError
from converter.files.arrays import load_arrays
from converter.runtime.ort import OrtSession
from parsers.pytorch.child.alike import differs

_LIMIT = 1e-3
"""Largest difference, as a share of an output's largest magnitude: another runtime's rounding."""
_SHARE = 0.9
"""Least part of a list's rows that both have: rounding moves what is near a threshold."""
_SHAKE = 2.0**-22
_SEEDS = 4

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]
Rounded = Callable[[Feeds, int], Feeds]


def require_same(file: Path, probes: Sequence[Mapping[str, str]], model: Rounded) -> int:
    """How many probes the file was judged on; none only where there are none.

    Where the model itself gives something else for an input that is another in its last
    places alone, nothing can be said of that input; nor where all that both found has one score:
    out of more, any are the best.

    Args:
        file: The ONNX file.
        probes: ``what`` it is, and the .npz files ``feeds`` and ``outputs``.
        model: Runs the model itself with rounding added, by a seed.

    Raises:
        UnsupportedError: The file gives something else, or no probe tells whether it does.
    """
    judged = 0
    if not probes:
        return judged
    session = OrtSession(file)
    try:
        for probe in probes:
            feeds, want = (load_arrays(Path(probe[side])) for side in ("feeds", "outputs"))
            got, why = _run(session, feeds, want)
            if why and (_all_tie(want, got) or _unsteady(model, feeds, want)):
                continue
            if why:
                raise _error(probe["what"], why)
            judged += 1
    finally:
        session.close()
    if not judged:
        raise _error("any input", f"none of {len(probes)} inputs can show it: rounding, or ties "
            "among scores, change the model's own outputs for each")  # fmt: skip
    return judged


def _run(session: OrtSession, feeds: Feeds, want: Feeds) -> tuple[Feeds, str]:
    """What the file gives, and how it differs."""
    try:
        ran = session.run(feeds)
    except ModelyardError as error:
        return {}, f"the file ends with: {error.message}"
    got = {name: np.asarray(ran[name]) for name in want}
    return got, differs(want, got, _LIMIT, _SHARE)


def _all_tie(want: Feeds, got: Feeds) -> bool:
    """Whether both are lists of as many rows, and all scores (floats, one a row) are one value."""
    if not got or any(want[name].shape != got[name].shape for name in want):
        return False
    counts = {array.shape[:1] for array in want.values()}
    scores = [name for name, array in want.items() if array.ndim == 1 and array.dtype.kind == "f"]
    if len(want) < 2 or len(counts) != 1 or not scores or min(counts) < (2,):
        return False
    both = (np.concatenate([want[name], got[name]]) for name in scores)
    return all(np.ptp(each) <= _SHAKE * np.abs(each).max() for each in both)


def _unsteady(model: Rounded, feeds: Feeds, want: Feeds) -> bool:
    """Whether rounding alone makes such a difference in the model itself."""
    for seed in range(_SEEDS):
        with suppress(ModelyardError):
            if differs(want, model(feeds, seed), _LIMIT / 4, _SHARE):
                return True
    return False


def _error(what: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"the ONNX file that TorchScript exported doesn't compute the same as the model for {what}",
        [Unsupported("", "TorchScript", why)],
        hint="In torch, the trace computes the same as the model, so the translation to ONNX is "
        "wrong. First check symbolics that your code registers for its own operators. "
        "Fixed sizes in --input leave less to translate.",
    )
