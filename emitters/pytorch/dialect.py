"""PyTorch's way to write modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emitters.code.dialect import Dialect
from emitters.code.literals import listed
from emitters.code.steps import Weight
from emitters.pytorch.types import torch_type


class Torch(Dialect):
    """``nn.Module``."""

    base = "nn.Module"
    method = "forward"
    tensor = "Tensor"
    sequence = "nn.Sequential"
    nothing = "nn.Identity"
    positional: Mapping[str, Sequence[str]] = {
        **{f"nn.Conv{n}d": ("in_channels", "out_channels") for n in (1, 2, 3)},
        **{f"nn.ConvTranspose{n}d": ("in_channels", "out_channels") for n in (1, 2, 3)},
        **{f"nn.BatchNorm{n}d": ("features",) for n in (1, 2, 3)},
        **{f"nn.InstanceNorm{n}d": ("features",) for n in (1, 2, 3)},
        **dict.fromkeys(("nn.LSTM", "nn.GRU", "nn.RNN"), ("in_features", "hidden")),
        "nn.Linear": ("in_features", "out_features"),
        "nn.LayerNorm": ("features",),
        "nn.Embedding": ("count", "width"),
    }

    named = ("nn.Linear", "nn.Embedding")

    def listed(self, parts: Sequence[str]) -> str:
        """``nn.ModuleList``."""
        inside = ", ".join(parts)
        if len(parts) == 1 and inside.startswith("*("):
            return f"nn.ModuleList({inside[2:-1]})"
        return f"nn.ModuleList([{inside}])"

    def tensor_line(self, attribute: str, weight: Weight) -> str:
        """A parameter where it is of floats; else a buffer."""
        dtype = weight.dtype.name
        of = "" if dtype == "float32" else f", dtype={torch_type(dtype)}"
        empty = f"torch.empty({listed(list(weight.shape))}{of})"
        if weight.trains and weight.shape and dtype.startswith("float"):
            return f"self.{attribute} = nn.Parameter({empty})"
        return f'self.register_buffer("{attribute}", {empty})'
