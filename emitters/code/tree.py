"""Groups statements into modules, as the source's names say, where the graph lets them be.

A module is one call: what it takes has to be there before, and what it gives is used after it.
Where the names say otherwise (a module that was called twice, or whose parts a pass moved), its
statements are its caller's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Union

from emitters.code.paths import identifier, snake
from emitters.code.steps import UNIT, Step, place

Item = Union[Step, "Group"]

_FEW = 3
"""Statements with one module among them that are their caller's: a layer with its activation."""

_MANY = 6
"""Statements without a module that are."""


@dataclass(eq=False)
class Group:
    """A module of the source: what is done in it, in order.

    Attributes:
        name: What its caller calls it.
        items: Its statements, and modules that it calls.
        inputs, outputs: Indices of values.
        listed: Whether it is nothing but numbered modules: a list of its caller's.
    """

    name: str
    items: list[Item]
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    listed: bool = False

    def steps(self) -> Iterator[Step]:
        """All statements, those of inner modules too."""
        for item in self.items:
            yield from item.steps()

    @property
    def height(self) -> int:
        """How many modules lie in each other below it."""
        inner = [item.height for item in self.items if isinstance(item, Group)]
        return 1 + max(inner, default=-1)


def name_of(item: Item) -> str:
    """What a module is called; empty for a plain statement."""
    if isinstance(item, Group):
        return item.name
    return item.unit.name if item.unit is not None else ""


def grouped(steps: Sequence[Step], outputs: Iterable[int]) -> Group:
    """The model as a tree.

    Args:
        steps: In an order in which they can be carried out; their paths are changed.
        outputs: What the model gives.
    """
    root = _build("", list(steps), 0)
    _connect(root, set(outputs))
    return root


def _build(name: str, steps: list[Step], depth: int) -> Group:
    while True:
        buckets: dict[str, list[Step]] = {}
        for step in steps:
            if len(step.path) > depth:
                buckets.setdefault(step.path[depth], []).append(step)
        small = [key for key, inside in buckets.items() if _is_small(key, inside)]
        if small:
            for key in small:
                _flatten(buckets[key], depth)
            continue
        order, stuck = _ordered(steps, depth)
        if not stuck:
            break
        _dissolve(buckets[stuck], depth)
    items: list[Item] = []
    for key, inside in order:
        items.append(_build(key, inside, depth + 1) if key else inside[0])
    group = Group(name, items)
    group.listed = bool(name) and _is_list(group)
    return group


def _is_small(key: str, inside: Sequence[Step]) -> bool:
    units = sum(step.unit is not None for step in inside)
    if key.isdigit():
        return not units or len(inside) == 1
    return (units <= 1 and len(inside) <= _FEW) or (not units and len(inside) <= _MANY)


def _flatten(inside: Sequence[Step], depth: int) -> None:
    """Makes the few statements of a module its caller's; what they call has its name."""
    key = inside[0].path[depth]
    for step in inside:
        step.path = step.path[:depth]
        if step.unit is not None:
            step.unit.name = key


def _dissolve(inside: Sequence[Step], depth: int) -> None:
    """Makes a module's statements its caller's; what it calls goes on with its name before."""
    key = inside[0].path[depth]
    alone = sum(step.unit is not None for step in inside) == 1
    for step in inside:
        deeper = step.path[depth + 1 :]
        if deeper:
            step.path = (*step.path[:depth], f"{key}_{deeper[0]}", *deeper[1:])
            continue
        step.path = step.path[:depth]
        if step.unit is not None:
            own = step.unit.name
            step.unit.name = key if alone or not own else f"{key}_{own}"


def _ordered(steps: Sequence[Step], depth: int) -> tuple[list[tuple[str, list[Step]]], str]:
    """Statements and modules in an order that can be; or the name of a module that can't be one."""
    nodes: dict[object, tuple[str, list[Step]]] = {}
    maker: dict[int, object] = {}
    for step in steps:
        key: object = step.path[depth] if len(step.path) > depth else step
        nodes.setdefault(key, (key if isinstance(key, str) else "", []))[1].append(step)
        maker.update(dict.fromkeys(step.outputs, key))
    needs = {
        key: {maker[v] for step in inside for v in step.inputs if v in maker} - {key}
        for key, (_, inside) in nodes.items()
    }
    done: dict[object, tuple[str, list[Step]]] = {}
    waiting = list(nodes)
    while waiting:
        ready = [key for key in waiting if needs[key] <= done.keys()]
        if not ready:
            stuck = [key for key in waiting if isinstance(key, str)]
            return [], min(stuck, key=lambda key: len(nodes[key][1]))
        done[ready[0]] = nodes[ready[0]]
        waiting.remove(ready[0])
    return list(done.values()), ""


def _is_list(group: Group) -> bool:
    names = [name_of(item) for item in group.items]
    calls = all(isinstance(item, Group) or is_call(item) for item in group.items)
    return calls and all(name.isdigit() for name in names) and len(set(names)) == len(names) > 0


def is_call(item: Item) -> bool:
    """Whether a statement does nothing but call a module with one value."""
    return (
        isinstance(item, Step)
        and item.unit is not None
        and bool(item.unit.kind)
        and not item.targets
        and len(item.inputs) == 1
        and item.text == f"{UNIT}({place(item.inputs[0], 0)})"
    )


def _connect(root: Group, outputs: set[int]) -> None:
    """Says of every module what it takes and gives."""
    used: Counter[int] = Counter(v for step in root.steps() for v in step.inputs)

    def connect(group: Group) -> Counter[int]:
        inside: Counter[int] = Counter()
        taken: dict[int, None] = {}
        made: dict[int, None] = {}
        for item in group.items:
            inside += connect(item) if isinstance(item, Group) else Counter(item.inputs)
            taken |= dict.fromkeys(v for v in item.inputs if v not in made)
            made |= dict.fromkeys(item.outputs)
        group.inputs = list(taken)
        group.outputs = [v for v in made if v in outputs or used[v] > inside[v]]
        return inside

    connect(root)


def attributes(group: Group, taken: Iterable[str]) -> dict[Item, str]:
    """What a module calls what it has: a name for each, numbers for those in a list."""
    found: dict[Item, str] = {}
    known: dict[object, str] = {}
    used = set(taken)
    for item in group.items:
        unit = item.unit if isinstance(item, Step) else None
        if isinstance(item, Step) and unit is None:
            continue
        if unit is not None and id(unit) in known:
            found[item] = known[id(unit)]
            continue
        name = name_of(item)
        if group.listed:
            found[item] = name
            continue
        hint = unit.hint if unit is not None else "block"
        text = f"{hint}_{name}" if name.isdigit() else snake(name or hint)
        found[item] = identifier(text, used)
        used.add(found[item])
        if unit is not None:
            known[id(unit)] = found[item]
    return found
