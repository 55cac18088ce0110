"""Buffers that forward changes: what a model keeps from one call to the next.

    self.cache = cat([self.cache, x])[-3:]     ->  cache an input, cache_out an output

A graph keeps nothing. Where an output hangs on what such a buffer was, it becomes an input and an
output; where the user wants no state, it starts in each run as it is stored. Where none does (a
count of calls, scratch space), it does so too. Either is told.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from ...worker.errors import WorkerError
from .tensors import Spec, dtype_name

_LISTED = 4096
_COPIED = 1 << 24
_DEPTH = 100


@dataclass(frozen=True)
class State:
    """A buffer that forward changes.

    Attributes:
        path: Its dotted name.
        name: The input's; the output's has ``_out`` behind it.
        holder, key: Where it is.
        initial: Its value before the first call.
        fed: Whether an output hangs on what it was, so that it is an input.
        held: Whether an output does, and it keeps its value all the same.
    """

    path: str
    name: str
    holder: Any
    key: str
    initial: torch.Tensor
    fed: bool
    held: bool = False

    @property
    def spec(self) -> Spec:
        """The input's."""
        return Spec(self.name, dtype_name(self.initial.dtype), tuple(self.initial.shape))

    def start(self) -> Any:
        """The initial value as the parent keeps it: one number, a list, or None for a long one."""
        flat = self.initial.reshape(-1)
        if flat.numel() and bool((flat == flat[0]).all()):
            return flat[0].item()
        return self.initial.tolist() if 0 < flat.numel() <= _LISTED else None

    def told(self) -> str:
        """Its name and what it starts at."""
        start = self.start()
        shown = start if isinstance(start, (int, float)) else "the model's own values"
        return f"{self.name} (starts at {shown})"


def _alike(one: Any, other: Any) -> bool:
    """Whether both are tensors of one size and type."""
    tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    return tensors and one.shape == other.shape and one.dtype == other.dtype


class States:
    """The buffers of a model as they were, and those that turn out to change.

    Args:
        model: The model.
        explicit: Whether they become inputs and outputs; else each keeps its value.
    """

    def __init__(self, model: Any, explicit: bool = True) -> None:
        self._model, self._explicit = model, explicit
        self._before = {
            name: value if value.numel() > _COPIED else value.clone()
            for name, value in model.named_buffers()
        }
        self.changed: list[State] = []
        self.replaced: list[str] = []  # attributes that are no buffers, or become other sizes

    @property
    def fed(self) -> list[State]:
        """Those that are inputs and outputs."""
        return [state for state in self.changed if state.fed]

    def note(self, matters: Mapping[str, bool], taken: Iterable[str]) -> None:
        """Has these buffers be states; whether an output hangs on each.

        Args:
            matters: By dotted name.
            taken: Names that inputs and outputs have already.
        """
        names = set(taken)
        for path, matter in matters.items():
            fed, held = matter and self._explicit, matter and not self._explicit
            holder, _, key = path.rpartition(".")
            plain = re.sub(r"\W+", "_", path)
            name, number = plain, 1
            while name in names or f"{name}_out" in names:
                number += 1
                name = f"{plain}_{number}"
            names |= {name, f"{name}_out"}
            module = self._model.get_submodule(holder)
            self.changed.append(State(path, name, module, key, self._before[path], fed, held))

    @contextmanager
    def started(self, values: Sequence[Any]) -> Iterator[list[Any]]:
        """Has a run start from the given values; they are what it left, at the end.

        Whatever it changes, the model's own buffers stay as they are.
        """
        given = dict(zip((state.name for state in self.fed), values))
        traced = torch.compiler.is_compiling()
        replaced = self.fed if traced else self.changed
        own = [(state.holder._buffers, state.key) for state in replaced]
        before = [buffers[key] for buffers, key in own]
        for state, (buffers, key) in zip(replaced, own):
            buffers[key] = given.get(state.name, state.initial).clone()
        after: list[Any] = []
        try:
            with self._kept() if traced else nullcontext():
                yield after
                after += [state.holder._buffers[state.key] for state in self.fed]
        finally:
            for (buffers, key), value in zip(own, before):
                buffers[key] = value

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Has a trace see the assignment of a buffer, which torch.export does of the outermost
        module's alone, as a change in place; puts all attributes back."""
        modules = list(self._model.named_modules())
        held = [(dict(vars(module)), dict(module._buffers)) for _, module in modules]
        fed = {(state.holder, state.key) for state in self.fed}
        try:
            yield
            for (path, module), (_, buffers) in zip(modules, held):
                for key, tensor in buffers.items():
                    now = module._buffers[key]
                    if now is tensor or (module, key) in fed:
                        continue
                    if _alike(now, tensor):
                        tensor.copy_(now)
                    else:
                        self.replaced.append(f"{path}.{key}".lstrip("."))
        finally:
            for (path, module), (attributes, buffers) in zip(modules, held):
                now = vars(module)
                tensors = [key for key, value in now.items() if isinstance(value, torch.Tensor)]
                changed = [key for key in tensors if now[key] is not attributes.get(key)]
                self.replaced += [f"{path}.{key}".lstrip(".") for key in changed]
                module._buffers.update(buffers)
                for key in changed:
                    if key in attributes:
                        now[key] = attributes[key]
                    else:
                        del now[key]

    def warnings(self) -> list[str]:
        """What the report has to say of them."""
        said = []
        listed = ", ".join(state.told() for state in self.fed)
        if listed:
            said.append(
                "STATE IS EXPLICIT: forward changes buffers, and outputs depend on their "
                "earlier values. In the converted model each NAME is an input, and NAME_out "
                f"is the output to feed as NAME in the next run: {listed}"
            )
        held = ", ".join(state.told() for state in self.changed if state.held)
        if held:
            said.append(
                "STATE IS HELD: forward changes buffers, and outputs depend on their "
                "earlier values. With --no-state, each run of the converted model starts "
                "with the stored values, and forgets its changes. The source was compared "
                f"in the same way: {held}"
            )
        rest = ", ".join(item.path for item in self.changed if not (item.fed or item.held))
        if rest:
            said.append(
                "BUFFERS THAT FORWARD CHANGES: no output depends on their values before a "
                f"call, so the converted model doesn't keep them: {rest}"
            )
        return said


