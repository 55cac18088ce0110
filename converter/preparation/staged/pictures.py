"""Pictures, as a model's inputs."""

from __future__ import annotations

from io import BytesIO, IOBase
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from converter.preparation.staged.base import (
    DAMAGED,
    Array,
    Known,
    Seen,
    StageError,
    library_of,
    one_line,
)

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
"""What picture files hold, in Pillow's words. It knows more, told by content alone: of an EPS, for
one, it runs Ghostscript."""

MOST_PIXELS = 178_956_970
"""Where Pillow refuses to decode a picture."""

FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}
"""Pillow's numbers."""

MODES = {1: "L", 3: "RGB", 4: "RGBA"}

BYTE = 1 / 255

_COLORS = {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "YCbCr"}

_DEEP = ("I", "F")


def value_table(known: Known) -> Array:
    """What each value of 8 bits becomes, float64, [channels, 256]."""
    values = np.arange(256, dtype=np.float64)
    scaled = values / 255 if known["scale"] == BYTE else values * known["scale"]
    mean, std = (np.asarray(known[part])[:, np.newaxis] for part in ("mean", "std"))
    return np.asarray((scaled - mean) / std)


def read_picture(
    known: Known, file: Path | BinaryIO, name: str, table: Array, most: int = MOST_PIXELS
) -> tuple[Array, Seen]:
    """One picture as an input, without a batch.

    Resizing and cutting follow torchvision's ``Resize`` and ``CenterCrop``: the longer side is
    rounded down, the crop's corner to the nearest.

    Args:
        known: How it is prepared.
        file: The encoded picture.
        name: What messages call it.
        table: What each value becomes, [channels, 256]; its type is the result's.
        most: Pixels that it may have.

    Returns:
        [channels, height, width] or [height, width, channels]; where its pixels came from.

    Raises:
        StageError: It is truncated or of a kind that would have to be guessed about: 16-bit, CMYK,
            animated, transparent where the model sees no transparency; or it doesn't come to its
            size.
    """
    pixels, seen = read_pixels(known, file, name, MODES[len(table)], most)
    return valued(known, pixels, table), seen


def valued(known: Known, pixels: Array, table: Array) -> Array:
    """Pixels as an input, without a batch.

    Args:
        known: How the picture is prepared: colours and layout.
        pixels: uint8 [height, width, channels], channels in Pillow's order.
        table: What each value becomes, [channels, 256]; its dtype is the result's.

    Returns:
        [channels, height, width] or [height, width, channels].
    """
    if known["color"].startswith("bgr"):
        pixels = pixels[..., [2, 1, 0, 3][: len(table)]]
    planes = [table[channel][pixels[..., channel]] for channel in range(len(table))]
    return np.stack(planes, axis=0 if known["layout"] == "CHW" else -1)


def read_pixels(
    known: Known, file: Path | BinaryIO, name: str, mode: str, most: int
) -> tuple[Array, Seen]:
    """A picture's pixels, resized and cut.

    Args:
        known: How it is prepared.
        file: The encoded picture, or Pillow's image.
        name: What messages call it.
        mode: Pillow's: ``RGB``, ``L``, ``RGBA``.
        most: Pixels that the file may have.

    Returns:
        uint8 [height, width, channels], and where they came from.
    """
    if not isinstance(file, (Path, IOBase)):
        return fit(_in_mode(file, mode, name), known, name)
    return fit(_in_mode(open_picture(file, name, most), mode, name), known, name)


def encoded(file: Path | BinaryIO, name: str, most: int = MOST_PIXELS) -> tuple[Array, Seen]:
    """A file's own bytes, for a model that decodes JPEG and PNG itself, and leaves them as they
    lie.

    It is decoded here too: a damaged one may end the process that runs the model.

    Args:
        file: The encoded picture.
        name: What messages call it.
        most: Pixels that it may have.

    Returns:
        uint8 [bytes], and the picture's size.

    Raises:
        StageError: As :func:`read_picture`; or it is of another format, or to be turned.
    """
    data = file.read_bytes() if isinstance(file, Path) else file.read()
    image = _in_mode(open_picture(BytesIO(data), name, most), "RGB", name)
    with library_of("PIL.Image").open(BytesIO(data)) as known:
        form, turned = known.format, known.getexif().get(0x0112, 1) not in (0, 1)
    if form not in ("JPEG", "MPO", "PNG"):
        raise StageError(f"{name} is {form}, and the model decodes JPEG and PNG", "Save it as PNG.")
    if turned:
        raise StageError(
            f"{name} is rotated by its EXIF data, and the model doesn't undo that",
            "Save it upright, or convert without --ort-extensions.",
        )
    return np.frombuffer(data, np.uint8), Seen(image.size)


def open_picture(file: Path | BinaryIO, name: str, most: int = MOST_PIXELS) -> Any:
    """Pillow's image of a file, upright; see :func:`read_picture`.

    Args:
        file: The encoded picture.
        name: What messages call it.
        most: Pixels that it may have.
    """
    library, ops = library_of("PIL.Image"), library_of("PIL.ImageOps")
    bomb = library.DecompressionBombError
    try:
        with library.open(file, formats=FORMATS) as image:
            _check_kind(image, name, most)
            image.load()
            return ops.exif_transpose(image)
    except bomb as error:
        raise StageError(f"{name}: {error}", "Make it smaller.", 413) from error
    except StageError:
        raise
    except DAMAGED as error:
        raise StageError(
            f"{name} can't be read: it is cut short, or isn't an image of these kinds: "
            f"{', '.join(FORMATS)} ({one_line(error)})",
            "Repair it, or leave such files out with --skip-bad.",
        ) from error


