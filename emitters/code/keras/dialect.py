"""Keras' way to write modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emitters.code.dialect import Dialect
from emitters.code.keras.types import keras_type
from emitters.code.literals import listed
from emitters.code.paths import identifier
from emitters.code.steps import Unit, Weight


class Keras(Dialect):
    """``layers.Layer``.

    Args:
        mixed: Whether there are floats that aren't of 32 bits: Keras would make float32 of them.
    """

    base = "layers.Layer"
    method = "call"
    tensor = "Tensor"
    root = "Network"
    sequence = ""
    nothing = "layers.Identity"
    positional: Mapping[str, Sequence[str]] = {
        **{f"layers.Conv{n}D": ("filters", "kernel_size") for n in (1, 2, 3)},
        **{f"layers.Conv{n}DTranspose": ("filters", "kernel_size") for n in (1, 2, 3)},
        **{f"layers.DepthwiseConv{n}D": ("kernel_size",) for n in (1, 2)},
        "layers.Dense": ("units",),
        "layers.LSTM": ("units",),
        "layers.GRU": ("units",),
        "layers.SimpleRNN": ("units",),
        "layers.Embedding": ("input_dim", "output_dim"),
    }

    named = ("layers.Dense", "layers.Embedding")

    def __init__(self, mixed: bool = False) -> None:
        self._mixed = mixed
        self.always_constructed = mixed

    def begun(self, takes: str, *, root: bool) -> list[str]:
        """The model's own takes what Keras stores of a layer: its name."""
        given = ["autocast=False"] if self._mixed else []
        given += ["**kwargs"] if root else []
        takes += ", **kwargs: Any" if root else ""
        return [
            f"    def __init__(self{takes}) -> None:",
            f"        super().__init__({', '.join(given)})",
        ]

    def tensor_line(self, attribute: str, weight: Weight) -> str:
        """A weight, which trains where it is of floats."""
        dtype = weight.dtype.name
        told = [f"shape={listed(list(weight.shape))}"]
        if dtype != "float32":
            told.append(f"dtype={keras_type(dtype)}")
            told += ["autocast=False"] if "float" in dtype else []
        if not (weight.trains and weight.shape and "float" in dtype):
            told.append("trainable=False")
        told += ['initializer="zeros"', f'name="{attribute}"']
        return f"self.{attribute} = self.add_weight({', '.join(told)})"

    def listed(self, parts: Sequence[str]) -> str:
        """A list of Python's: Keras tracks the layers in it."""
        inside = ", ".join(parts)
        if len(parts) == 1 and inside.startswith("*("):
            return f"[{inside[2:-1]}]"
        return f"[{inside}]"

    def construct(self, unit: Unit) -> str:
        """A layer, called as the source's module is."""
        text = super().construct(unit)
        if not unit.name or unit.name.isdigit():
            return text
        apart = "" if text.endswith("()") else ", "
        return f'{text[:-1]}{apart}name="{identifier(unit.name)}")'

    def size(self, x: str, axis: int) -> str:
        """``ops.shape(x)[0]``: a number, or a tensor where a graph doesn't know it yet."""
        return f"ops.shape({x})[{axis}]"
