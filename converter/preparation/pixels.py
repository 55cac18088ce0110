"""One image file as an array of pixels: decoded, turned upright, resized and cut.

Resizing and cutting follow torchvision's ``Resize`` and ``CenterCrop``: the longer side is
rounded down, the crop's corner to the nearest.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, ImageOps

from converter.errors import UsageError

Array = np.ndarray[Any, Any]

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
)

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
"""What those files hold, in Pillow's words. It knows more, told by content alone: of an EPS, for
one, it runs Ghostscript."""

_MOST_PIXELS = 2 * (Image.MAX_IMAGE_PIXELS or 0)
"""Where Pillow refuses to decode an image, too."""

_DAMAGED = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error)
_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
_MODES = {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "YCbCr"}
_DEEP = ("I", "F")


@dataclass(frozen=True)
class Framing:
    """How an image comes to its size.

    Attributes:
        resize: The shorter side's length, or (height, width); None for straight to ``size``.
        size: (height, width) of the result, each None where the model leaves it free.
        crop: Whether what is larger than ``size`` is cut out of the middle.
        interpolation: ``nearest``, ``bilinear``, ``bicubic`` or ``lanczos``.
    """

    resize: int | tuple[int, int] | None
    size: tuple[int | None, int | None]
    crop: bool
    interpolation: str


def read_pixels(file: Path | BinaryIO, name: str, mode: str, framing: Framing) -> Array:
    """The pixels of an image as uint8, [height, width, channels].

    Args:
        file: The image, or a stream of it.
        name: What messages call it.
        mode: ``L``, ``RGB`` or ``RGBA``.
        framing: How it comes to its size.

    Raises:
        UsageError: It is truncated or of a kind that would have to be guessed about: 16-bit,
            CMYK, animated, transparent where the model sees no transparency; or it doesn't
            come to its size.
    """
    try:
        with Image.open(file, formats=FORMATS) as image:
            _check_kind(image, name)
            image.load()
            upright = ImageOps.exif_transpose(image)
            framed = _frame(_in_mode(upright, mode, name), framing, name)
    except Image.DecompressionBombError as error:
        raise UsageError(f"{name}: {error}", hint="Make it smaller.") from error
    except _DAMAGED as error:
        raise UsageError(
            f"{name} can't be read: it is truncated, or no image of these kinds: "
            f"{', '.join(FORMATS)} ({error})",
            hint="Repair it, or leave such files out with --skip-bad.",
        ) from error
    pixels = np.asarray(framed)
    return pixels[..., np.newaxis] if pixels.ndim == 2 else pixels


def _check_kind(image: Image.Image, name: str) -> None:
    """Refuses images that 8-bit pixels can't stand for."""
    raw = [str(tile[3]) for tile in getattr(image, "tile", ())]
    if image.mode.startswith(_DEEP) or any(";16" in item for item in raw):
        raise UsageError(
            f"{name} has more than 8 bits a channel ({image.mode})",
            hint="Convert it to 8 bits first, by the scale that the model was trained with.",
        )
    if image.mode not in _MODES:
        raise UsageError(
            f"{name} is in the colour space {image.mode}",
            hint="Convert it to RGB first, with its colour profile.",
        )
    frames = getattr(image, "n_frames", 1)
    if frames > 1 and image.format != "MPO":  # a phone's JPEG: the photo comes first
        raise UsageError(f"{name} holds {frames} frames", hint="Save the one that is meant.")


def _in_mode(image: Image.Image, mode: str, name: str) -> Image.Image:
    if image.has_transparency_data and mode != "RGBA":
        if image.convert("RGBA").getchannel("A").getextrema() != (255, 255):
            raise UsageError(
                f"{name} has transparent pixels, and the model takes {mode}",
                hint="Put it on a background first.",
            )
        image = image.convert("RGBA").convert("RGB")
    return image if image.mode == mode else image.convert(mode)


def _frame(image: Image.Image, framing: Framing, name: str) -> Image.Image:
    before = _size_to_resize(image, framing)
    if before[0] * before[1] > _MOST_PIXELS:
        raise UsageError(
            f"{name} of {image.height}x{image.width} would be {before[1]}x{before[0]} when resized",
            hint="Cut it first, or resize to HxW (--image-resize).",
        )
    if before != image.size:
        image = image.resize(before, _FILTERS[framing.interpolation])
    height, width = framing.size
    wanted = (width or image.width, height or image.height)
    if image.size == wanted:
        return image
    found = f"{name} is {image.height}x{image.width} after resizing, the model's image"
    if not framing.crop:
        raise UsageError(
            f"{found} is {wanted[1]}x{wanted[0]}",
            hint="Resize to HxW (--image-resize), or cut with --image-crop center.",
        )
    if image.width < wanted[0] or image.height < wanted[1]:
        raise UsageError(
            f"{found} of {wanted[1]}x{wanted[0]} can't be cut out of it",
            hint="Give a larger --image-resize.",
        )
    left = round((image.width - wanted[0]) / 2)
    top = round((image.height - wanted[1]) / 2)
    return image.crop((left, top, left + wanted[0], top + wanted[1]))


def _size_to_resize(image: Image.Image, framing: Framing) -> tuple[int, int]:
    """Width and height to resize to, as Pillow wants them."""
    if isinstance(framing.resize, tuple):
        return framing.resize[1], framing.resize[0]
    if framing.resize is None:
        height, width = framing.size
        return width or image.width, height or image.height
    shorter = framing.resize
    if image.width <= image.height:
        return shorter, max(1, shorter * image.height // image.width)
    return max(1, shorter * image.width // image.height), shorter
