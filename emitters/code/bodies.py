"""A module's body: what it constructs, and the lines that compute it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from emitters.code.dialect import Dialect
from emitters.code.formatting import WIDTH
from emitters.code.paths import RESERVED, identifier
from emitters.code.steps import ATOM, UNIT, Step, filled, place
from emitters.code.tree import Group, Item, attributes, is_call

_GENERIC = ("x", "y", "z", "u", "v", "w")
_SHORT = 56
"""Characters of an expression that may be written into another."""

_NEAR = 2
"""How many statements later that may be."""

Kind = Callable[[int], str]
"""``float``, ``int`` or ``bool`` of a value."""


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


@dataclass
class _Call:
    text: str
    outputs: list[int]
    strength: int = ATOM
    targets: str = ""
    hint: str = ""
    plain: bool = False
    """Whether its hint is an operator's name, which floats aren't called by."""
    loop: tuple[str, str] | None = None
    """Of modules in a list: the list, and what each is called."""


@dataclass
class _Pending:
    text: str
    strength: int
    consumed: list[int]
    call: _Call
    since: int


def names_in(group: Group) -> dict[Item, str]:
    """What a module calls what it has."""
    return attributes(group, RESERVED)


# -- what it constructs --------------------------------------------------------------------


def constructed(group: Group, classes: Mapping[Group, str], dialect: Dialect) -> list[str]:
    """Lines that make the modules and tensors of a module."""
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
    listed = ", ".join(repeated)
    if is_chain(item):
        return f"{dialect.sequence}({listed})"
    if len(repeated) == 1 and listed.startswith("*("):
        return f"{dialect.listing}({listed[2:-1]})"
    return f"{dialect.listing}([{listed}])"


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
    writer = _Lines(kind)
    arguments = writer.take(group, interface)
    outputs = list(results) or group.outputs
    lines = writer.write(list(_calls(group, "self", dialect)), outputs)
    return Body(group, made, arguments, lines, len(outputs))


def _calls(group: Group, receiver: str, dialect: Dialect) -> Iterator[_Call]:
    names = names_in(group)
    for item in group.items:
        name = names.get(item, "")
        at = f"{receiver}[{name}]" if group.listed else f"{receiver}.{name}"
        if isinstance(item, Step):
            if item.is_tensor:
                yield _Call(at, item.outputs, hint="")
                continue
            text = item.text.replace(UNIT, at)
            hint = item.hint
            if item.unit is not None:
                hint = name if name.isalpha() and item.unit.kind in dialect.named else ""
            yield _Call(text, item.outputs, item.strength, item.targets, hint, item.unit is None)
        elif item.listed and not is_chain(item):
            yield from _loop(item, at) or _calls(item, at, dialect)
        else:
            given = ", ".join(place(v, 0) for v in item.inputs)
            targets = ", ".join(place(v, 0) for v in item.outputs) if len(item.outputs) > 1 else ""
            yield _Call(f"{at}({given})", item.outputs, ATOM, targets)


def _loop(group: Group, receiver: str) -> list[_Call]:
    """Modules in a list, each of which takes what the one before gives and the same besides, as one
    loop; nothing where they aren't."""
    items, names = group.items, [int(name) for name in names_in(group).values()]
    if names != list(range(len(items))) or len(items) < 2:
        return []
    if len(group.outputs) != 1 or group.outputs != items[-1].outputs:
        return []
    if any(isinstance(i, Step) or i.listed or len(i.outputs) != 1 for i in items):
        return []
    first, second = items[:2]
    at = [i for i, v in enumerate(second.inputs) if v in first.outputs]
    if len(at) != 1 or any(len(item.inputs) != len(second.inputs) for item in items):
        return []
    others = [v for i, v in enumerate(second.inputs) if i != at[0]]
    for before, item in zip(items, items[1:], strict=False):
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
    return [_Call(text, group.outputs, loop=(receiver, each), hint=place(start, 0))]


