"""An image preprocessor's settings, as options of images say them.

What the settings mean is transformers' ``image_processing_*`` (``resize``, ``center_crop``,
``rescale``, ``normalize``, in that order); a file may nest them under ``image_processor``. Where
the corner of a crop falls between two pixels, the nearer one is taken, as torchvision does for
them; their classes on Pillow take the one above, on the left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
"""By Pillow's numbers."""

_SHORTEST = ("CLIP", "ChineseCLIP", "ConvNext", "MobileNet")
_SQUARE = ("ViT", "DeiT", "Beit", "BEiT")
"""What a size of one number is, by how the class's name begins."""

_SAID = {"do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_flip_channel_order"}
_WITHOUT_EFFECT = {"do_convert_rgb", "do_reduce_labels", "do_convert_annotations"}
"""Switches that options say, or that change nothing of a picture in RGB."""

_DETECTORS = ("Detr", "ConditionalDetr", "DeformableDetr", "RTDetr", "Yolos")
"""Those that resize to between two edges, and pad a batch's pictures to one size."""


class Unsaid(Exception):
    """No option says something of a preprocessor's."""


def image_options(settings: Mapping[str, Any], notes: list[str] | None = None) -> dict[str, Any]:
    """The fields of a request that a preprocessor's settings come to.

    Args:
        settings: What ``preprocessor_config.json`` holds.
        notes: Takes a line for what the model's own size of a picture is put in place of.

    Raises:
        Unsaid: It says what.
    """
    said = settings.get("image_processor")
    settings = _of_one_size(said if isinstance(said, Mapping) else settings, notes)
    more = sorted(key for key, value in settings.items() if key.startswith("do_") and value
                  and key not in _SAID | _WITHOUT_EFFECT)  # fmt: skip
    if more or settings.get("rescale_offset") or settings.get("offset"):
        raise Unsaid(", ".join(more) or "an offset of its rescaling")
    found = {**_framing(settings), **_values(settings)}
    if settings.get("do_flip_channel_order"):
        found["image_color"] = "bgr"
    return found


def _of_one_size(settings: Mapping[str, Any], notes: list[str] | None) -> Mapping[str, Any]:
    """A detector's settings for a model that takes one size of pictures; others as they are."""
    kind = settings.get("image_processor_type") or settings.get("feature_extractor_type")
    if not str(kind).startswith(_DETECTORS):
        return settings
    kept = {**settings}
    size = kept.get("size")
    if isinstance(size, Mapping) and {*size} == {"shortest_edge", "longest_edge"}:
        if notes is not None:
            notes.append(
                f"preprocessor_config.json: pictures of a shortest edge of {size['shortest_edge']} "
                f"and a longest of {size['longest_edge']} at most; they are resized to the model's "
                "own size instead"
            )
        kept |= {"size": None, "resize_to_model": True}
    if kept.get("do_pad") and not kept.get("pad_size"):
        kept["do_pad"] = False
    return kept


def _framing(settings: Mapping[str, Any]) -> dict[str, Any]:
    """How it comes to its size."""
    if not settings.get("do_resize", True):
        raise Unsaid("do_resize: false")
    resample = settings.get("resample")  # a class of theirs has its own where the file has none
    if resample not in _FILTERS:
        raise Unsaid(f"resample: {resample}")
    found: dict[str, Any] = {"image_interpolation": _FILTERS[resample]}
    if settings.get("resize_to_model"):
        return found
    resize = _size(settings.get("size"), str(settings.get("image_processor_type", "")))
    if "crop_pct" in settings and isinstance(resize, int):  # ConvNeXT's own rule
        if resize >= 384:
            return {**found, "image_size": f"{resize}x{resize}"}
        whole = int(resize / (settings["crop_pct"] or 224 / 256))
        return {**found, "image_resize": str(whole), "image_size": f"{resize}x{resize}"}
    if "do_center_crop" not in settings and "crop_size" in settings:
        raise Unsaid("a crop_size without do_center_crop")
    if settings.get("do_center_crop"):
        crop = _size(settings.get("crop_size"), "ViT")
        if isinstance(crop, int):
            raise Unsaid(f"crop_size: {settings.get('crop_size')}")
        told = str(resize) if isinstance(resize, int) else "x".join(map(str, resize))
        return {**found, "image_resize": told, "image_size": "x".join(map(str, crop))}
    if isinstance(resize, int):
        raise Unsaid("a shortest edge without a crop, so the size depends on the picture")
    return {**found, "image_size": "x".join(map(str, resize))}


def _size(size: Any, kind: str) -> int | tuple[int, int]:
    """The shorter side's length, or height and width."""
    if isinstance(size, int) and kind.startswith(_SHORTEST):
        return size
    if isinstance(size, int) and kind.startswith(_SQUARE):
        return size, size
    if isinstance(size, Mapping) and {*size} == {"height", "width"}:
        return int(size["height"]), int(size["width"])
    if isinstance(size, Mapping) and {*size} == {"shortest_edge"}:
        return int(size["shortest_edge"])
    raise Unsaid(f"size: {size}")


def _values(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What becomes of pixels."""
    found: dict[str, Any] = {}
    factor = settings.get("rescale_factor", 1 / 255)
    if not settings.get("do_rescale", True):
        factor = 1.0
    if abs(factor * 255 - 1) > 1e-6:  # else the usual one
        found["image_scale"] = float(factor)
    if settings.get("do_normalize", True):
        for key in ("image_mean", "image_std"):
            value = settings.get(key)
            if not isinstance(value, list) or not all(isinstance(v, (int, float)) for v in value):
                raise Unsaid(f"{key}: {value}")
            found[key] = [float(v) for v in value]
    return found
