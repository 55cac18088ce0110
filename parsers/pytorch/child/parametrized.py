"""Weights that a module computes of others (torch.nn.utils.parametrize), computed once.

In eval mode they hang on parameters alone; what computes them (a matrix exponential, a solved
system, singular vectors) has no place in the graph, and often none in ONNX.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.utils import parametrize


@contextmanager
def computed(model: Any) -> Iterator[None]:
    """Has a trace of the model take its parametrized weights as they are.

    ``parametrize.cached`` keeps what is computed first; here that is done before the trace.
    """
    with parametrize.cached():
        with torch.no_grad():
            for module in model.modules():
                for name in getattr(module, "parametrizations", {}):
                    getattr(module, name)
        yield
