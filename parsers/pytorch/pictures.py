"""Options of images that a source suggests: fitted to its input, and told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def of_size(options: Mapping[str, Any], shapes: Iterable[Sequence[int | str]]) -> dict[str, Any]:
    """Options without sizes, where the model's picture has another one: it is resized to that.

    Args:
        options: Fields of a request.
        shapes: Of the model's inputs.
    """
    size = options.get("image_size")
    fixed = {f"{shape[2]}x{shape[3]}" for shape in shapes
             if len(shape) == 4 and all(isinstance(dim, int) for dim in shape[2:])}  # fmt: skip
    if not fixed or size in fixed:
        return dict(options)
    return {k: v for k, v in options.items() if k not in ("image_size", "image_resize")}


def told(options: Mapping[str, Any], where: str) -> str:
    """A note of them; ``where`` is what says them."""
    words = " ".join(f"--{n.replace('_', '-')} {_text(v)}" for n, v in options.items())
    return f"images are prepared as {where}, where no option says otherwise: {words}"


def _text(value: object) -> str:
    """A value as the command line takes it."""
    return ",".join(f"{v:g}" for v in value) if isinstance(value, list) else str(value)
