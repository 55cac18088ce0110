"""The modules of a sentence-transformers folder that come after its transformer.

modules.json lists them in order, each with a folder and a class. Their settings and formulas
are sentence-transformers' own (`models/Pooling.py`, `Dense.py`, `Normalize.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...worker.errors import WorkerError
from .inputs import read_json

_TINY = 1e-9
# In the order in which Pooling.py joins them.
_MODES = (
    "cls_token",
    "max_tokens",
    "mean_tokens",
    "mean_sqrt_len_tokens",
    "weightedmean_tokens",
    "lasttoken",
)
_SHORT = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens"}
_SHORT.update(mean_sqrt_len="mean_sqrt_len_tokens", weightedmean="weightedmean_tokens")


class Pooling(nn.Module):  # type: ignore[misc]  # torch is not type-checked
    """[batch, sequence, width] and a mask [batch, sequence] to [batch, width x modes]."""

    def __init__(self, modes: Sequence[str]) -> None:
        super().__init__()
        self.modes = list(modes)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """The pooled vectors, one after another in the order of the modes."""
        wide = mask.unsqueeze(-1).to(hidden.dtype)
        found = [getattr(self, f"_{mode}")(hidden, wide) for mode in self.modes]
        return found[0] if len(found) == 1 else torch.cat(found, 1)

    def _cls_token(self, hidden: Tensor, wide: Tensor) -> Tensor:
        return hidden[:, 0]

    def _max_tokens(self, hidden: Tensor, wide: Tensor) -> Tensor:
        return torch.where(wide == 0, torch.full_like(hidden, -1e9), hidden).amax(1)

    def _mean_tokens(self, hidden: Tensor, wide: Tensor) -> Tensor:
        return (hidden * wide).sum(1) / wide.sum(1).clamp(min=_TINY)

    def _mean_sqrt_len_tokens(self, hidden: Tensor, wide: Tensor) -> Tensor:
        return (hidden * wide).sum(1) / wide.sum(1).clamp(min=_TINY).sqrt()

    def _weightedmean_tokens(self, hidden: Tensor, wide: Tensor) -> Tensor:
        places = torch.arange(1, hidden.shape[1] + 1, dtype=hidden.dtype)
        weights = wide * places.reshape(1, -1, 1)
        return (hidden * weights).sum(1) / weights.sum(1).clamp(min=_TINY)

    def _lasttoken(self, hidden: Tensor, wide: Tensor) -> Tensor:
        # The last place whose mask is 1; all zeros give place 0 of a row of zeros.
        places = torch.arange(1, hidden.shape[1] + 1, dtype=hidden.dtype).reshape(1, -1, 1)
        last = (wide * places).amax(1, keepdim=True)
        return (hidden * (places == last).to(hidden.dtype)).sum(1)


class Dense(nn.Module):  # type: ignore[misc]
    """A linear layer with an activation."""

    def __init__(self, linear: nn.Linear, activation: nn.Module) -> None:
        super().__init__()
        self.linear = linear
        self.activation = activation

    def forward(self, pooled: Tensor) -> Tensor:
        """[batch, in] to [batch, out]."""
        return self.activation(self.linear(pooled))


class Normalize(nn.Module):  # type: ignore[misc]
    """Vectors to length 1."""

    def forward(self, pooled: Tensor) -> Tensor:
        """[batch, width] to the same."""
        return nn.functional.normalize(pooled, p=2, dim=1)


def listed(folder: Path) -> list[tuple[str, Path]]:
    """Class name (its last part) and folder of each module; empty without a modules.json."""
    path = folder / "modules.json"
    if not path.is_file():
        return []
    try:
        items = sorted(json.loads(path.read_text(encoding="utf-8")), key=lambda item: item["idx"])
        return [(str(i["type"]).rpartition(".")[2], folder / str(i["path"])) for i in items]
    except (ValueError, TypeError, KeyError) as error:
        raise WorkerError(
            "source",
            f"modules.json isn't one of sentence-transformers: {error}",
            code="model-damaged",
        ) from error


def build(folder: Path) -> tuple[Pooling, nn.ModuleList]:
    """The pooling, and the layers after it. Raises unsupported, listing what is not known."""
    modules = listed(folder)
    if not modules:
        raise WorkerError(
            "usage",
            "sentence-embedding needs a sentence-transformers folder: without its "
            "modules.json, the pooling of the tokens isn't known. --task feature-extraction "
            "gives the tokens' vectors",
            code="option-not-applicable",
        )
    names = [name for name, _ in modules]
    strange = [n for n in names[2:] if n not in ("Dense", "Normalize")]
    if names[:2] != ["Transformer", "Pooling"] or strange:
        raise WorkerError(
            "unsupported",
            f"modules.json lists {', '.join(names)}; Modelyard converts a Transformer, a "
            "Pooling, then Dense and Normalize",
            [f"sentence-transformers' {name}" for name in strange or names],
        )
    layers = [_dense(path) if name == "Dense" else Normalize() for name, path in modules[2:]]
    return Pooling(_modes(read_json(modules[1][1] / "config.json"))), nn.ModuleList(layers)


def _modes(config: dict[str, Any]) -> list[str]:
    found = [mode for mode in _MODES if config.get(f"pooling_mode_{mode}")]
    named = config.get("pooling_mode")
    if not found and named:
        parts = named if isinstance(named, list) else [named]
        found = [_SHORT.get(str(part), str(part)) for part in parts]
    if not found or any(mode not in _MODES for mode in found):
        raise WorkerError("unsupported", f"the Pooling's config has no known mode: {config}")
    return found


def _dense(folder: Path) -> Dense:
    config = read_json(folder / "config.json")
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    try:
        activation = getattr(nn, name.rpartition(".")[2])()
    except (AttributeError, TypeError):  # none of torch's, or one that needs settings
        activation = None
    if not name.startswith("torch.nn.modules.") or not isinstance(activation, nn.Module):
        raise WorkerError("unsupported", f"Dense has the activation {name}")
    linear = nn.Linear(config["in_features"], config["out_features"], config.get("bias", True))
    layer = Dense(linear, activation)
    from ...pytorch.child.weights import load_into

    path = folder / "model.safetensors"
    load_into(layer, path if path.is_file() else folder / "pytorch_model.bin", None, False)
    return layer
