"""A model seen as a function from a flat list of tensors to a flat list of named tensors."""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import torch

from ...worker.errors import WorkerError
from .signature import Plan
from .states import States

Named = tuple[str, torch.Tensor]


def _join(prefix: str, key: object) -> str:
    return f"{prefix}.{key}" if prefix else str(key)


def _items(value: Any, prefix: str) -> list[tuple[str, Any]] | None:
    """The named parts of a container; None if the value is no container that is understood."""
    if isinstance(value, Mapping):
        return [(_join(prefix, key), item) for key, item in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(_join(prefix, key), item) for key, item in zip(value._fields, value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return [(_join(prefix, f.name), getattr(value, f.name)) for f in fields]
    if isinstance(value, (tuple, list)):
        start = f"{prefix}." if prefix else "output_"
        return [(f"{start}{index}", item) for index, item in enumerate(value)]
    return None


def _only_keyed(value: Any) -> Any:
    """The dict, or the like, inside lists and tuples that hold nothing else; else the value.

    A detector gives a list of a dict for each image, a scripted one beside an empty dict.
    """
    inner = value
    while isinstance(inner, (tuple, list)) and not hasattr(inner, "_fields"):
        held = [item for item in inner if item is not None and not _is_empty(item)]
        if len(held) != 1:
            return value
        inner = held[0]
    return value if isinstance(inner, torch.Tensor) else inner


def _is_empty(item: Any) -> bool:
    return isinstance(item, (Mapping, tuple, list)) and not item


def _leaves(value: Any, prefix: str) -> Iterator[Named]:
    if value is None:
        return
    if isinstance(value, torch.Tensor):
        yield prefix or "output", value
        return
    items = _items(value, prefix)
    if items is None:
        name = f"output {prefix!r}" if prefix else "the output"
        raise WorkerError(
            "unsupported",
            f"{name} is a {type(value).__name__}, not a tensor; forward must return tensors, or "
            "tuples, lists, dicts, named tuples or dataclasses of them",
        )
    for name, item in items:
        yield from _leaves(item, name)


def flatten_outputs(value: Any) -> list[Named]:
    """What forward returned, as (name, tensor) pairs in order; None entries are dropped.

    A lone tensor is `output`, items of a tuple or list `output_0` and on, others carry their
    keys, nested ones joined by a dot. A dict that is all there is in a list lends its keys alone.
    Raises unsupported for anything that is no dense real
    tensor, and for names that collide.
    """
    found = list(_leaves(_only_keyed(value), ""))
    if not found:
        raise WorkerError("unsupported", "forward returned no tensor")
    names = [name for name, _ in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise WorkerError("unsupported", f"two outputs are called {', '.join(twice)}")
    for name, tensor in found:
        if tensor.is_complex() or tensor.layout is not torch.strided or tensor.is_quantized:
            kind = "quantized" if tensor.is_quantized else f"{tensor.dtype} {tensor.layout}"
            raise WorkerError("unsupported", f"output {name!r} is a {kind} tensor")
    return found


class LastCall:
    """What the last call of a Flat told about its outputs."""

    def __init__(self) -> None:
        self.output_names: list[str] = []
        self.problem: WorkerError | None = None
        self.watch: Callable[[], Any] = nullcontext


class Flat(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked
    """A model whose forward takes the planned inputs in order and returns a tuple of tensors.

    States follow the inputs, and what they are after the run follows the outputs.

    Args:
        model: The user's.
        plan: Which input goes where.
        explicit: Whether states are inputs and outputs; else each run starts with them as they are
            stored.
    """

    def __init__(self, model: torch.nn.Module, plan: Plan, explicit: bool = True) -> None:
        super().__init__()
        self.model = model
        self.plan = plan
        self.states = States(model, explicit)
        # Not attributes of the module: torch.export puts those back as they were.
        self._last = LastCall()
        self.eval()

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs: the plan's, then states."""
        return (*self.plan.names, *(state.name for state in self.states.fed))

    @property
    def output_names(self) -> list[str]:
        """The names of the last call's outputs."""
        return self._last.output_names

    @property
    def problem(self) -> WorkerError | None:
        """Why the last call's result could not be flattened; a tracer may hide that."""
        return self._last.problem

    def watch(self, make: Callable[[], Any] | None) -> None:
        """Have calls run in the context that `make` makes; None for none."""
        self._last.watch = make or nullcontext

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Tensors in the order of `names` to tensors in the order of output_names."""
        count = len(self.plan.names)
        args, kwargs = self.plan.arguments(tensors[:count])
        with self._last.watch(), self.states.started(tensors[count:]) as after:
            result = self.model(*args, **kwargs)
        self._last.problem = None
        try:
            found = flatten_outputs(result)
        except WorkerError as error:
            self._last.problem = error
            raise
        found += [(f"{s.name}_out", value) for s, value in zip(self.states.fed, after)]
        self._last.output_names = [name for name, _ in found]
        return tuple(tensor for _, tensor in found)

    def final_names(self, asked: list[str] | None) -> tuple[list[str], list[str]]:
        """See `final_names`; states keep their own names, where the user doesn't give them."""
        kept = [f"{state.name}_out" for state in self.states.fed]
        own = self.output_names[: len(self.output_names) - len(kept)]
        if asked and len(asked) == len(self.output_names):
            own, kept = self.output_names, []
        names, notes = final_names(own, asked, self.names)
        return [*names, *kept], notes


def final_names(
    produced: list[str], asked: list[str] | None, inputs: tuple[str, ...]
) -> tuple[list[str], list[str]]:
    """Output names after the user's own override those produced, and warnings.

    An output that is called like an input gets `_out` appended: ONNX has one name space.

    Args:
        produced: What forward's outputs are called.
        asked: The user's own names; None: as produced.
        inputs: Names that are taken.

    Raises:
        WorkerError: ``usage`` where the user's names are not as many as the outputs, or are taken.
    """
    if asked:
        if len(asked) != len(produced):
            raise WorkerError(
                "usage",
                f"{len(asked)} output names for {len(produced)} outputs: {', '.join(produced)}",
                produced,
                code="interface-mismatch",
            )
        clash = sorted(set(asked) & set(inputs))
        if clash or len(set(asked)) != len(asked):
            raise WorkerError(
                "usage",
                f"output names must be new: {', '.join(clash or asked)}",
                code="interface-mismatch",
            )
        return list(asked), []
    names, warnings = [], []
    for name in produced:
        fresh = name
        while fresh in inputs or fresh in names or (fresh != name and fresh in produced):
            fresh += "_out"
        if fresh != name:
            warnings.append(f"output {name} is called {fresh}: an input has that name")
        names.append(fresh)
    return names, warnings
