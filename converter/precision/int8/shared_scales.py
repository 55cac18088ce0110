"""Tensors that have one scale: what moves numbers about hands its input's on."""

from __future__ import annotations

from collections.abc import Iterable


class Shares:
    """Sets of tensors by name, each with one quantization (a union-find)."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def head(self, name: str) -> str:
        """The tensor that stands for all that share a scale with ``name``."""
        while (above := self._above.setdefault(name, name)) != name:
            self._above[name] = self._above[above]
            name = above
        return name

    def join(self, names: Iterable[str]) -> None:
        """Gives these tensors one scale; the first one's head stands for them."""
        heads = [self.head(name) for name in names]
        for head in heads[1:]:
            self._above[self.head(head)] = self.head(heads[0])

    def groups(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """``names`` by their heads, in order."""
        found: dict[str, list[str]] = {}
        for name in names:
            found.setdefault(self.head(name), []).append(name)
        return {head: tuple(members) for head, members in found.items()}
