"""Models of transformers from configurations made small, with seeded random weights.

A configuration class gives its defaults; what says how wide and deep the model is is then set to
:data:`SMALL`, in the configurations inside it too. Nothing is fetched.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

SEED = 7
SMALL: dict[str, Any] = {
    **dict.fromkeys(("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_decoder_layers", "n_layer", "n_layers", "text_layers"), 2),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "d_kv_total"), 64),
    **dict.fromkeys(("intermediate_size", "d_ff", "hidden_dim", "mlp_dim"), 128),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "n_inner"), 128),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_heads", "n_head"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    "num_key_value_heads": 2,
    "head_dim": 16,
    "d_kv": 16,
    "projection_dim": 32,
    "vocab_size": 600,
    "max_position_embeddings": 128,
    "n_positions": 128,
    "image_size": 64,
}
"""Attributes of configurations, and what they become where a configuration has them."""

WORDS, ROWS = 16, 2


@dataclass(frozen=True)
class Made:
    """A model, and what it is converted on.

    Attributes:
        module: In inference mode; its forward takes the samples by name.
        samples: Arrays by the inputs' names, :data:`ROWS` samples each.
        size: How it differs from what the class gives: "small", or empty.
    """

    module: torch.nn.Module
    samples: dict[str, np.ndarray[Any, Any]]
    size: str = ""


@dataclass(frozen=True)
class Form:
    """How a model of a type is made for a task.

    Attributes:
        type: transformers' ``model_type``.
        auto: The Auto class, or another class of transformers.
        outputs: The outputs that the task has; the first that is there, with commas those.
        inputs: Of the model: ``ids``, ``pixels``, ``decoder`` and others of :func:`_samples`.
        options: Of the configuration, beyond :data:`SMALL`.
    """

    type: str
    auto: str
    outputs: str
    inputs: str
    options: Mapping[str, Any] = field(default_factory=dict)
    narrow: bool = True


class Answer(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked
    """A model of transformers whose inputs are named, and whose outputs are the task's alone.

    Args:
        model: The model of transformers.
        inputs: Names of its inputs, in order.
        outputs: Names of the outputs that are the task's, separated by commas.
    """

    def __init__(self, model: torch.nn.Module, inputs: list[str], outputs: str) -> None:
        super().__init__()
        self.model, self.given, self.wanted = model, inputs, outputs.split(",")
        known = inspect.signature(model.forward).parameters
        self.more = {"return_dict": True} | {"use_cache": False} if "use_cache" in known else {}
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        listed = [inspect.Parameter(name, kind) for name in inputs]
        self.forward = self._forward()
        self.forward.__signature__ = inspect.Signature(listed)

    def _forward(self) -> Any:
        def forward(*args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
            values = {**dict(zip(self.given, args, strict=False)), **kwargs}
            found = self.model(**values, **self.more)
            return {name: found[name] for name in self.wanted if found.get(name) is not None}

        return forward


def make(form: Form) -> Made:
    """A model of transformers, and samples for it.

    Raises:
        Whatever transformers raises: it doesn't build this type from a configuration.
    """
    import transformers

    torch.manual_seed(SEED)
    config = configuration(form)
    kind = getattr(transformers, form.auto)
    model = kind.from_config(config) if form.auto.startswith("Auto") else kind(config)
    _stir(model)
    samples = _samples(form.inputs.split(), model, config)
    if "input_features" in samples:
        model = model.get_encoder()
    answer = fitted(Answer(model.eval(), [*samples], form.outputs), samples)
    return Made(answer, samples, "small" if form.narrow else "")


def _stir(model: torch.nn.Module) -> None:
    """Gives matrices of zeros random values: a head of zeros gives every box the same score, and
    which boxes are the best is then left to chance."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1 and not weight.any():
                weight.normal_(std=0.02)


