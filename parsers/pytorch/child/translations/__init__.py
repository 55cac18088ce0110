"""Translations of our own, where torch's lose an argument or give something else than eager.

``bench/arguments.py`` holds each operator's arguments against eager; its page, docs/arguments.md,
says which are translated here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .unread import require_read

Translation = Callable[..., Any]

_ALIASES = ("divide", "true_divide", "multiply", "subtract")
_COMPARED = ("greater", "greater_equal", "less", "less_equal")
DECOMPOSED = (
    "aten::cross_entropy_loss",  # label_smoothing, targets that are probabilities
    # the exporter brings types together for what they are names of, and not for these
    *(f"aten::{name}.{kind}" for name in _ALIASES for kind in ("Tensor", "Scalar")),
    *(f"aten::{name}.Tensor" for name in _COMPARED),
)
"""What torch's own decomposition gives right, and its translation doesn't."""


def table() -> dict[Any, Translation]:
    """Our translations by operator, as torch.onnx.export takes them."""
    from . import (
        attention,
        batch_norm,
        division,
        elementwise,
        masks,
        pools,
        quantize,
        recurrent,
        repeats,
        resize,
        scatter,
    )

    parts: list[Any] = [attention, batch_norm, division, elementwise, masks, pools]
    parts += [quantize, recurrent, repeats, resize, scatter]
    named: dict[str, Translation] = {}
    for part in parts:
        named.update(part.TABLE)
    found = {_operator(name): function for name, function in named.items()}
    return {operator: function for operator, function in found.items() if operator is not None}


def _operator(name: str) -> Any:
    """The operator of a name such as ``aten.scatter.src``; None where this torch has none."""
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


@contextmanager
def in_place() -> Iterator[None]:
    """Has torch decompose what it should rather not translate, and refuse what it would lose."""
    try:
        from torch.onnx._internal.exporter import _dispatching
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        dispatch, make = _dispatching.dispatch, vars(ONNXRegistry)["from_torchlib"]
    except (ImportError, AttributeError):  # another version: the check after it has to see it
        yield
        return

    def without(*args: Any, **options: Any) -> Any:
        registry = make.__get__(None, ONNXRegistry)(*args, **options)
        for name in DECOMPOSED:
            registry.functions.pop(name, None)
        return registry

    def dispatch_whole(node: Any, registry: Any) -> Any:
        function, why = dispatch(node, registry)
        if function is not None:
            require_read(node, function)
        return function, why

    _dispatching.dispatch, ONNXRegistry.from_torchlib = (dispatch_whole, staticmethod(without))
    try:
        yield
    finally:
        _dispatching.dispatch, ONNXRegistry.from_torchlib = dispatch, make
