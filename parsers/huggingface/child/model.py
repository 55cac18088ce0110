"""A transformers model for one task, as a module with named tensors in and out."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ...worker.errors import WorkerError
from .tasks import EMBEDDING, Task

# What a forward is told besides its inputs, where it knows the word.
_CONSTANTS = {"use_cache": False, "return_dict": True}


class TaskModel(nn.Module):  # type: ignore[misc]  # torch is not type-checked
    """Inputs in order to a dict of the task's outputs.

    forward's signature lists the names, so that inputs find their place as with any model.

    Args:
        model: The transformers model.
        task: What it does.
        names: Its inputs, in order.
        required: Those that can't be left out.
        sentence: The pooling and the layers after it; None: the model's own outputs are given.
    """

    # What is ours in the paths of the user's modules.
    INNER = "model."

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        names: Sequence[str],
        required: Sequence[str],
        sentence: tuple[nn.Module, nn.ModuleList] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.task = task
        self.names = tuple(names)
        self.left_out: tuple[str, ...] = ()
        self.pooling = sentence[0] if sentence else None
        self.after = sentence[1] if sentence else ()
        known = inspect.signature(model.forward).parameters
        open_ended = any(p.kind is p.VAR_KEYWORD for p in known.values())
        self.constants = {
            name: value for name, value in _CONSTANTS.items() if name in known or open_ended
        }
        self.forward = self._forward_with_signature(required)

    def _forward_with_signature(self, required: Sequence[str]) -> Any:
        def forward(*args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
            values = {**dict(zip(self.names, args)), **kwargs}  # noqa: B905
            return self._run({name: v for name, v in values.items() if v is not None})

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        empty = inspect.Parameter.empty
        # `names` has the required ones first: none without a default may follow one with.
        listed = [
            inspect.Parameter(name, kind, default=empty if name in required else None)
            for name in self.names
        ]
        forward.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
        return forward

    def _run(self, values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        result = self.model(**values, **self.constants)
        if self.task.name == EMBEDDING:
            return {EMBEDDING.replace("-", "_"): self._embedded(result, values)}
        found = {name: result.get(name) for name in self.task.outputs if name not in self.left_out}
        found = {name: value for name, value in found.items() if value is not None}
        if not found:
            raise WorkerError(
                "unsupported",
                f"{type(self.model).__name__} gives {', '.join(result.keys())}, but "
                f"{self.task.name} needs {' or '.join(self.task.outputs)}",
            )
        return found

    def _embedded(self, result: Any, values: dict[str, torch.Tensor]) -> torch.Tensor:
        assert self.pooling is not None
        mask = values.get("attention_mask")
        if mask is None:
            mask = torch.ones_like(values["input_ids"])
        pooled = self.pooling(result.last_hidden_state, mask)
        for layer in self.after:
            pooled = layer(pooled)
        return pooled


def ordered(
    inputs: Sequence[dict[str, Any]], main: Sequence[str], others: Sequence[str]
) -> list[str]:
    """Names for forward's signature: the main inputs, the other declared ones, and the rest.

    Args:
        inputs: The declared ones, with their `name`.
        main: Names that come first.
        others: Names that the model takes besides.
    """
    declared = [item["name"] for item in inputs]
    first = [name for name in declared if name in main]
    return list(dict.fromkeys([*first, *declared, *others]))
