"""The lines of a module's method: what values are called, and which are written into others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from emitters.code.formatting import WIDTH
from emitters.code.paths import RESERVED, identifier
from emitters.code.steps import ATOM, filled, occurrences, place
from emitters.code.tree import Group

_GENERIC = ("x", "y", "z", "u", "v", "w")
_SHORT = 56
"""Characters of an expression that may be written into another."""

_NEAR = 2
"""How many statements later that may be."""

Kind = Callable[[int], str]
"""``float``, ``int`` or ``bool`` of a value."""


@dataclass
class Call:
    """A statement as a method has it; see :class:`emitters.code.steps.Step`."""

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
    """An expression that waits for the one that takes it."""

    text: str
    strength: int
    consumed: list[int]
    call: Call
    since: int


@dataclass
class Lines:
    """A method's lines, as they are made: names for values, short expressions in others.

    Attributes:
        kind: What a value holds.
        names: Of values that are there.
        fixed: Names that stay.
        left: How often a value is still used.
        pending: Expressions that are to be written into others.
        lines: The lines so far.
        uses: The statements that take a value.
        tensors: Values that are tensors of the module.
        old: The last names of values that are gone.
    """

    kind: Kind
    names: dict[int, str] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    left: Counter[int] = field(default_factory=Counter)
    pending: dict[int, _Pending] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    uses: dict[int, list[int]] = field(default_factory=dict)
    tensors: set[int] = field(default_factory=set)
    old: dict[int, str] = field(default_factory=dict)

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

    def write(self, calls: list[Call], results: Sequence[int]) -> list[str]:
        """The method's lines."""
        for at, call in enumerate(calls):
            for index in occurrences(call.text):
                self.left[index] += 1
                self.uses.setdefault(index, []).append(at)
        for index in results:
            self.left[index] += 1
            self.uses.setdefault(index, []).append(len(calls))
        for at, call in enumerate(calls):
            self._statement(at, call, calls)
        given = ", ".join(place(index, 0) for index in results)
        if len(self._tried(given)) + 15 > WIDTH:
            for index in [i for i in results if i in self.pending]:
                self._settle(index)
        text, _ = self._filled(given)
        self.lines.append(f"return {text}")
        return self.lines

    def _statement(self, at: int, call: Call, calls: list[Call]) -> None:
        if call.text.startswith("self.") and not occurrences(call.text) and "(" not in call.text:
            self.names[call.outputs[0]] = call.text
            self.tensors.add(call.outputs[0])
            return
        for index in [i for i, p in self.pending.items() if at - p.since > _NEAR]:
            if index not in occurrences(call.text):
                self._settle(index)
        longest = WIDTH - 14
        inside = [i for i in occurrences(call.text) if i in self.pending]
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

    def _inherit(self, call: Call, inside: Sequence[int]) -> None:
        """What is made of one named result alone has its name."""
        given = set(occurrences(call.text)) - self.tensors
        if call.plain and len(given) == 1 and len(inside) == 1:
            before = self.pending[inside[0]].call
            if before.hint and not before.plain:
                call.hint, call.plain = before.hint, False

    def _may_wait(self, at: int, call: Call) -> bool:
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

    def _assign(self, call: Call, text: str, consumed: list[int]) -> None:
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

    def _loop(self, call: Call, text: str, dead: list[int]) -> None:
        assert call.loop is not None
        (start,) = occurrences(call.hint)
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

    def _free(self, index: int, hint: str) -> str:
        taken = {*self.names.values(), *self.fixed, *RESERVED}
        if self.kind(index) != "float":
            return identifier(hint or "value", taken)
        return next((name for name in _GENERIC if name not in taken), identifier("x", taken))