def _check_kind(image: Any, name: str, most: int) -> None:
    """Refuses images that 8-bit pixels can't stand for, and larger ones than are taken."""
    raw = [str(tile[3]) for tile in getattr(image, "tile", ())]
    if image.mode.startswith(_DEEP) or any(";16" in item for item in raw):
        raise StageError(
            f"{name} has more than 8 bits a channel ({image.mode})",
            "Convert it to 8 bits first, with the scale that the model was trained with.",
        )
    if image.mode not in _COLORS:
        raise StageError(
            f"{name} is in the colour space {image.mode}",
            "Convert it to RGB first, with its colour profile.",
        )
    frames = getattr(image, "n_frames", 1)
    if frames > 1 and image.format != "MPO":  # a phone's JPEG: the photo comes first
        raise StageError(f"{name} holds {frames} frames", "Save the frame that you need.")
    if image.width * image.height > most:
        raise StageError(
            f"{name} has {image.width} x {image.height} pixels; the limit is {most:,}",
            "Make it smaller.",
            413,
        )


def _in_mode(image: Any, mode: str, name: str) -> Any:
    if image.has_transparency_data and mode != "RGBA":
        if image.convert("RGBA").getchannel("A").getextrema() != (255, 255):
            raise StageError(
                f"{name} has transparent pixels, and the model takes {mode}",
                "Draw it on a background first.",
            )
        image = image.convert("RGBA").convert("RGB")
    return image if image.mode == mode else image.convert(mode)


def fit(image: Any, known: Known, name: str) -> tuple[Array, Seen]:
    """A picture's pixels, resized, and cut or filled up.

    Args:
        image: Pillow's, upright.
        known: How it is prepared: sizes, interpolation, crop.
        name: What messages call it.

    Returns:
        uint8 [height, width, channels], and where they came from.
    """
    framed_, seen = _frame(image, known, name)
    pixels = np.asarray(framed_)
    return (pixels[..., np.newaxis] if pixels.ndim == 2 else pixels), seen


def _frame(image: Any, known: Known, name: str) -> tuple[Any, Seen]:
    size = image.size
    wanted = (known["width"] or image.width, known["height"] or image.height)
    before = _size_to_resize(size, known, wanted)
    if before[0] * before[1] > MOST_PIXELS:
        raise StageError(
            f"{name} of {size[1]}x{size[0]} would be {before[1]}x{before[0]} when resized",
            "Crop it first, or resize to HxW (--image-resize).",
        )
    if before != size:
        image = image.resize(before, FILTERS[known["interpolation"]])
    scale = (before[0] / size[0], before[1] / size[1])
    if known.get("fill") is not None:
        wanted = (known["width"] or before[0], known["height"] or before[1])
        left, top = (round((w - b) / 2 - 0.1) for w, b in zip(wanted, before, strict=True))
        color = (known["fill"],) * len(image.getbands())
        whole = library_of("PIL.Image").new(image.mode, wanted, color)
        whole.paste(image, (left, top))
        return whole, Seen(size, scale, (left, top))
    if known["width"] is None or known["height"] is None:
        wanted = (known["width"] or before[0], known["height"] or before[1])
    if before == wanted:
        return image, Seen(size, scale)
    found = f"{name} is {before[1]}x{before[0]} after resizing, the model's image"
    if not known["crop"]:
        raise StageError(
            f"{found} is {wanted[1]}x{wanted[0]}",
            "Resize to HxW (--image-resize), or crop with --image-crop center.",
        )
    if before[0] < wanted[0] or before[1] < wanted[1]:
        raise StageError(
            f"a crop of {wanted[1]}x{wanted[0]} doesn't fit into {found}",
            "Give a larger --image-resize.",
        )
    left, top = (round((b - w) / 2) for w, b in zip(wanted, before, strict=True))
    cut = image.crop((left, top, left + wanted[0], top + wanted[1]))
    return cut, Seen(size, scale, (-left, -top))


def _size_to_resize(
    size: tuple[int, int], known: Known, wanted: tuple[int, int]
) -> tuple[int, int]:
    """Width and height to resize to, as Pillow wants them."""
    resize = known["resize"]
    if known.get("longest"):
        ratio, step = min(1.0, known["longest"] / max(size)), known["multiple"]
        return (max(step, round(size[0] * ratio / step) * step),
                max(step, round(size[1] * ratio / step) * step))  # fmt: skip
    if known.get("fill") is not None:  # letterboxed: as large as fits
        ratio = min(wanted[0] / size[0], wanted[1] / size[1])
        return max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio))
    if resize is None:
        return wanted
    if not isinstance(resize, int):
        return resize[1], resize[0]
    if size[0] <= size[1]:
        return resize, max(1, resize * size[1] // size[0])
    return max(1, resize * size[0] // size[1]), resize
