"""What a module of a model gave, and all that it calls: its own modules and torch's functions.

Of each tensor a fixed choice of its values is kept, taken when it was made: code that works in
place changes it later. The parent finds the tensors of a graph by them.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ...worker import npz
from ...worker.errors import OURS
from .program_lines import origin
from .tensors import plain

VALUES = 4096
"""Most values of a tensor; the parent's `converter.runtime.session.Excerpt` takes the same."""

_TORCH = os.path.dirname(os.path.realpath(torch.__file__))  # noqa: PTH120
_STORED = (torch.float16, torch.float32, torch.float64)


class Recorder(TorchFunctionMode):  # type: ignore[misc]  # torch is not type-checked
    """Notes, while it is entered, each run of a module after what that calls.

    Args:
        model: The whole model.
        inner: What our wrappers add to the paths of the user's modules.
        inside: The module, by its path.
    """

    def __init__(self, model: Any, inner: str, inside: str) -> None:
        super().__init__()
        self._paths = {module: path for path, module in model.named_modules()}
        self._inner, self._inside = inner, inside
        self._running: list[tuple[str | None, str, str, list[str]]] = []
        self._hooks = ExitStack()
        self._busy = False
        self.parts: list[dict[str, Any]] = []
        self.tensors: dict[str, torch.Tensor] = {}
        self.shapes: dict[str, list[int]] = {}

    def __enter__(self) -> Recorder:
        for module in self._paths:
            before = module.register_forward_pre_hook(self._begin, with_kwargs=True)
            self._hooks.callback(before.remove)
            self._hooks.callback(module.register_forward_hook(self._end).remove)
        super().__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self._hooks.close()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Every function of torch comes by here."""
        own = self._running and self._running[-1][0] == self._inside
        if self._busy or not own:
            return func(*args, **(kwargs or {}))
        inputs = self._keys((args, kwargs or {}))
        result = func(*args, **(kwargs or {}))
        outputs = self._keys(args[:1] if result is None else result)  # x[0] = y gives None
        if outputs:
            frame, (path, kind, _, _) = _frame(), self._running[-1]
            told = (origin(frame, _TORCH) if frame else None) or (path, kind, _line(frame))
            self._note(*told, inputs, outputs, call=True)
        return result

    def _begin(self, module: Any, args: Any, kwargs: Any) -> None:
        kind = getattr(module, "original_name", type(module).__name__)
        inputs = self._keys((args, kwargs))
        self._running.append((self._path(module), kind, _place(module), inputs))

    def _end(self, module: Any, args: Any, result: Any) -> None:
        path, kind, place, inputs = self._running.pop()
        above = self._running[-1][0] if self._running else None
        if path is not None and self._inside in (path, above):
            self._note(path, kind, place, inputs, self._keys(result))

    def _path(self, module: Any) -> str | None:
        """As nodes are called after it; None for what is a wrapper of ours."""
        path: str = self._paths[module]
        if self._inner and (not path or path == self._inner[:-1]):
            return "" if path else None
        return path[len(self._inner) :] if path.startswith(self._inner) else path

    def _note(
        self,
        name: str | None,
        kind: str,
        place: str,
        inputs: list[str],
        outputs: list[str],
        call: bool = False,
    ) -> None:
        part = {"name": name, "kind": kind, "place": place, "inputs": inputs, "outputs": outputs}
        self.parts.append({**part, "call": call})

    def _keys(self, value: Any) -> list[str]:
        """The tensors in a value, each by what it holds."""
        self._busy = True
        try:
            return [self._key(tensor) for tensor in _tensors(value)]
        finally:
            self._busy = False

    def _key(self, tensor: torch.Tensor) -> str:
        values = _chosen(tensor)
        key = f"{npz.digest(values)}-{tensor.dtype}-{'x'.join(map(str, tensor.shape))}"
        self.tensors[key] = values
        self.shapes[key] = list(tensor.shape)
        return key


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The dense real tensors in what a module takes or gives."""
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided and not (value.is_complex() or value.is_quantized):
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _tensors(getattr(value, field.name))


def _chosen(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of some of a tensor's values, evenly apart; of all where they are few."""
    flat, count = plain(tensor).reshape(-1), tensor.numel()
    if count > VALUES:
        flat = flat[torch.arange(VALUES) * (count - 1) // (VALUES - 1)]
    if flat.is_floating_point() and flat.dtype not in _STORED:
        flat = flat.float()
    return flat.clone()


def _place(module: Any) -> str:
    """Where a module's forward is; of torch's own modules, where it is called."""
    forward = getattr(module, "forward", None)
    code = getattr(inspect.unwrap(forward), "__code__", None) if forward else None
    if code is None or code.co_filename.startswith("<"):
        return ""
    own = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"  # noqa: PTH119
    return (_line(_frame()) or own) if _is_torchs(code.co_filename) else own


def _frame() -> FrameType | None:
    """What is running, below what called the model, that is neither ours nor torch's."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if file != __file__ and file.startswith(tuple(OURS)):
            return None
        if file != __file__ and not _is_torchs(file):
            return frame
        frame = frame.f_back
    return None


def _line(frame: FrameType | None) -> str:
    """``net.py:4``; empty for generated code."""
    if frame is None or frame.f_code.co_filename.startswith("<"):
        return ""
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"  # noqa: PTH119


def _is_torchs(file: str) -> bool:
    return file.startswith(_TORCH + os.sep)
