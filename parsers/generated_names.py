"""Names that TensorFlow generates for inputs and outputs, and what the user saw instead.

| in the file | becomes | who wrote it |
|---|---|---|
| ``serving_default_image:0``, ``serving_default_image`` | ``image`` | a SavedModel's signature |
| ``image:0`` | ``image`` | TensorFlow: the first output of the operation ``image`` |
| ``StatefulPartitionedCall:2``, ``PartitionedCall_1:2`` | ``output_2`` | a call of a function |

A name that would then stand for two tensors stays as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

_SIGNATURE = re.compile(r"^serving_default_(?=.)")
_FIRST = re.compile(r"(?<=.):0$")
_CALL = re.compile(r"^(?:Stateful)?PartitionedCall(?:_\d+)?(?::(\d+))?$")


def readable(name: str) -> str:
    """What the user saw where TensorFlow wrote ``name``; others come back as they are."""
    call = _CALL.match(name)
    if call:
        return f"output_{call[1] or 0}"
    return _FIRST.sub("", _SIGNATURE.sub("", name)) or name


def readable_names(names: Sequence[str]) -> Mapping[str, str]:
    """The readable name of each of a model's inputs and outputs, all taken together.

    Args:
        names: As in the file; each once.
    """
    wanted = {name: readable(name) for name in names}
    counts = Counter(wanted.values())
    kept = {name for name, new in wanted.items() if counts[new] > 1}
    return {
        name: name if name in kept or (new != name and new in names) else new
        for name, new in wanted.items()
    }
