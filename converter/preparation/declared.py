"""What stands between a user's file and a model, as data.

``prepare`` says how a picture or a text becomes the model's inputs, ``answer`` what its outputs
mean. One declaration serves samples, clients and :func:`modelyard.load`, and lies in
``manifest.json``. It is of the model as it was converted, whatever types an artifact stores: where
an artifact's inputs are integers that stand for real numbers, the real numbers are prepared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from converter.ir.model import TensorSpec

_OF = {"tokens": "ids", "mask": "attention_mask", "segments": "type_ids"}
"""What of an ``Encoding`` of a tokenizer's an input takes, by what the input means."""


class _Data(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_serialization_defaults_required=True
    )


class Picture(_Data):
    """An image file becomes an input, in this order: decoded to 8 bits a channel, turned upright
    (EXIF), resized, cut, its channels put in order, each value ``(v * scale - mean) / std``.

    Attributes:
        input: The model's input.
        layout: ``CHW`` or ``HWC``; a batch comes before it.
        color: The order of channels.
        height, width: What the model takes; None where it takes any.
        resize: The shorter side's length, or height and width; None for straight to ``height`` and
            ``width``.
        crop: Whether what is larger than these after resizing is cut out of the middle.
        interpolation: Pillow's filter, antialiased where the picture gets smaller.
        scale: Of the values 0..255, all channels alike.
        mean, std: By channel.
    """

    kind: Literal["picture"] = "picture"
    input: str
    layout: Literal["CHW", "HWC"]
    color: Literal["gray", "rgb", "bgr", "rgba", "bgra"]
    height: int | None = None
    width: int | None = None
    resize: int | tuple[int, int] | None = None
    crop: bool = True
    interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos"] = "bilinear"
    scale: float = 1.0
    mean: tuple[float, ...]
    std: tuple[float, ...]


class TextInput(_Data):
    """An input of tokens: which part of an encoding it takes, its type, what fills it up."""

    name: str
    of: str
    dtype: str
    fill: int | None = None


class Sentence(_Data):
    """A text, or two, become the model's inputs by its own tokenizer.

    Attributes:
        file: The tokenizer's, in the output's folder.
        longest: How many tokens a text is cut to; None for none.
        length: How many it is filled up to; None where the model takes any number.
        inputs: The model's inputs.
    """

    kind: Literal["text"] = "text"
    file: str
    longest: int | None = None
    length: int | None = None
    inputs: list[TextInput]


class Classes(_Data):
    """An output's last axis has a value for each class.

    Attributes:
        output: The model's output.
        labels: The classes' names, in order; empty where they have none.
        activation: What makes probabilities of the values; empty where they are such, or nobody
            knows.
    """

    kind: Literal["classes"] = "classes"
    output: str
    labels: tuple[str, ...] = ()
    activation: str = ""


class Declaration(_Data):
    """How users' files become inputs, and outputs answers.

    Attributes:
        version: Of this schema.
        prepare: What inputs are made of; empty where that isn't known.
        answer: What outputs mean; empty where that isn't known.
    """

    version: Literal[1] = 1
    prepare: tuple[Annotated[Picture | Sentence, Field(discriminator="kind")], ...] = ()
    answer: tuple[Classes, ...] = ()


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
        Classes(output=spec.name, labels=spec.labels or (), activation=spec.activation or "")
        for spec in outputs
        if spec.is_float and (spec.labels or spec.activation) and spec.shape
    )
