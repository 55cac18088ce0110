"""``--shapes``: the smallest, best and largest shape of an input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from converter.errors import UsageError
from converter.ir.model import TensorSpec

Shape = tuple[int, ...]
Bounds = tuple[Shape, Shape, Shape]

DEFAULT_MAX_BATCH = 8
"""As for a server's folder: where ``--max-batch`` isn't given."""

_FORM = "--shapes NAME:MIN,OPT,MAX, as in x:1x3x224x224,8x3x224x224,32x3x224x224"


def read_ranges(texts: Sequence[str], inputs: Mapping[str, TensorSpec]) -> list[dict[str, Bounds]]:
    """What ``--shapes`` gives, a mapping for each round: an input named again begins the next.

    Raises:
        UsageError: A text isn't understood, or its shapes don't fit the input.
    """
    rounds: list[dict[str, Bounds]] = []
    for text in texts:
        name, shapes = read_shapes(text)
        if len(shapes) not in (1, 3):
            raise UsageError(
                f"--shapes {text} isn't understood",
                code="option-value",
                hint=f"The form is {_FORM}.",
            )
        smallest, best, largest = shapes * 3 if len(shapes) == 1 else shapes
        require_fit(f"--shapes {text}", name, inputs, shapes)
        _require_order(text, (smallest, best, largest))
        place = next((given for given in rounds if name not in given), None)
        if place is None:
            rounds.append(place := {})
        place[name] = smallest, best, largest
    return rounds


def read_shapes(text: str, form: str = _FORM) -> tuple[str, list[Shape]]:
    """An input's name and the shapes behind it; from the right, since names may hold
    colons.

    Raises:
        UsageError: It isn't ``NAME:SHAPE,SHAPE``.
    """
    name, colon, shapes = text.rpartition(":")
    try:
        read = [tuple(int(size) for size in shape.split("x")) for shape in shapes.split(",")]
    except ValueError:
        read = []
    if not colon or not name or not read or any(size < 0 for shape in read for size in shape):
        flag = form.split(" ", 1)[0]
        raise UsageError(
            f"{flag} {text} isn't understood", code="option-value", hint=f"The form is {form}."
        )
    return name, read


def require_fit(
    said: str, name: str, inputs: Mapping[str, TensorSpec], shapes: Iterable[Shape]
) -> None:
    """Holds shapes against an input's declared one.

    Args:
        said: The option as it was written, for errors.
        name: The input that it names.
        inputs: All inputs of the model, by name.
        shapes: Shapes for that input; each has to have its rank and fixed sizes.

    Raises:
        UsageError: There is no such input, or a shape contradicts it.
    """
    if name not in inputs:
        raise UsageError(
            f"{said}: the model has no input {name!r}",
            code="interface-mismatch",
            hint=f"Its inputs: {', '.join(inputs)}.",
        )
    declared = inputs[name].shape or ()
    for shape in shapes:
        fits = len(shape) == len(declared) and all(
            isinstance(dim, str) or dim == size for dim, size in zip(declared, shape, strict=True)
        )
        if not fits:
            raise UsageError(
                f"{said}: {'x'.join(map(str, shape))} doesn't fit {name}, which is "
                f"{inputs[name].describe()}",
                code="interface-mismatch",
            )


def _require_order(text: str, bounds: Bounds) -> None:
    for low, best, high in zip(*bounds, strict=True):
        if not low <= best <= high:
            raise UsageError(
                f"--shapes {text}: give the smallest shape first and the largest last",
                code="option-value",
                hint=f"The form is {_FORM}.",
            )


def sizes_seen(
    shapes: Iterable[Mapping[str, Shape]], inputs: Sequence[TensorSpec]
) -> dict[str, tuple[int, int, int]]:
    """For each free dimension its smallest, usual (median) and largest size among samples.

    Args:
        shapes: Of each sample, its inputs' shapes by name.
        inputs: The model's.
    """
    found: dict[str, list[int]] = {}
    for sample in shapes:
        for spec in inputs:
            for dim, size in zip(spec.shape or (), sample.get(spec.name, ()), strict=False):
                if isinstance(dim, str):
                    found.setdefault(dim, []).append(size)
    return {
        dim: (min(sizes), sorted(sizes)[len(sizes) // 2], max(sizes))
        for dim, sizes in found.items()
    }
