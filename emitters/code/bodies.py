"""A module's body: what it constructs, and the lines that compute it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from emitters.code.dialect import Dialect
from emitters.code.lines import Call, Kind, Lines
from emitters.code.paths import RESERVED, identifier
from emitters.code.steps import ATOM, UNIT, Step, place
from emitters.code.tree import Group, Item, attributes, is_call


@dataclass
class Body:
    """A class before it is a text.

    Attributes:
        group: The module.
        made: Lines of its constructor.
        arguments: What its method takes.
        lines: Those of the method.
        results: How many values it gives.
    """

    group: Group
    made: list[str]
    arguments: list[str]
    lines: list[str]
    results: int

    @property
    def text(self) -> str:
        """All that tells it from others."""
        return "\n".join([*self.made, ",".join(self.arguments), *self.lines])


def names_in(group: Group) -> dict[Item, str]:
    """What a module calls what it has."""
    return attributes(group, RESERVED)


# -- what it constructs --------------------------------------------------------------------


def constructed(group: Group, classes: Mapping[Group, str], dialect: Dialect) -> list[str]:
    """Lines that make the modules and tensors of a module.

    Args:
        group: The module.
        classes: How each module that lies in it is constructed, as text.
        dialect: The framework's.
    """
    lines: dict[str, None] = {}
    for item, name in names_in(group).items():
        if isinstance(item, Step) and item.is_tensor:
            assert item.unit is not None
            (weight,) = item.unit.weights.values()
            lines[dialect.tensor_line(name, weight)] = None
        else:
            lines[f"self.{name} = {_constructor(item, classes, dialect)}"] = None
    return list(lines)


def _constructor(item: Item, classes: Mapping[Group, str], dialect: Dialect) -> str:
    if isinstance(item, Step):
        assert item.unit is not None
        return dialect.construct(item.unit)
    if not item.listed:
        return classes[item]
    by_number = {int(name): inner for inner, name in names_in(item).items()}
    parts = [
        _constructor(by_number[n], classes, dialect) if n in by_number else f"{dialect.nothing}()"
        for n in range(max(by_number) + 1)
    ]
    repeated = list(_repeated(parts))
    if _is_sequence(item, dialect):
        return f"{dialect.sequence}({', '.join(repeated)})"
    return dialect.listed(repeated)


def _is_sequence(group: Group, dialect: Dialect) -> bool:
    return bool(dialect.sequence) and is_chain(group)


def _repeated(parts: Sequence[str]) -> Iterator[str]:
    """Equal ones in a row as one, repeated."""
    at = 0
    while at < len(parts):
        end = at
        while end < len(parts) and parts[end] == parts[at]:
            end += 1
        if end - at > 2:
            yield f"*({parts[at]} for _ in range({end - at}))"
        else:
            yield from parts[at:end]
        at = end


def is_chain(group: Group) -> bool:
    """Whether modules in a list take one value each, the one before them gives, in their order."""
    items = group.items
    numbers = [int(name) for name in names_in(group).values()]
    if numbers != sorted(numbers) or len(group.inputs) != 1 or len(group.outputs) != 1:
        return False
    for before, item in zip((None, *items), items, strict=False):
        if isinstance(item, Step) and not is_call(item):
            return False
        if isinstance(item, Group) and item.listed and not is_chain(item):
            return False
        if len(item.inputs) != 1 or len(item.outputs) != 1:
            return False
        if item.inputs != (before.outputs if before is not None else group.inputs):
            return False
    return group.outputs == items[-1].outputs


# -- what it computes ----------------------------------------------------------------------


def body_of(
    group: Group,
    classes: Mapping[Group, str],
    dialect: Dialect,
    kind: Kind,
    interface: Sequence[tuple[int, str]] = (),
    results: Sequence[int] = (),
) -> Body:
    """A module's body.

    Args:
        group: The module.
        classes: How the modules in it are constructed.
        dialect: The framework's.
        kind: What a value holds.
        interface: The model's inputs with their names; of the model itself.
        results: The model's outputs.
    """
    made = constructed(group, classes, dialect)
    writer = Lines(kind)
    arguments = writer.take(group, interface)
    outputs = list(results) or group.outputs
    lines = writer.write(list(_calls(group, "self", dialect)), outputs)
    return Body(group, made, arguments, lines, len(outputs))


def _calls(group: Group, receiver: str, dialect: Dialect) -> Iterator[Call]:
    names = names_in(group)
    for item in group.items:
        name = names.get(item, "")
        at = f"{receiver}[{name}]" if group.listed else f"{receiver}.{name}"
        if isinstance(item, Step):
            if item.is_tensor:
                yield Call(at, item.outputs, hint="")
                continue
            text = item.text.replace(UNIT, at)
            hint = item.hint
            if item.unit is not None:
                hint = name if name.isalpha() and item.unit.kind in dialect.named else ""
            yield Call(text, item.outputs, item.strength, item.targets, hint, item.unit is None)
        elif item.listed and not _is_sequence(item, dialect):
            yield from _loop(item, at) or _calls(item, at, dialect)
        else:
            given = ", ".join(place(v, 0) for v in item.inputs)
            targets = ", ".join(place(v, 0) for v in item.outputs) if len(item.outputs) > 1 else ""
            yield Call(f"{at}({given})", item.outputs, ATOM, targets)


def _is_called(item: Item) -> bool:
    return is_call(item) if isinstance(item, Step) else not item.listed


def _loop(group: Group, receiver: str) -> list[Call]:
    """Modules in a list, each of which takes what the one before gives and the same besides, as one
    loop; nothing where they aren't."""
    items, names = group.items, [int(name) for name in names_in(group).values()]
    if names != list(range(len(items))) or len(items) < 2:
        return []
    if len(group.outputs) != 1 or group.outputs != items[-1].outputs:
        return []
    if any(not _is_called(i) or len(i.outputs) != 1 for i in items):
        return []
    first, second = items[:2]
    at = [i for i, v in enumerate(second.inputs) if v in first.outputs]
    if len(at) != 1 or any(len(item.inputs) != len(second.inputs) for item in items):
        return []
    others = [v for i, v in enumerate(second.inputs) if i != at[0]]
    for before, item in pairwise(items):
        rest = [v for i, v in enumerate(item.inputs) if i != at[0]]
        if item.inputs[at[0]] != before.outputs[0] or rest != others:
            return []
    if [v for i, v in enumerate(first.inputs) if i != at[0]] != others:
        return []
    each = identifier(receiver.rpartition(".")[2].rstrip("]0123456789[") or "block", RESERVED)
    each = each[:-1] if each.endswith("s") else each
    start = first.inputs[at[0]]
    given = [place(start if i == at[0] else v, 0) for i, v in enumerate(first.inputs)]
    text = f"{each}({', '.join(given)})"
    return [Call(text, group.outputs, loop=(receiver, each), hint=place(start, 0))]
