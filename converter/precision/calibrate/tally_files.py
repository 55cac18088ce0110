"""Keeps what was measured of tensors in two files: numbers as JSON, histograms as .npz.

Each is held to a sha256 when it is read, so that what was damaged counts as not there.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import from_os_error
from converter.files.arrays import load_arrays, save_arrays
from converter.files.digest import digest_of
from converter.ir.external import appearing
from converter.precision.calibrate.histogram import Histogram, bin_count
from converter.precision.calibrate.tensor_observer import Tally

Array = np.ndarray[Any, Any]

FORMAT = 1
NUMBERS, HISTOGRAMS = "ranges.json", "histograms.npz"


def write_tallies(folder: Path, tallies: dict[str, Tally], samples: int) -> None:
    """Writes both files, the JSON last.

    Args:
        folder: It is made where it isn't there.
        tallies: What was counted, by tensor name.
        samples: On how many samples.

    Raises:
        UsageError: The files can't be written there.
        MachineError: The disk is full.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / HISTOGRAMS
        with appearing(path) as file:
            file.close()
            save_arrays(Path(file.name), _arrays(tallies))
        body = _body(tallies, samples)
        stored = {"body": body, "body_sha256": digest_of(body), "npz_sha256": _sha256(path)}
        with appearing(folder / NUMBERS) as file:
            file.write(json.dumps(stored, indent=1).encode())
    except OSError as error:
        raise from_os_error(error, "writing the measured ranges") from error


def read_tallies(folder: Path) -> tuple[dict[str, Tally], int] | None:
    """What was written; None where it isn't there, isn't whole, or is of another format."""
    path = folder / HISTOGRAMS
    try:
        stored = json.loads((folder / NUMBERS).read_bytes())
        body = stored["body"]
        whole = stored["body_sha256"] == digest_of(body) and stored["npz_sha256"] == _sha256(path)
        if not whole or body["format"] != FORMAT:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    arrays = load_arrays(path)
    tallies = {
        item["name"]: _tally(item, arrays, number) for number, item in enumerate(body["tensors"])
    }
    return tallies, body["samples"]


def tallies_digest(tallies: dict[str, Tally], samples: int) -> str:
    """The sha256 over all of it."""
    digest = hashlib.sha256(digest_of(_body(tallies, samples)).encode())
    for name, counts in _arrays(tallies).items():
        digest.update(f"{name} {counts.dtype.str} {counts.size}\0".encode() + counts.tobytes())
    return digest.hexdigest()


def _body(tallies: dict[str, Tally], samples: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "samples": samples,
        "tensors": [_numbers(name, tally) for name, tally in tallies.items()],
    }


def _numbers(name: str, tally: Tally) -> dict[str, Any]:
    return {
        "name": name,
        "extremes": [tally.low, tally.high] if tally.count else None,
        "moving": list(tally.moving) if tally.moving else None,
        "count": tally.count,
        "nonfinite": tally.nonfinite,
        "nonfinite_sample": tally.nonfinite_sample,
        "top": tally.histogram.top,
    }


def _arrays(tallies: dict[str, Tally]) -> dict[str, Array]:
    """The counts by number and sign: names of tensors would make poor names of files."""
    arrays = {}
    for number, tally in enumerate(tallies.values()):
        for sign in ("positive", "negative"):
            counts = getattr(tally.histogram, sign)
            if counts is not None:
                arrays[f"{number}-{sign}"] = counts.astype(np.min_scalar_type(counts.max()))
    return arrays


def _tally(item: dict[str, Any], arrays: dict[str, Array], number: int) -> Tally:
    histogram = Histogram(item["top"])
    histogram.positive = arrays[f"{number}-positive"].astype(np.int64)
    negative = arrays.get(f"{number}-negative")
    histogram.negative = None if negative is None else negative.astype(np.int64)
    assert histogram.positive.size == bin_count(histogram.top)
    low, high = item["extremes"] or (float("inf"), float("-inf"))
    return Tally(
        low=low,
        high=high,
        moving=tuple(item["moving"]) if item["moving"] else None,
        count=item["count"],
        nonfinite=item["nonfinite"],
        nonfinite_sample=item["nonfinite_sample"],
        histogram=histogram,
    )


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
