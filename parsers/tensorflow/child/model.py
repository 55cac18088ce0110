"""A TensorFlow model that is open, whatever its file was: a function of flat tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any


@dataclass
class TensorInfo:
    """An input or output as the user knows it.

    `shape` has None for a free dimension, or is None where even the rank is unknown.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass
class Opened:
    """What a file turned out to hold.

    `function` takes tensors in the order of `inputs` and returns a flat sequence of tensors in
    the order of `outputs`; it can be traced by `tf.function` and called eagerly. Whatever it
    needs to stay alive is in `keep`. `layout` is "channels_last" or "channels_first" where the
    file says so. `parameters` counts the weights. `pictures` is what is known of how pictures
    become the input: `images`, fields of a request, and `origin`, what says them. While
    `kept()` is open, layers that training needs are operators that a trace keeps.
    """

    kind: str
    function: Callable[..., Sequence[Any]]
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    parameters: int = 0
    layout: str = ""
    signature: str = ""
    signatures: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    pictures: dict[str, Any] = field(default_factory=dict)
    kept: Callable[[], AbstractContextManager[None]] = nullcontext
    keep: Any = None
