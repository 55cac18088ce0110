"""A model as code: the classes of a file, and the tensors that go with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx_ir

from converter.errors import Unsupported
from converter.ir.edit import constant_tensor
from emitters.code.bodies import names_in
from emitters.code.classes import Class, classes_of
from emitters.code.context import Context
from emitters.code.dialect import Dialect
from emitters.code.paths import without_root
from emitters.code.steps import Step, Weight
from emitters.code.tree import Group, grouped
from emitters.lowering.walking import lower_each

Lower = Callable[[Context], None]
"""Makes the statements of a context's node; raises Refused."""


@dataclass
class Program:
    """A model as code.

    Attributes:
        classes: Each before those that use it; the last is the model.
        weights: Tensors by the names that a saved state has for them.
        tied: Other names of these: name -> the one that it is stored under.
        helpers: Functions that the code calls.
        refusals: Every node that can't be written, and why; then there is nothing else.
        root: The modules, as they lie in each other.
        dialect: What its classes are written in.
    """

    classes: list[Class]
    weights: dict[str, Weight]
    tied: dict[str, str]
    helpers: set[str]
    refusals: list[Unsupported]
    root: Group | None = None
    dialect: Dialect | None = None

    @classmethod
    def refused(cls, refusals: list[Unsupported]) -> Program:
        """Nothing, and why."""
        return cls([], {}, {}, set(), refusals)


def program_of(
    graph: onnx_ir.Graph, lower: Lower, dialect: Dialect, reserved: Sequence[str] = ()
) -> Program:
    """A graph as code.

    Args:
        graph: Legalized.
        lower: The table.
        dialect: The framework's.
        reserved: Names that no class may have.
    """
    context = Context(graph, dialect)
    refusals: list[Unsupported] = []

    def one(node: onnx_ir.Node) -> None:
        if node not in context.done:
            context.node = node
            lower(context)

    lower_each(graph, one, refusals)
    if refusals:
        return Program.refused(refusals)
    results = _results(context, graph)
    steps = _needed(context.steps, results)
    cut = without_root([step.path for step in steps])
    for step in steps:
        step.path = step.path[cut:] if step.path else ()
    _merge_paths(steps)
    root = grouped(steps, results)
    _share(root)
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    interface = [(context.index(value), value.name or "x") for value in inputs]
    classes = classes_of(root, dialect, context.kind, interface, results, reserved)
    weights, tied = _weights(root)
    return Program(classes, weights, tied, context.helpers, [], root, dialect)


def _results(context: Context, graph: onnx_ir.Graph) -> list[int]:
    """The outputs' numbers; constants among them are tensors of the model's."""
    found = []
    for value in graph.outputs:
        if constant_tensor(value) is not None:
            context.node = onnx_ir.node("Identity", [value])
            context.node.name = ""
            context.tensor(value, trains=False)
        found.append(context.index(value))
    return found


def _needed(steps: Sequence[Step], results: Sequence[int]) -> list[Step]:
    """Statements whose results something needs."""
    needed = set(results)
    kept = []
    for step in reversed(_sorted(steps)):
        if needed.intersection(step.outputs):
            kept.append(step)
            needed.update(step.inputs)
    return kept[::-1]


def _sorted(steps: Sequence[Step]) -> list[Step]:
    """Each after what it takes: some take what was made with a later node."""
    maker = {v: step for step in steps for v in step.outputs}
    done: dict[Step, None] = {}
    for start in steps:
        waiting = [start]
        while waiting:
            step = waiting[-1]
            missing = [m for v in step.inputs if (m := maker.get(v)) and m not in done]
            if step in done or not missing:
                done[waiting.pop()] = None
            else:
                waiting += missing
    return list(done)


def _merge_paths(steps: Sequence[Step]) -> None:
    """Has a module whose name is also a folder of others lie in that: ``query``, ``query/Add``."""
    folders = {step.path[:end] for step in steps for end in range(1, len(step.path) + 1)}
    for step in steps:
        unit = step.unit
        if unit is not None and unit.name and (*step.path, unit.name) in folders:
            step.path, unit.name = (*step.path, unit.name), ""


def _share(root: Group) -> None:
    """Has calls of one module's in a class use one module, where their tensors are the same."""
    for group in _groups(root):
        seen: dict[Any, Step] = {}
        if group.listed:
            continue
        for item in group.items:
            if isinstance(item, Step) and item.unit is not None and item.unit.weights:
                first = seen.setdefault(item.unit.key, item)
                if first is not item and any(map(_is_shared, item.unit.weights.values())):
                    item.unit = first.unit


def _is_shared(weight: Weight) -> bool:
    """Whether layers that have one tensor mean it: exporters give those one, too, whose elements
    are the same by chance, as the ones and zeros of normalizations that weren't trained."""
    if len(weight.shape) < 2:
        return False
    array = weight.make()
    return bool((array != array.reshape(-1)[:1]).any())


def _groups(group: Group) -> list[Group]:
    inner = [item for item in group.items if isinstance(item, Group)]
    return [group, *(each for item in inner for each in _groups(item))]


def _weights(root: Group) -> tuple[dict[str, Weight], dict[str, str]]:
    found: dict[str, Weight] = {}
    stored: dict[Any, str] = {}
    tied: dict[str, str] = {}

    def walk(group: Group, prefix: str) -> None:
        for item, attribute in names_in(group).items():
            if isinstance(item, Group):
                walk(item, f"{prefix}{attribute}.")
                continue
            assert item.unit is not None
            for name, weight in item.unit.weights.items():
                whole = f"{prefix}{attribute}.{name}".rstrip(".")
                if whole in found or whole in tied:
                    continue
                if stored.setdefault(weight.key, whole) != whole and _is_shared(weight):
                    tied[whole] = stored[weight.key]
                else:
                    found[whole] = weight

    walk(root, "")
    return found, tied


def doc_of(made: Class) -> str:
    """A class' docstring: the modules that it is of."""
    if not made.members:
        return "The model."
    first, others = made.members[0], len(made.members) - 1
    return f"``{first}``, and {others} more." if others else f"``{first}``."


__all__ = ["Lower", "Program", "doc_of", "program_of", "replace"]
