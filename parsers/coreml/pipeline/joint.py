"""What the models of a pipeline are joined to: features by name, as values of one graph."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import onnx_ir

from converter.errors import ModelError
from parsers.coreml.description import images
from parsers.coreml.reader import Reader
from parsers.coreml.refusal import Refusal


class Joint:
    """The graph of a pipeline, while it is made.

    Args:
        told: The pipeline's ``ModelDescription``.

    Attributes:
        reader: Makes nodes.
        inputs: The graph's, by name, in the order in which models take them.
        values: What each feature is so far.
        classes: Labels, by the feature that holds their probabilities.
        answer: What outputs mean besides, as people write it in a recipe.
        notes: What the pipeline's user has to know.
    """

    def __init__(self, told: Any) -> None:
        self.reader = Reader()
        self.inputs: dict[str, onnx_ir.Value] = {}
        self.values: dict[str, onnx_ir.Value] = {}
        self.classes: dict[str, Any] = {}
        self.answer: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._features = {feature.name for feature in told.input}
        self._pictures = images(told)
        for feature in (*told.input, *told.output):
            self.reader.names.free(feature.name)

    def take(self, name: str, like: onnx_ir.Value, colour: str | None = None) -> onnx_ir.Value:
        """What a feature is, as a model takes it: what an earlier one gives, else an input.

        Args:
            name: The feature's.
            like: The model's own input: its type and sizes.
            colour: Of an image, as the model has it.

        Raises:
            ModelError: Nothing gives it.
            Refusal: It can't become that.
        """
        if name in self.values:
            self._require_picture(name, colour)
            return self._as(name, self.values[name], like)
        if name not in self._features:
            raise ModelError(
                f"it is damaged: nothing gives {name}, which one of its models takes",
                code="model-damaged",
            )
        self._require_picture(name, colour)
        made = onnx_ir.Value(name=name, shape=like.shape, type=like.type)
        self.inputs[name] = self.values[name] = made
        return made

    def give(self, values: Mapping[str, onnx_ir.Value], pictures: Mapping[str, str]) -> None:
        """Says what features are from now on, and which of them are images."""
        self.values.update(values)
        self._pictures |= {name: f"{pictures[name]} of a model" for name in values
                           if name in pictures}  # fmt: skip

    def _require_picture(self, name: str, colour: str | None) -> None:
        """Refuses an image that Core ML would make another one of."""
        given = self._pictures.get(name)
        if given != colour:
            raise Refusal(
                f"it takes {name} as {_picture(colour)}, but gets {_picture(given)}",
                "Core ML converts one into the other by rules that aren't documented. "
                "Convert the models one by one.",
            )

    def _as(self, name: str, value: onnx_ir.Value, like: onnx_ir.Value) -> onnx_ir.Value:
        """A value in the type and with the sizes that a model takes it in."""
        self.reader.op = f"{name}_taken"
        if like.dtype is not None:
            value = self.reader.cast(value, like.dtype)
        have, want = (list(x.shape) if x.shape is not None else None for x in (value, like))
        if have is None or want is None or _fit(have, want):
            return value
        if all(isinstance(size, int) for size in (*have, *want)):
            wanted = [size for size in want if isinstance(size, int)]
            if math.prod(wanted) == math.prod(size for size in have if isinstance(size, int)):
                made = self.reader.node("Reshape", [value, self.reader.ints(wanted)])
                made.shape = onnx_ir.Shape(wanted)
                return made
        raise Refusal(f"it takes {name} of {_sizes(want)}, but gets {_sizes(have)}")


def _fit(have: list[Any], want: list[Any]) -> bool:
    """Whether sizes may be equal, as far as they are told."""
    alike = (a == b or not (isinstance(a, int) and isinstance(b, int))
             for a, b in zip(have, want, strict=False))  # fmt: skip
    return len(have) == len(want) and all(alike)


def _sizes(sizes: list[Any]) -> str:
    return "x".join(str(size) for size in sizes) or "no sizes"


def _picture(colour: str | None) -> str:
    return "an array" if colour is None else f"an image ({colour})"
