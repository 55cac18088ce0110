"""Reads the YAML of a recipe's file: its documents, within limits that hold over the whole file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from converter.errors import UsageError
from converter.files.reading import reading
from converter.files.regular import require_regular
from converter.text.words import one_line

MOST_VALUES = 100_000
"""Values that a file may come to with its aliases written out, and with what it extends."""

MOST_BYTES = 4 << 20

HINT = "Its values are YAML's, of the options' kinds."


class YamlFile:
    """A file of YAML documents, read once; each is made into objects when it is asked for.

    Args:
        path: The file.
        what: How messages call it: ``the recipe r.yaml``.

    Attributes:
        numbers: Of the documents that hold anything, counted from 1.
        text: What was read.

    Raises:
        UsageError: It can't be read, isn't YAML, or comes to too much.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path, self._what = path, what
        require_regular(path, what)
        with reading(what, UsageError, HINT):
            self.text = _text(path, what)
            nodes = _composed(self.text, what)
        self._nodes = {n: node for n, node in enumerate(nodes, 1) if not _is_empty(node)}
        self._several = len(self._nodes) > 1
        self.numbers = list(self._nodes) or [1]

    def where(self, number: int) -> str:
        """How messages call a document."""
        return f"{self._what}, document {number}" if self._several else self._what

    def values(self, number: int) -> dict[str, Any]:
        """What a document says, in objects of its own.

        Raises:
            UsageError: It isn't a mapping of names, or a value can't be made.
        """
        node = self._nodes.get(number)
        with reading(self.where(number), UsageError, HINT):
            made = None if node is None else _constructed(node, self.where(number))
        if not isinstance(made, dict) or not all(isinstance(key, str) for key in made):
            raise UsageError(
                f"{self.where(number)} isn't a list of 'key: value' lines",
                code="recipe-invalid",
                hint="Its first line could be: source: net.py:Net",
            )
        return made

    def texts(self, number: int, key: str) -> Mapping[str, str]:
        """The scalars of a document's mapping ``key`` as they are written: ``1.10``, not 1.1."""
        for name, node in self._nodes[number].value:
            if name.value == key and isinstance(node, yaml.MappingNode):
                scalars = yaml.ScalarNode
                return {k.value: v.value for k, v in node.value if isinstance(v, scalars)}
        return {}

    def lines(self, number: int, key: str) -> list[int]:
        """The line of each item of a document's list ``key``; that of what stands there instead."""
        for name, node in self._nodes[number].value:
            if name.value == key:
                items = node.value if isinstance(node, yaml.SequenceNode) else [node]
                return [item.start_mark.line + 1 for item in items]
        return []


def plain_scalar(text: str) -> Any:
    """The number, boolean or null that ``text`` is in YAML; else the text."""
    loader = yaml.SafeLoader("")
    tag = loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    if tag.rpartition(":")[2] not in ("int", "float", "bool", "null"):
        return text
    try:
        return loader.construct_object(yaml.ScalarNode(tag, text))
    except ValueError:  # 0x_, or more digits than Python reads
        return text


def _text(path: Path, what: str) -> str:
    if path.stat().st_size > MOST_BYTES:
        raise UsageError(
            f"{what} has more than {MOST_BYTES:,} bytes, so it isn't a recipe",
            code="recipe-invalid",
            hint="Give a model as the source. Put long values into files that the recipe names.",
        )
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} isn't YAML: {one_line(error)}", code="recipe-invalid") from error


class _Loader(yaml.SafeLoader):
    """Reads no more values than a recipe may have; YAML takes seconds for them."""

    composed = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.composed += 1
        if self.composed > MOST_VALUES:
            raise yaml.YAMLError(f"it has more than {MOST_VALUES:,} values")
        return super().compose_node(parent, index)


def _composed(text: str, what: str) -> list[yaml.Node]:
    """The documents' nodes, counted together."""
    loader = _Loader(text)
    found: list[yaml.Node] = []
    values = 0
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            values += _count(node, {}, MOST_VALUES - values)
            found.append(node)
    except yaml.YAMLError as error:
        where = f"{what}, document {len(found) + 1}," if found else what
        hint = "Within {...} and [...], ${name} needs quotes." if "${" in text else ""
        raise UsageError(
            f"{where} isn't YAML: {one_line(error)}", code="recipe-invalid", hint=hint
        ) from error
    finally:
        loader.dispose()
    return found


def _constructed(node: yaml.Node, where: str) -> Any:
    try:
        return yaml.SafeLoader("").construct_document(node)
    except yaml.YAMLError as error:
        raise UsageError(f"{where} isn't YAML: {one_line(error)}", code="recipe-invalid") from error


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.value and node.style is None


def _count(node: yaml.Node, counted: dict[int, int], most: int) -> int:
    """The values in a node, an alias counted as what it stands for; one inside itself has none."""
    if id(node) not in counted:
        counted[id(node)] = MOST_VALUES + 1  # met again before it is counted: inside itself
        items = node.value if isinstance(node, yaml.CollectionNode) else ()
        inner = [part for item in items for part in (item if isinstance(item, tuple) else (item,))]
        counted[id(node)] = 1 + sum(_count(part, counted, most) for part in inner)
    if counted[id(node)] > most:
        raise yaml.YAMLError(f"with all aliases expanded, it has more than {MOST_VALUES:,} values")
    return counted[id(node)]