def fitted(model: torch.nn.Module, samples: Mapping[str, np.ndarray[Any, Any]]) -> torch.nn.Module:
    """A model whose batch normalization has the statistics of its samples, as training would give
    it: with those of no data, values fade from layer to layer, and outputs hardly differ."""
    norms = [part for part in model.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all
        norm.train()
    if norms:
        with torch.no_grad():
            model(**{name: torch.from_numpy(array) for name, array in samples.items()})
    return model.eval()


def configuration(form: Form) -> Any:
    """The type's configuration, made small."""
    from transformers import CONFIG_MAPPING

    kind = CONFIG_MAPPING[form.type]
    return kind(**_merged(small(kind()) if form.narrow else {}, form.options))


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    inner = {
        name: _merged(one[name], value)
        for name, value in other.items()
        if isinstance(value, Mapping) and name in one
    }
    return {**one, **other, **inner}


def small(config: Any) -> dict[str, Any]:
    """What to make another configuration of a class with: :data:`SMALL`, inside it too."""
    found = {name: value for name, value in SMALL.items() if _is_number(config, name)}
    for name in getattr(type(config), "sub_configs", {}):
        inner = getattr(config, name, None)
        if inner is not None and name != "backbone_config":
            found[name] = {"model_type": inner.model_type, **small(inner)}
    return found


def _is_number(config: Any, name: str) -> bool:
    value = getattr(config, name, None)
    return isinstance(value, int) and not isinstance(value, bool)


def _samples(kinds: list[str], model: Any, config: Any) -> dict[str, np.ndarray[Any, Any]]:
    draw = np.random.default_rng(SEED)
    text = getattr(config, "text_config", None) or config
    vocabulary = min(int(getattr(text, "vocab_size", 600) or 600), 600)

    def ids(length: int = WORDS) -> np.ndarray[Any, Any]:
        return draw.integers(4, vocabulary - 1, (ROWS, length))

    def mask(length: int = WORDS) -> np.ndarray[Any, Any]:
        kept = np.ones((ROWS, length), np.int64)
        kept[0, length - 3 :] = 0
        return kept

    def pixels(*lead: int) -> np.ndarray[Any, Any]:
        channels = int(getattr(_vision(config), "num_channels", 3) or 3)
        return draw.normal(size=(ROWS, *lead, channels, *_side(config))).astype(np.float32)

    makers = {
        "ids": lambda: {"input_ids": ids(), "attention_mask": mask()},
        "types": lambda: {"token_type_ids": np.zeros((ROWS, WORDS), np.int64)},
        "ended": lambda: {"input_ids": _with(ids(), -1, config.eos_token_id)},
        "seen": lambda: {"input_ids": _with(ids(), slice(4), config.image_token_id)},
        "only-ids": lambda: {"input_ids": ids()},
        "pixels": lambda: {"pixel_values": pixels()},
        "decoder": lambda: {"decoder_input_ids": ids(6)},
        "video": lambda: {"pixel_values": pixels(8)},
        "mel": lambda: {"input_features": draw.normal(size=(ROWS, 80, 3000)).astype(np.float32)},
        "speech": lambda: {
            "decoder_input_values": draw.normal(size=(ROWS, 4, 80)).astype(np.float32),
            "speaker_embeddings": draw.normal(size=(ROWS, 512)).astype(np.float32),
        },
        "points": lambda: {"input_points": draw.uniform(4, 60, (ROWS, 1, 2, 2)).astype(np.float32)},
        "patches": lambda: {
            "flattened_patches": _patches(draw.normal(size=(ROWS, 12, 770))),
            "attention_mask": np.ones((ROWS, 12), np.float32),
        },
    }
    found: dict[str, np.ndarray[Any, Any]] = {}
    for kind in kinds:
        found |= makers[kind]()
    return found


def _with(ids: np.ndarray[Any, Any], where: Any, token: int) -> np.ndarray[Any, Any]:
    ids[:, where] = token
    return ids


def _patches(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Pix2Struct's: a patch's row and column, from 1, before its pixels."""
    values[:, :, 0], values[:, :, 1] = np.arange(12) // 4 + 1, np.arange(12) % 4 + 1
    return values.astype(np.float32)


def _vision(config: Any) -> Any:
    return getattr(config, "vision_config", None) or getattr(config, "encoder", None) or config


def _side(config: Any) -> tuple[int, int]:
    prompt = getattr(config, "prompt_encoder_config", None)
    size = getattr(prompt or _vision(config), "image_size", None) or 64
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
