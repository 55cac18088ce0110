"""Translations to ONNX of our own, where torch's give something else than the model itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def table() -> dict[Any, Callable[..., Any]]:
    """By operator of torch's; for ``torch.onnx.export(custom_translation_table=)``."""
    from . import attention, recurrent

    return {**attention.TABLE, **recurrent.TABLE}