@dataclass
class _Lines:
    kind: Kind
    names: dict[int, str] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    left: Counter[int] = field(default_factory=Counter)
    pending: dict[int, _Pending] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    uses: dict[int, list[int]] = field(default_factory=dict)
    tensors: set[int] = field(default_factory=set)

    def take(self, group: Group, interface: Sequence[tuple[int, str]]) -> list[str]:
        """Names what the method takes."""
        for index, name in interface:
            self.names[index] = identifier(name, {*RESERVED, *self.names.values()})
        if interface:
            self.fixed = {*self.names.values()} - {*_GENERIC}
            return list(self.names.values())
        for index in group.inputs:
            self.names[index] = self._free(index, "mask" if self.kind(index) == "bool" else "index")
        self.fixed = {n for n in self.names.values() if n not in _GENERIC}
        return [self.names[index] for index in group.inputs]

    def write(self, calls: list[_Call], results: Sequence[int]) -> list[str]:
        """The method's lines."""
        for at, call in enumerate(calls):
            for index in _occurrences(call.text):
                self.left[index] += 1
                self.uses.setdefault(index, []).append(at)
        for index in results:
            self.left[index] += 1
            self.uses.setdefault(index, []).append(len(calls))
        for at, call in enumerate(calls):
            self._statement(at, call, calls)
        text = ", ".join(self._filled(place(index, 0))[0] for index in results)
        if len(text) + 15 > WIDTH:
            for index in [i for i in results if i in self.pending]:
                self._settle(index)
            text = ", ".join(self._filled(place(index, 0))[0] for index in results)
        self.lines.append(f"return {text}")
        return self.lines

    def _statement(self, at: int, call: _Call, calls: list[_Call]) -> None:
        if call.text.startswith("self.") and not _occurrences(call.text) and "(" not in call.text:
            self.names[call.outputs[0]] = call.text
            self.tensors.add(call.outputs[0])
            return
        for index in [i for i, p in self.pending.items() if at - p.since > _NEAR]:
            if index not in _occurrences(call.text):
                self._settle(index)
        longest = WIDTH - 14
        inside = [i for i in _occurrences(call.text) if i in self.pending]
        self._inherit(call, inside)
        if call.loop or len(self._tried(call.text)) > longest:
            for index in inside:
                self._settle(index)
        if self._may_wait(at, call):
            text, consumed = self._filled(call.text)
            last = at == len(calls) - 1
            if len(text) <= (longest if last else _SHORT):
                strength = ATOM if text.isidentifier() else call.strength
                self.pending[call.outputs[0]] = _Pending(text, strength, consumed, call, at)
                return
            self._assign(call, text, consumed)
            return
        text, consumed = self._filled(call.text)
        self._assign(call, text, consumed)

    def _inherit(self, call: _Call, inside: Sequence[int]) -> None:
        """What is made of one named result alone has its name."""
        given = set(_occurrences(call.text)) - self.tensors
        if call.plain and len(given) == 1 and len(inside) == 1:
            before = self.pending[inside[0]].call
            if before.hint and not before.plain:
                call.hint, call.plain = before.hint, False

    def _may_wait(self, at: int, call: _Call) -> bool:
        if call.targets or call.loop or len(call.outputs) != 1:
            return False
        where = self.uses.get(call.outputs[0], [])
        return len(where) == 1 and where[0] - at <= _NEAR

    def _tried(self, text: str) -> str:
        def fill(index: int, strength: int) -> str:
            found = self.pending.get(index)
            return f"({found.text})" if found else self.names[index]

        return filled(text, fill)

    def _filled(self, text: str) -> tuple[str, list[int]]:
        consumed: list[int] = []

        def fill(index: int, strength: int) -> str:
            found = self.pending.pop(index, None)
            if found is None:
                consumed.append(index)
                return self.names[index]
            consumed.extend(found.consumed)
            return f"({found.text})" if found.strength < strength else found.text

        return filled(text, fill), consumed

    def _settle(self, index: int) -> None:
        """Makes a statement of what waits to be written into another."""
        found = self.pending.pop(index)
        self._assign(found.call, found.text, found.consumed)

    def _assign(self, call: _Call, text: str, consumed: list[int]) -> None:
        before = {v: self.names[v] for v in consumed}
        for index in consumed:
            self.left[index] -= 1
        waiting = {v for p in self.pending.values() for v in p.consumed}
        dead = [v for v in before if not self.left[v] and v not in waiting]
        if call.loop:
            self._loop(call, text, dead)
            return
        names = []
        for place_, index in enumerate(call.outputs):
            again = self._reused(index, dead) if place_ == 0 else None
            for gone in dead if place_ == 0 else ():
                self._forget(gone, again)
            said = call.hint if not call.plain else ""
            if said and self.kind(index) == "float":
                taken = {*self.names.values(), *self.fixed, *RESERVED}
                names.append(identifier(said, taken))
            else:
                names.append(again or self._free(index, call.hint))
            self.names[index] = names[-1]
        if call.targets:
            by_index = dict(zip(call.outputs, names, strict=True))
            left = filled(call.targets, lambda index, _: by_index.get(index, "_"))
        else:
            left = names[0]
        self.lines.append(f"{left} = {text}")
        for index in call.outputs:
            if not self.left[index]:
                self._forget(index, None)

    def _loop(self, call: _Call, text: str, dead: list[int]) -> None:
        assert call.loop is not None
        (start,) = _occurrences(call.hint)
        old, out = self.names[start], call.outputs[0]
        if start in dead and old in _GENERIC:
            name = old
        else:
            name = self._free(out, "")
            self.lines.append(f"{name} = {old}")
        for gone in dead:
            self._forget(gone, name)
        self.names[out] = name
        receiver, each = call.loop
        head, _, rest = call.text.partition("(")
        other = filled(rest, lambda i, _: name if i == start else self.names.get(i) or self.old[i])
        self.lines += [f"for {each} in {receiver}:", f"    {name} = {head}({other}"]

    def _reused(self, index: int, dead: list[int]) -> str | None:
        if self.kind(index) != "float":
            return None
        names = (self.names[v] for v in dead if self.kind(v) == "float")
        return next((name for name in names if name in _GENERIC), None)

    def _forget(self, index: int, keep: str | None) -> None:
        if index not in self.tensors:
            self.old[index] = self.names.pop(index, "")

    old: dict[int, str] = field(default_factory=dict)

    def _free(self, index: int, hint: str) -> str:
        taken = {*self.names.values(), *self.fixed, *RESERVED}
        if self.kind(index) != "float":
            return identifier(hint or "value", taken)
        return next((name for name in _GENERIC if name not in taken), identifier("x", taken))


def _occurrences(text: str) -> list[int]:
    found: list[int] = []
    filled(text, lambda index, _: str(found.append(index)))
    return found
