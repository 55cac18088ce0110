"""What Python takes out of tensors while a model runs: the values that a trace would keep.

`if mask.any()`, `int(length)`, `scores.tolist()`: a graph can hold neither the branch nor the
number. Where the tensor hangs on the model's own weights and buffers alone, the answer is always
the same, and a trace may have it; where it hangs on an input, the trace holds for its example.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

_TENSOR = torch.Tensor
_TAKING = frozenset(
    {
        *(_TENSOR.item, _TENSOR.tolist, _TENSOR.numpy, _TENSOR.equal, _TENSOR.is_nonzero),
        *(_TENSOR.__bool__, _TENSOR.__int__, _TENSOR.__float__, _TENSOR.__index__),
        *(_TENSOR.__array__, _TENSOR.allclose, torch.equal, torch.is_nonzero, torch.allclose),
    }
)
# Arrays, which no tracer is answered with.
_WHOLE = frozenset({_TENSOR.numpy, _TENSOR.__array__})
_CASTS = {_TENSOR.__bool__: bool, _TENSOR.__int__: int, _TENSOR.__index__: int}
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_FOLDERS = ("site-packages/", "dist-packages/")
# Frames of these are on the way to the line that took the value.
_PASSED_OVER = ("torch", __package__.partition(".")[0])


class Taken(NamedTuple):
    """One value: the line that took it, the value, and whether it hangs on weights alone."""

    place: str
    value: Any
    constant: bool

    def same_as(self, other: Taken) -> bool:
        """Whether the same line took the same value."""
        return self.place == other.place and _same(self.value, other.value)


def _same(one: Any, other: Any) -> bool:
    if hasattr(one, "shape") or hasattr(other, "shape"):
        one, other = (getattr(v, "tolist", lambda v=v: v)() for v in (one, other))
    # NaN is unlike itself, yet the same answer.
    return bool(one == other) or repr(one) == repr(other)


class Watch(TorchFunctionMode):  # type: ignore[misc]  # torch is not type-checked
    """Notes every value taken in one run of a model; or gives those that hang on weights alone.

    With `answers`, the constants taken in an earlier run, in order, it serves a tracer, whose
    tensors have no values: each constant is answered from there.
    """

    def __init__(self, model: torch.nn.Module, answers: Sequence[Any] | None = None) -> None:
        super().__init__()
        self.taken: list[Taken] = []
        self._model = model
        self._answers: Iterator[Any] | None = None if answers is None else iter(answers)
        # A tensor of which nothing is known is no constant: what scripted code made is not seen.
        self._constants: dict[Any, bool] = WeakIdKeyDictionary()

    def __enter__(self) -> Any:
        for module in self._model.modules():
            held = [*module._parameters.values(), *module._buffers.values(), *vars(module).values()]
            for tensor in held:
                if isinstance(tensor, torch.Tensor):
                    self._constants[tensor] = True
        return super().__enter__()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Every function of torch that Python calls comes by here."""
        kwargs = kwargs or {}
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        constant = all(tensor in self._constants for tensor in tensors)
        sized = any(isinstance(leaf, _SYMBOLS) for leaf in leaves)
        if func in _TAKING:
            return self._take(func, args, kwargs, constant)
        result = func(*args, **kwargs)
        if constant:
            for leaf in pytree.tree_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    self._constants[leaf] = not sized and all(
                        self._constants[tensor] for tensor in tensors
                    )
        else:
            self._forget_written(func, args, kwargs)
        return result

    def _take(self, func: Any, args: Any, kwargs: Any, constant: bool) -> Any:
        if self._answers is None or not constant or func in _WHOLE:
            value = func(*args, **kwargs)
            self.taken.append(Taken(_place(sys._getframe(2)), value, constant))
            return value
        listed = func is _TENSOR.tolist
        answer = self._listed(args[0].shape) if listed else next(self._answers)
        # What was made of a symbolic size was a constant in that run, and is none in a trace.
        if not self._constants[args[0]]:
            return func(*args, **kwargs)
        return _CASTS.get(func, lambda value: value)(answer)

    def _listed(self, shape: Sequence[int]) -> Any:
        """The next answers as tolist() gives them."""
        if not shape:
            return next(self._answers or iter(()))
        return [self._listed(shape[1:]) for _ in range(shape[0])]

    def _forget_written(self, func: Any, args: Any, kwargs: Any) -> None:
        """A tensor into which something else is written is no constant any more."""
        name = getattr(func, "__name__", "")
        written = [kwargs.get("out")]
        if name in ("__setitem__", "__set__") or name.startswith("__i") or name[-1:] == "_":
            written += args[:1]
        for tensor in written:
            if isinstance(tensor, torch.Tensor):
                self._constants.pop(tensor, None)

    def constants(self) -> list[Any]:
        """The values that hang on weights alone, in order and one by one: so a tracer asks."""
        found: list[Any] = []
        for taken in self.taken:
            if taken.constant and not hasattr(taken.value, "dtype"):
                found += pytree.tree_leaves(taken.value)
        return found

    def decisions(self) -> list[Taken]:
        """What hangs on the inputs."""
        return [taken for taken in self.taken if not taken.constant]


def _place(frame: FrameType | None) -> str:
    """`file:line` of the innermost frame that is neither torch's nor ours."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not any(name == top or name.startswith(f"{top}.") for top in _PASSED_OVER if top):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "torch"


def short(path: str) -> str:
    """A place without the folders of this machine: below site-packages, or the file's name."""
    path = path.replace("\\", "/")
    for folder in _FOLDERS:
        if folder in path:
            return path.rpartition(folder)[2]
    return path.rpartition("/")[2]
