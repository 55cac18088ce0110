"""LiteRT in the tests' own process, stepped as its users do."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

Array = np.ndarray[Any, Any]


class Stepped:
    """An interpreter that keeps its state.

    Args:
        model: A file, or what is in one.
        inner: Whether any tensor can be looked at after a run; else only outputs. XNNPACK keeps
            inner ones to itself, so that this is without it.
    """

    def __init__(self, model: Path | bytes, *, inner: bool = True) -> None:
        kinds = OpResolverType
        kind = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES if inner else kinds.AUTO
        self._interpreter = Interpreter(
            model_content=model if isinstance(model, bytes) else model.read_bytes(),
            experimental_op_resolver_type=kind,
            experimental_preserve_all_tensors=inner,
        )
        self._interpreter.allocate_tensors()

    def run(self, feeds: Mapping[int, Array]) -> None:
        """Runs once; feeds by tensor number."""
        for index, array in feeds.items():
            self._interpreter.set_tensor(index, array)
        self._interpreter.invoke()

    def get(self, index: int) -> Array:
        """The value of any tensor after the run."""
        return np.asarray(self._interpreter.get_tensor(index))
