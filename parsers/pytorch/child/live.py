"""A PyTorch module that is alive in the caller's process, read where it is.

Nothing of the process stays changed: the module's modes, the random generators, the collector.
"""

from __future__ import annotations

import copy
import gc
import random
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ...worker.errors import WorkerError
from ...worker.protocol import Channel, Method
from .backend import TorchBackend


class LiveTorchBackend(TorchBackend):
    """The module, in eval mode and without gradients until `restore`."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._undo: list[Callable[[], object]] = []
        self._collecting = gc.isenabled()

    def methods(self) -> dict[str, Method]:
        """The base class' methods; whether gradients are recorded stays the thread's own."""
        return {name: _without_gradients(method) for name, method in super().methods().items()}

    def _import_framework(self) -> None:
        if self._framework is not None:
            return
        frozen = gc.get_freeze_count()
        super()._import_framework()
        if not frozen:
            gc.unfreeze()

    def load(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """As the base class has it; `live` is the module."""
        self.restore()
        self._remember_process()
        return super().load(params)

    def _forget(self) -> None:
        """Drop the previous model. The user's modules are the process's own, and stay."""
        self._model = self._flat = self._outputs = self._opened = None

    def _build(self, params: Mapping[str, Any]) -> tuple[Any, str]:
        model = params["live"]
        if any(t.device.type == "meta" for t in model.parameters()):
            raise WorkerError(
                "usage",
                "the module is on the meta device, so it holds no weights",
                code="not-a-model",
            )
        if any(t.device.type != "cpu" for t in (*model.parameters(), *model.buffers())):
            return copy.deepcopy(model).cpu(), "live"
        modes = [(part, part.training) for part in model.modules()]
        grads = [(value, value.requires_grad) for value in model.parameters()]
        self._undo += [partial(setattr, part, "training", mode) for part, mode in modes]
        self._undo += [partial(value.requires_grad_, grad) for value, grad in grads]
        return model, "live"

    def _remember_process(self) -> None:
        """Note what a conversion changes in the process."""
        import numpy as np
        import torch

        plain, arrays = random.getstate(), np.random.get_state()
        tensors, bytecode, path = torch.random.get_rng_state(), sys.dont_write_bytecode, sys.path[:]
        self._undo = [
            lambda: random.setstate(plain),
            lambda: np.random.set_state(arrays),
            lambda: torch.random.set_rng_state(tensors),
            gc.enable if self._collecting else gc.disable,
            lambda: setattr(sys, "dont_write_bytecode", bytecode),
            lambda: sys.path.__setitem__(slice(None), path),
        ]

    def restore(self) -> None:
        """Put back all that was changed."""
        self._model = self._flat = None
        while self._undo:
            self._undo.pop()()


def _without_gradients(method: Method) -> Method:
    def call(params: Mapping[str, Any]) -> Mapping[str, Any]:
        import torch

        with torch.no_grad():
            return method(params)

    return call
