"""The frameworks that read sources: what each needs in the Python that runs it.

A parser declares its own; ``doctor`` and reports collect them.
"""

from __future__ import annotations

from dataclasses import dataclass

from converter import plugins
from converter.runtime.interpreter import Interpreter
from converter.runtime.lent_packages import Lent


@dataclass(frozen=True)
class Framework:
    """A framework.

    Attributes:
        title: Its name for people.
        backend: Its half in the child: ``MODULE:CLASS`` in ``parsers``, or ``FILE.py:CLASS`` with
            the file's whole path, wherever it lies.
        extra: The install extra of ours that brings it; empty where none does.
        needs: Distributions that have to be there, the framework's own first; ``a|b`` where
            either will do.
        own: Those that take part in a conversion only by reading such a source.
        uses: Others whose versions matter: what those bring along, or what some sources need.
        lends: What it may have of ours in a Python of the user's.
        forks: Whether a process that has imported it, and no more, may fork: none of its threads
            runs then.
    """

    title: str
    backend: str
    extra: str
    needs: tuple[str, ...]
    own: tuple[str, ...]
    uses: tuple[str, ...] = ()
    lends: Lent | None = None
    forks: bool = False

    def present(self, python: Interpreter) -> dict[str, str]:
        """What is there of ``needs`` and ``uses``: versions by distribution."""
        names = [python.first(choice.split("|")) for choice in (*self.needs, *self.uses)]
        ours = dict.fromkeys({*python.carried, *python.translated} - {*python.packages}, " (ours)")
        return {name: f"{python.version(name)}{ours.get(name, '')}" for name in names if name}

    def missing(self, python: Interpreter) -> list[str]:
        """What isn't there of ``needs``."""
        choices = [choice.split("|") for choice in self.needs]
        return [choice[0] for choice in choices if not python.first(choice)]

    def is_there(self, python: Interpreter) -> bool:
        """Whether the framework itself is installed, whatever else is missing."""
        return python.first(self.needs[0].split("|")) is not None


def frameworks() -> list[Framework]:
    """Those that the parsers declare, each once, by title."""
    parsers = (item for _, item in plugins.specs("parsers"))
    found = dict.fromkeys(item.framework for item in parsers if item.framework is not None)
    return sorted(found, key=lambda item: item.title.casefold())


def theirs() -> set[str]:
    """The distributions that take part in a conversion only by reading its source."""
    return {name for item in frameworks() for name in item.own}
