"""One class for modules that are alike: numbers that differ are arguments of its constructor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from emitters.code.bodies import Body, body_of
from emitters.code.dialect import Dialect
from emitters.code.formatting import formatted
from emitters.code.lines import Kind
from emitters.code.paths import camel, identifier, singular
from emitters.code.tree import Group

_NUMBER = re.compile(r"(?<![\w.\"'])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])")
_NAMED = re.compile(r"(\w+)=(?:\((?:[\w.-]+, )*)?$")
_CALLED = re.compile(r"([\w.]+)\(((?:[^()=]+, )*)$")
_MARK = "\ue010"


@dataclass
class Class:
    """A class, and the modules that it is of.

    Attributes:
        name: Its name.
        body: The first module's.
        parameters: What its constructor takes, and the types.
        members: The modules, by their paths.
    """

    name: str
    body: Body
    parameters: dict[str, str] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)


def classes_of(
    root: Group,
    dialect: Dialect,
    kind: Kind,
    interface: Sequence[tuple[int, str]],
    results: Sequence[int],
    reserved: Sequence[str],
) -> list[Class]:
    """The classes of a model, each before those that use it; the last is the model's own.

    Args:
        root: The model.
        dialect: The framework's.
        kind: Gives what a value holds, by its index; see :func:`emitters.code.bodies.body_of`.
        interface: What the model's method takes; see :func:`emitters.code.bodies.body_of`.
        results: Indices of the values that the model gives.
        reserved: Names that no class may have.
    """
    found: list[Class] = []
    constructors: dict[Group, str] = {}
    levels: dict[int, list[tuple[str, Group]]] = {}
    for path, group in _all(root, ""):
        if group is not root:
            levels.setdefault(_height(group), []).append((path, group))
    taken = {*reserved, dialect.root}
    for height in sorted(levels):
        alike: dict[str, list[tuple[str, Body]]] = {}
        for path, group in levels[height]:
            body = body_of(group, constructors, dialect, kind)
            skeleton = _NUMBER.sub(_MARK, body.text)
            alike.setdefault(skeleton, []).append((path, body))
        for members in alike.values():
            made = _class(members, dialect, taken, constructors)
            taken.add(made.name)
            found.append(made)
    body = body_of(root, constructors, dialect, kind, interface, results)
    return [*found, Class(dialect.root, body)]


def _height(group: Group) -> int:
    inner = [_height(item) + (not item.listed) for item in group.items if isinstance(item, Group)]
    return max(inner, default=0)


def _all(group: Group, path: str) -> list[tuple[str, Group]]:
    """All modules that have a class, with their paths."""
    found = [] if group.listed else [(path, group)]
    for item in group.items:
        if isinstance(item, Group):
            found += _all(item, f"{path}.{item.name}" if path else item.name)
    return found


def _class(
    members: Sequence[tuple[str, Body]],
    dialect: Dialect,
    taken: set[str],
    constructors: dict[Group, str],
) -> Class:
    first = members[0][1]
    numbers = [[found[0] for found in _NUMBER.finditer(body.text)] for _, body in members]
    columns = list(zip(*numbers, strict=True))
    differ = [place for place, column in enumerate(columns) if len(set(column)) > 1]
    parameters: dict[tuple[str, ...], str] = {}
    spots = list(_NUMBER.finditer(first.text))
    for place in differ:
        if columns[place] not in parameters:
            said = _said(first.text, spots[place].start(), dialect.positional)
            parameters[columns[place]] = identifier(said, {*parameters.values(), "self"})
    names = {place: parameters[columns[place]] for place in differ}
    name = _name(members[0][0], taken)
    kinds = {
        name_: "float" if any("." in n or "e" in n for n in column) else "int"
        for column, name_ in parameters.items()
    }
    made = Class(name, _written(first, names), kinds, [p for p, _ in members])
    for row, (_, body) in enumerate(members):
        given = [f"{name_}={column[row]}" for column, name_ in parameters.items()]
        constructors[body.group] = f"{name}({', '.join(given)})"
    return made


def _name(path: str, taken: set[str]) -> str:
    parts = path.split(".")
    last = parts[-1]
    if last.isdigit() or last.lower() == "self":
        named = [part for part in parts if not part.isdigit()]
        last = singular(named[-1]) if named else "block"
    return identifier(camel(last) or "Block", taken)


def _said(text: str, at: int, positional: Mapping[str, Sequence[str]]) -> str:
    """What a number is called in a text: the argument that it is."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    attribute = re.match(r"self\.(\w+) = ", line)
    prefix = f"{attribute[1]}_" if attribute and not attribute[1].startswith("_") else ""
    named = _NAMED.search(line)
    if named:
        return f"{prefix}{named[1]}" if "range" not in line else f"{prefix}count"
    called = _CALLED.search(line)
    if called and called[1] in positional:
        place = called[2].count(", ")
        known = positional[called[1]]
        if place < len(known):
            return f"{prefix}{known[place]}"
    return f"{prefix}count" if line.endswith("range(") else f"{prefix}size"


def _written(body: Body, names: Mapping[int, str]) -> Body:
    """A body with names in the place of numbers."""
    at = -1
    stored: dict[str, None] = {}

    def line(text: str, own: bool) -> str:
        def number(found: re.Match[str]) -> str:
            nonlocal at
            at += 1
            if at not in names:
                return found[0]
            if own:
                stored[names[at]] = None
            return f"self.{names[at]}" if own else names[at]

        return _NUMBER.sub(number, text)

    made = [line(text, False) for text in body.made]
    arguments = [line(text, False) for text in body.arguments]
    lines = [line(text, True) for text in body.lines]
    kept = [f"self.{name} = {name}" for name in stored]
    return Body(body.group, [*kept, *made], arguments, lines, body.results)


def text_of(made: Class, dialect: Dialect, doc: str) -> str:
    """A class as it is written.

    Args:
        made: The class.
        dialect: The framework's.
        doc: The class's docstring, in one line.
    """
    tensor = dialect.tensor
    lines = [f"class {made.name}({dialect.base}):", f'    """{doc}"""', ""]
    takes = "".join(f", {name}: {kind}" for name, kind in made.parameters.items())
    if made.body.made or dialect.always_constructed:
        begun = dialect.begun(takes, root=not made.members)
        for line in [*begun, *(f"        {line}" for line in made.body.made)]:
            lines += formatted(line)
        lines.append("")
    takes = "".join(f", {name}: {tensor}" for name in made.body.arguments)
    gives = (
        tensor if made.body.results == 1 else f"tuple[{', '.join([tensor] * made.body.results)}]"
    )
    lines += formatted(f"    def {dialect.method}(self{takes}) -> {gives}:")
    for line in made.body.lines:
        lines += formatted(f"        {line}")
    return "\n".join(lines)
