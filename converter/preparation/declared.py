"""What stands between a user's file and a model, as data.

``prepare`` says how a picture, a sound, a text or a table's rows become the model's inputs,
``answer`` what its outputs mean. One declaration serves samples, servers, clients and
:func:`modelyard.load`, and lies in ``manifest.json``. :mod:`converter.preparation.stages` does what
it says. It is of the model as it was converted, whatever types an artifact stores: where an
artifact's inputs are integers that stand for real numbers, the real numbers are prepared.

People write the same in YAML: ``prepare:`` and ``answer:`` of a recipe, a list of these or one; a
kind stands in ``kind:``, and what has a default may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from converter.ir.model import TensorSpec
from converter.preparation.answers import Classes, Meaning
from converter.preparation.data import Code, Data
from converter.preparation.inputs import Prepare, Sentence, State, TextInput

IN_GRAPH = "in_graph"
"""The key in :attr:`Model.source` of what was put into the graph of preparation and answers
(:mod:`converter.pipeline.in_graph`), by nodes whose names have one of :data:`NAMES`."""

NAMES = ("/prepare/", "/answer/")

DECODED = "decode"
"""A step of a picture's that a graph does: it takes the file, as :func:`file_name`."""

_OF = {"tokens": "ids", "mask": "attention_mask", "segments": "type_ids"}
"""What of an ``Encoding`` of a tokenizer's an input takes, by what the input means."""


def file_name(name: str) -> str:
    """The input that takes a file in the place of another's pixels."""
    return f"{name}_file"


class Limits(Data):
    """What a server takes of one request; more is refused.

    Attributes:
        bytes: Of its body.
        pixels: Of a picture.
        seconds: Of a sound.
        letters: Of a text.
        rows: Of a table.
        files: Of a form.
    """

    bytes: int = 64 << 20
    pixels: int = 64_000_000
    seconds: float = 3600.0
    letters: int = 100_000
    rows: int = 10_000
    files: int = 64


class Declaration(Data):
    """How users' files become inputs, and outputs answers.

    Attributes:
        version: Of this schema.
        prepare: What inputs are made of; empty where that isn't known.
        answer: What outputs mean; empty where that isn't known.
        notes: Where what was written in a recipe is other than what is known without it, both
            values; what none of these can say.
    """

    version: Literal[1] = 1
    prepare: tuple[Prepare, ...] = ()
    answer: tuple[Meaning, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def steps(self) -> list[str]:
        """The functions of the user's that it names."""
        return [item.step for item in (*self.prepare, *self.answer) if isinstance(item, Code)]

    @property
    def requires(self) -> list[str]:
        """What pip installs for these."""
        own = (item for item in (*self.prepare, *self.answer) if isinstance(item, Code))
        return list(dict.fromkeys(name for item in own for name in item.requires))


IN_TURN = 1200.0
"""Seconds of a sound whose windows run one by one, each some tenths of a millisecond to a few: more
is no answer within a request's time."""


def limits_of(declared: Declaration) -> Limits:
    """What a package that prepares takes of one request, unless it is told otherwise."""
    in_turn = any(isinstance(item, State) for item in declared.prepare)
    return Limits(seconds=IN_TURN) if in_turn else Limits()


def tops_of(declared: Declaration | None) -> dict[str, tuple[str, str]]:
    """The outputs of the best classes that a graph gives itself, their scores and indices, by the
    output whose they are."""
    known = (item for item in declared.answer if isinstance(item, Classes)) if declared else ()
    return {item.output: top_names(item.output) for item in known if "top" in item.fused}


def top_names(output: str) -> tuple[str, str]:
    """The outputs of the best classes of an output: their scores, and which they are."""
    return f"{output}_top", f"{output}_top_index"


def sentence_of(inputs: Sequence[TensorSpec], texts: Mapping[str, Any]) -> Sentence | None:
    """How a text becomes a model's inputs.

    Args:
        inputs: The model's.
        texts: ``file``, the tokenizer's; ``longest`` and ``pad``, how many tokens a text is cut to
            and the one that fills up, or None.

    Returns:
        None where the inputs aren't a text's, or the tokenizer can't fill up.
    """
    shapes = [spec.shape or () for spec in inputs]
    plain = all(
        len(shape) == 2 and (shape[0] == 1 or isinstance(shape[0], str)) for shape in shapes
    )
    if not texts or not plain or any(spec.meaning not in _OF for spec in inputs):
        return None
    last, pad = shapes[0][1], texts["pad"]
    length = last if isinstance(last, int) else None
    if length is not None and pad is None:
        return None
    return Sentence(
        file=texts["file"],
        longest=texts["longest"] if length is None else length,
        length=length,
        inputs=[
            TextInput(
                name=spec.name,
                of=_OF[spec.meaning or ""],
                dtype=spec.dtype,
                fill=pad if spec.meaning == "tokens" else 0,
            )
            for spec in inputs
        ],
    )


def classes_of(outputs: Sequence[TensorSpec]) -> tuple[Classes, ...]:
    """What of a model's outputs are classes: those with names, or with what makes probabilities."""
    return tuple(
        Classes.model_validate(
            {
                "output": spec.name,
                "labels": spec.labels or (),
                "activation": spec.activation or "",
            }
        )
        for spec in outputs
        if spec.is_float and (spec.labels or spec.activation) and spec.shape
    )