def require_none(model: Any, run: Callable[[], Sequence[torch.Tensor]]) -> None:
    """Raises unsupported for a model that keeps tensors from one run to the next, and gives
    something else for the same input by them: a trace has them as they were."""
    before = _held(model)
    first = run()
    kept = [
        path
        for path, (tensor, version) in _held(model).items()
        if path not in before or before[path][0] is not tensor or before[path][1] != version
    ]
    if kept and not all(map(_same, first, run())):
        raise WorkerError(
            "unsupported",
            f"the model keeps state between calls: forward changes {', '.join(kept)}, which "
            "a graph can't. Register such tensors as buffers of one size. Then they become "
            "inputs and outputs (with --no-state, they keep their stored values). Or "
            "rewrite forward so that it takes the state and returns it",
            [f"{path} is changed in forward" for path in kept],
        )


def _held(model: Any) -> dict[str, tuple[torch.Tensor, int]]:
    """The tensors in a model's attributes, each with the count of its changes in place."""
    return {
        f"{path}.{key}".lstrip("."): (value, value._version)
        for path, module in model.named_modules()
        for key, value in [*vars(module).items(), *module._buffers.items()]
        if isinstance(value, torch.Tensor)
    }


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and bool(torch.equal(one.nan_to_num(), other.nan_to_num()))


def changed(program: Any, prefix: str) -> dict[str, bool]:
    """The buffers that a traced program changes, and whether an output hangs on each.

    Args:
        program: A program of torch.export's, as traced.
        prefix: What our wrapper adds to their names.
    """
    if not _may_change(program):
        return {}
    functional = program.run_decompositions({})
    signature = functional.graph_signature
    nodes = {node.name: node for node in functional.graph.nodes}
    written = {buffer: nodes[name] for name, buffer in signature.buffers_to_mutate.items()}
    reads = dict(signature.inputs_to_buffers)
    waiting = [nodes[name] for name in signature.user_outputs if name in nodes]
    needed: set[str] = set()
    while waiting:
        found = {reads[name] for name in _sources(waiting) if name in reads} & set(written)
        waiting = [written[name] for name in found - needed]
        needed |= found
    return {name[len(prefix) :]: name in needed for name in written if name.startswith(prefix)}


def _may_change(program: Any) -> bool:
    """Whether an operator changes in place what may be a buffer."""
    buffers = set(program.graph_signature.inputs_to_buffers)
    if program.graph_signature.buffers_to_mutate:
        return True
    return any(
        _first(written).name in buffers
        for node in program.graph.nodes
        for written in _written(node)
    )


def _written(node: Any) -> Iterator[Any]:
    """The nodes that an operator changes."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not getattr(schema, "is_mutable", False):
        return
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
            if isinstance(given, torch.fx.Node):
                yield given


def _first(node: Any) -> Any:
    """What a node was made of by first arguments alone, as a view is."""
    for _ in range(_DEPTH):
        if node.op != "call_function" or not node.args or not isinstance(
            node.args[0], torch.fx.Node
        ):  # fmt: skip
            break
        node = node.args[0]
    return node


def _sources(nodes: Iterable[Any]) -> set[str]:
    """The names of all that these nodes are computed of."""
    waiting, seen = list(nodes), set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.all_input_nodes
    return {node.name for node in seen}
