"""Users' files as arrays: what a declaration says, done."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import DependencyError, UsageError
from converter.preparation.declared import Picture, Sentence
from converter.preparation.pixels import Framing, read_pixels

Array = np.ndarray[Any, Any]

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_ORDER = [2, 1, 0, 3]
"""The channels of RGBA as BGRA has them."""

_BYTE = 1 / 255

_LIBRARY = "tokenizers"
"""What reads a tokenizer's file."""


def table_of(picture: Picture) -> Array:
    """What each value of 8 bits becomes, float64, [channels, 256]."""
    values = np.arange(256, dtype=np.float64)
    scaled = values / 255 if picture.scale == _BYTE else values * picture.scale
    mean, std = (np.asarray(part)[:, np.newaxis] for part in (picture.mean, picture.std))
    return np.asarray((scaled - mean) / std)


def picture_array(picture: Picture, file: Path | BytesIO, name: str, table: Array) -> Array:
    """One picture as an input, without a batch.

    Args:
        picture: How it is prepared.
        file: The encoded picture.
        name: What messages call it.
        table: What each value becomes, [channels, 256]; its type is the result's.

    Returns:
        [channels, height, width] or [height, width, channels].

    Raises:
        UsageError: It can't be read, or doesn't come to its size.
    """
    size = (picture.height, picture.width)
    framing = Framing(picture.resize, size, picture.crop, picture.interpolation)
    pixels = read_pixels(file, name, _MODES[len(table)], framing)
    if picture.color.startswith("bgr"):
        pixels = pixels[..., _ORDER[: len(table)]]
    planes = [table[channel][pixels[..., channel]] for channel in range(len(table))]
    return np.stack(planes, axis=0 if picture.layout == "CHW" else -1)


def text_arrays(sentence: Sentence, folder: Path, text: str, pair: str | None) -> dict[str, Array]:
    """A text, or two, as the inputs of one row.

    Args:
        sentence: How they are prepared.
        folder: Where the tokenizer's file lies.
        text, pair: The texts.

    Raises:
        DependencyError: What reads the tokenizer's file isn't installed.
    """
    try:
        library = import_module(_LIBRARY)
    except ImportError as error:
        raise DependencyError(
            f"a text needs the package {_LIBRARY}", hint=f"pip install {_LIBRARY}"
        ) from error
    file = folder / sentence.file
    if not file.is_file():
        raise UsageError(f"{file} isn't there, which makes tokens of a text")
    tokenizer = library.Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    if sentence.longest is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(sentence.longest)
    made, feeds = tokenizer.encode(text, pair), {}
    for item in sentence.inputs:
        values = list(getattr(made, item.of))
        values += [item.fill] * ((sentence.length or 0) - len(values))
        feeds[item.name] = np.array([values], item.dtype)
    return feeds
