"""Calls of ATen's operators in which an argument counts: out of PyTorch's own samples, or made.

:mod:`torch.testing` has samples for each public function (``op_db``); what they call in ATen is
noted. An argument that they leave at its default is given another value here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

SEED = 20
SAMPLES = 30
"""The first samples of a function, for each dtype."""

KEPT = 2
"""Calls for each value of an argument."""

MOST = 24
"""Calls of an operator."""

LARGEST = 20_000
"""Numbers in a call."""

DTYPES = (torch.float32, torch.int64)


@dataclass
class Call:
    """One call of an operator."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    given: dict[str, Any] = field(default_factory=dict)
    """Arguments that have a default, and have another value here."""

    def tensors(self) -> list[torch.Tensor]:
        """All tensors in it, in order."""
        leaves, _ = tree_flatten((self.args, self.kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def on(self, tensors: Iterator[torch.Tensor]) -> Any:
        """What the operator gives for other tensors."""
        leaves, form = tree_flatten((self.args, self.kwargs))
        filled = [next(tensors) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(filled, form)
        return self.target(*args, **kwargs)

    def run(self) -> Any:
        """What it gives; random numbers are those of one seed."""
        torch.manual_seed(SEED)
        return self.on(tensor.clone() for tensor in self.tensors())

    def without(self, name: str) -> Call:
        """The same with the default of one argument."""
        return self.having(name, defaults(self.target)[name])

    def having(self, name: str, value: Any) -> Call:
        """The same with another value of one argument."""
        args, kwargs = list(self.args), {**self.kwargs}
        names = [argument.name for argument in self.target._schema.arguments]
        if names.index(name) < len(args):
            args[names.index(name)] = value
        else:
            kwargs[name] = value
        return made(self.target, tuple(args), kwargs)


def defaults(target: Any) -> dict[str, Any]:
    """The defaults of an operator's arguments, where they have one."""
    return {
        a.name: a.default_value for a in target._schema.arguments if a.has_default_value()
    }  # fmt: skip


def made(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
    """A call, with what it gives beside defaults.

    Args:
        target: The operator.
        args: What it is given by position.
        kwargs: What it is given by name.
    """
    names = [argument.name for argument in target._schema.arguments]
    values = {**dict(zip(names, args, strict=False)), **kwargs}
    default = defaults(target)
    given = {
        name: value
        for name, value in values.items()
        if name in default and not _same(value, default[name])
    }
    return Call(target, args, dict(kwargs), given)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return one is other
    if isinstance(one, (list, tuple)) and isinstance(other, int):
        return all(item == other for item in one) and bool(one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return list(one) == list(other)
    return type(one) is type(other) and bool(one == other)


class _Noting(SchemaCheckMode):  # type: ignore[misc]  # torch is not type-checked
    """Notes calls as torch.export sees them: before functions that are made of others are split."""

    def __init__(self, note: Callable[[Any, Any, Any], None]) -> None:
        super().__init__()
        self._dispatch_key = torch._C.DispatchKey.PreDispatch
        self._note = note

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._note(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


class _NotingParts(TorchDispatchMode):  # type: ignore[misc]  # torch is not type-checked
    """Notes calls as a decomposed program has them."""

    def __init__(self, note: Callable[[Any, Any, Any], None]) -> None:
        super().__init__()
        self._note = note

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._note(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def collect(wanted: Mapping[str, Any]) -> dict[str, list[Call]]:
    """Calls of each wanted operator, by its name: few for each value of each argument."""
    found: dict[str, list[Call]] = {name: [] for name in wanted}
    seen: dict[Any, int] = {}

    def note(func: Any, args: Any, kwargs: Any) -> None:
        name = func.name()
        if name not in found or not _is_plain((args, kwargs)):
            return
        call = made(func, tuple(args), kwargs)
        keys = kinds(call)
        counts = [seen.get((name, key), 0) for key in keys]
        if min(counts) >= KEPT or (len(found[name]) >= MOST and min(counts)):
            return
        for key in keys:
            seen[name, key] = seen.get((name, key), 0) + 1
        found[name].append(_copied(call))

    for info in op_db:
        for dtype in DTYPES:
            if info.supports_dtype(dtype, "cpu"):
                _note_samples(info, dtype, note)
    for name, calls in found.items():
        calls += [] if calls else _by_number(wanted[name])
    return found


def _by_number(target: Any) -> list[Call]:
    """Calls of an operator whose second argument is a number, where its like takes a tensor."""
    names = [argument.name for argument in target._schema.arguments]
    numbers = [str(argument.type) == "number" for argument in target._schema.arguments[:2]]
    if len(names) < 2 or not any(numbers):
        return []
    tensors = torch.tensor([[3.5, -2.0, 7.0], [0.5, -4.25, 1.0]]), torch.tensor([[3, -2, 7, 1]])
    tries = [
        made(target, tuple(n if number else t for number in numbers), {})
        for t in tensors
        for n in (2, 3, 1.5)
    ]
    return [call for call in tries if _runs(call)]


def _runs(call: Call) -> bool:
    try:
        call.run()
    except Exception:  # not for these dtypes
        return False
    return True


def _note_samples(info: Any, dtype: torch.dtype, note: Callable[[Any, Any, Any], None]) -> None:
    torch.manual_seed(SEED)
    random.seed(SEED)
    try:
        samples = [*islice(info.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES)]
    except Exception:  # a package that samples need isn't here
        return
    for sample in samples:
        modes = [_Noting(note), _NotingParts(note)] if dtype.is_floating_point else [_Noting(note)]
        for mode in modes:
            with suppress(Exception), enable_python_dispatcher(), mode:
                info.op(sample.input, *sample.args, **sample.kwargs)


_PLAIN = (
    *(torch.Tensor, torch.nn.Parameter, int, float, bool, str, type(None)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)


def _is_plain(values: Any) -> bool:
    leaves, _ = tree_flatten(values)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return (
        all(type(leaf) in _PLAIN for leaf in leaves)
        and sum(t.numel() for t in tensors) < LARGEST
        and all(
            t.numel() and t.layout is torch.strided and not (t.is_complex() or t.is_quantized)
            for t in tensors
        )
    )


def _copied(call: Call) -> Call:
    args, kwargs = tree_map(
        lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf,
        (call.args, call.kwargs),
    )
    return made(call.target, args, kwargs)


def kinds(call: Call) -> list[Any]:
    """What a call shows: each value of an argument, the dtypes and ranks of its tensors."""
    tensors = call.tensors()
    form = tuple((t.dtype, min(t.dim(), 2), t.numel() == 0) for t in tensors[:2])
    values = [(name, _short(value)) for name, value in call.given.items()]
    names = [argument.name for argument in call.target._schema.arguments]
    required = [
        (name, _short(value))
        for name, value in zip(names, call.args, strict=False)
        if isinstance(value, (bool, str))
    ]
    return [("form", form), *values, *required]


def _short(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, (bool, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return tuple(type(item).__name__ for item in value)[:4]
    return (type(value).__name__, value > 0) if isinstance(value, (int, float)) else str(value)


def others(argument: Any, default: Any) -> list[Any]:
    """Values to try for an argument that no sample gives."""
    kind = str(argument.real_type)
    if "ScalarType" in kind:
        return [torch.float64]
    if "bool" in kind and "List" not in kind:
        return [not default]
    if "List[int]" in kind:
        size = argument.N or len(default or ()) or 1
        return [[2] * size, [1] * size, [3] * size, [0] * size]
    if "int" in kind and "List" not in kind:
        return [2, 1, 3, 0, -1, 5]
    if ("float" in kind or "number" in kind) and "List" not in kind:
        return [0.3, 1.7, -0.4, 3, 2]
    return []


def complete(target: Any, calls: list[Call]) -> tuple[list[Call], list[str]]:
    """Calls for arguments that none of `calls` gives, and the arguments that got none."""
    added, left = [], []
    for argument in target._schema.arguments:
        if not argument.has_default_value() or any(argument.name in c.given for c in calls):
            continue
        found = next(_counting(calls, argument), None)
        if found is None:
            left.append(argument.name)
        else:
            added.append(found)
    return added, left


def _counting(calls: list[Call], argument: Any) -> Iterator[Call]:
    for value in others(argument, argument.default_value):
        for call in calls[:12]:
            changed = call.having(argument.name, value)
            try:
                if argument.name in changed.given and counts(changed, argument.name):
                    yield changed
            except Exception:  # no value for this call
                continue


def counts(call: Call, name: str) -> bool:
    """Whether the operator gives something else with an argument's default. Raises what it does."""
    return not alike(call.run(), call.without(name).run())


def alike(one: Any, other: Any) -> bool:
    """Whether two results are the same, bit for bit."""
    first, second = tree_flatten(one)[0], tree_flatten(other)[0]
    return len(first) == len(second) and all(
        torch.equal(a.nan_to_num(7.25), b.nan_to_num(7.25)) and a.dtype == b.dtype
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape
        else not isinstance(a, torch.Tensor) and a == b
        for a, b in zip(first, second, strict=True)
    )
