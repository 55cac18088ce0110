"""What ``--fix`` says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from converter.errors import UsageError
from converter.ir.model import dtype_from_name

if TYPE_CHECKING:
    import numpy as np

    from converter.ir.model import TensorSpec

    Array = np.ndarray[Any, Any]


_FORM = "NAME=VALUE, as in sr=16000, or NAME=[1, 2] for more than one number"


def fixed_values(texts: Iterable[str], specs: Sequence[TensorSpec]) -> dict[str, Array]:
    """What ``--fix`` says, in the inputs' types and shapes; one number fills an input of one
    element.

    Raises:
        UsageError: It isn't of the form, names no input, or the value doesn't fit.
    """
    found: dict[str, Array] = {}
    by_name = {spec.name: spec for spec in specs}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise UsageError(f"--fix {text}: the form is {_FORM}", code="option-value")
        if name not in by_name:
            raise UsageError(
                f"--fix {text}: the model has no input {name}",
                code="interface-mismatch",
                details=[f"it has {', '.join(by_name)}"],
            )
        if name in found:
            raise UsageError(f"--fix {name} is given twice", code="option-conflict")
        found[name] = _array(text, value, by_name[name])
    if found and len(found) == len(by_name):
        raise UsageError(
            "--fix would leave the model without an input",
            code="interface-mismatch",
            hint="Leave one of them out.",
        )
    return found


def _array(text: str, value: str, spec: TensorSpec) -> Array:
    import numpy as np

    dtype = dtype_from_name(spec.dtype).numpy()
    try:
        given = np.asarray(json.loads(value))
        made: Array = given.astype(dtype)
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"--fix {text}: {value!r} isn't a value; the form is {_FORM}", code="option-value"
        ) from error
    if not np.array_equal(made, given):
        raise UsageError(f"--fix {text}: {spec.dtype} can't hold {value}", code="option-value")
    shape = spec.shape
    if shape is not None and made.ndim == 0 and all(dim == 1 for dim in shape):
        made = made.reshape((1,) * len(shape))
    fits = shape is None or (
        len(shape) == made.ndim
        and all(isinstance(d, str) or d == n for d, n in zip(shape, made.shape, strict=True))
    )
    if not fits:
        raise UsageError(
            f"--fix {text}: the value has the shape {list(made.shape)}, but {spec.name} has "
            f"{list(shape or ())}",
            code="interface-mismatch",
        )
    return made
