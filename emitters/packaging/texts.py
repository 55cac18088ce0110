"""How a text becomes a model's inputs: by the tokenizer that goes along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from converter.ir.model import TensorSpec
from emitters.templates import render

_OF = {"tokens": "ids", "mask": "attention_mask", "segments": "type_ids"}
"""What of an ``Encoding`` of the package tokenizers an input takes, by what the input means."""


def texts_of(inputs: Sequence[TensorSpec], texts: Mapping[str, Any]) -> dict[str, Any]:
    """What a client makes the inputs of a text by.

    Args:
        inputs: As they are served.
        texts: See :class:`converter.check.shipping.Shipped`.

    Returns:
        ``file``, the tokenizer's; ``longest``, what a text is cut to, and ``length``, what it is
        filled up to, or None; ``inputs``: name, dtype, part of the encoding and filling of each.
        Empty where the inputs aren't a text's, or the tokenizer can't fill up.
    """
    shapes = [spec.shape or () for spec in inputs]
    plain = all(
        len(shape) == 2 and (shape[0] == 1 or isinstance(shape[0], str)) for shape in shapes
    )
    if not texts or not plain or any(spec.meaning not in _OF for spec in inputs):
        return {}
    last, pad = shapes[0][1], texts["pad"]
    length = last if isinstance(last, int) else None
    if length is not None and pad is None:
        return {}
    return {
        "file": texts["file"],
        "longest": texts["longest"] if length is None else length,
        "length": length,
        "inputs": [
            {
                "name": spec.name,
                "of": _OF[spec.meaning or ""],
                "dtype": spec.dtype,
                "fill": pad if spec.meaning == "tokens" else 0,
            }
            for spec in inputs
        ],
    }


def code_of(texts: Mapping[str, Any]) -> str:
    """A function ``tokens(text, pair)`` in Python, of what :func:`texts_of` gives."""
    values = {"texts": texts}
    return render("emitters.packaging", "text.py.j2", values, literal=repr) if texts else ""
