"""How a text becomes a model's inputs: by the tokenizer that goes along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from converter.ir.model import TensorSpec
from converter.preparation.declared import sentence_of
from emitters.templates import render


def texts_of(inputs: Sequence[TensorSpec], texts: Mapping[str, Any]) -> dict[str, Any]:
    """What a client makes the inputs of a text by.

    Args:
        inputs: As they are served.
        texts: See :class:`converter.check.shipping.Shipped`.

    Returns:
        The fields of :class:`converter.preparation.declared.Sentence`; empty where there is none.
    """
    made = sentence_of(inputs, texts)
    return made.model_dump(exclude={"kind"}) if made else {}


def code_of(texts: Mapping[str, Any]) -> str:
    """A function ``tokens(text, pair)`` in Python, of what :func:`texts_of` gives."""
    values = {"texts": texts}
    return render("emitters.packaging", "text.py.j2", values, literal=repr) if texts else ""
