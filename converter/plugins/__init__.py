"""Finds parsers, passes, emitters and servers; what each must be says :mod:`converter.protocols`.

Four kinds of plug-in, each an entry-point group: ``modelyard.parsers``, ``.passes``,
``.emitters``, ``.servers``; and ``.options``, the dataclasses that their options are declared in.
Ours are registered like anybody's, in pyproject.toml; the pipeline reaches all of them through
here, never by name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from importlib.util import find_spec
from typing import Any

from converter.errors import DependencyError, ModelyardError, UsageError

KINDS = ("parsers", "passes", "emitters", "servers")


@cache
def _registered(path: tuple[str, ...]) -> dict[str, EntryPoints]:
    """What the packages on ``sys.path`` register: a file of each is read for it, so it's kept."""
    found = entry_points()
    return {kind: found.select(group=f"modelyard.{kind}") for kind in (*KINDS, "options")}


def available(kind: str) -> dict[str, EntryPoint]:
    """The plug-ins of a kind by name, ours first; two of one name are refused.

    Raises:
        DependencyError: Two packages register the same name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in _registered(tuple(sys.path))[kind]:
        if entry.name in found and entry.value != found[entry.name].value:
            raise DependencyError(
                f"two packages register the {kind[:-1]} {entry.name!r}: "
                f"{found[entry.name].value} and {entry.value}",
                hint="Uninstall one of them.",
            )
        found[entry.name] = entry
    return dict(sorted(found.items()))


_OURS = frozenset({"converter", "emitters", "parsers"})


def is_ours(entry: EntryPoint) -> bool:
    """Whether a plug-in is one of modelyard's own."""
    return _package(entry) in _OURS


def _package(entry: EntryPoint) -> str:
    return entry.module.partition(".")[0]


def others() -> list[EntryPoint]:
    """The plug-ins of other distributions, of all kinds, by kind and name."""
    return [e for kind in KINDS for e in available(kind).values() if not is_ours(e)]


@cache
def places() -> tuple[str, ...]:
    """Where the code of those lies: the folder of each one's top package, or the module's file."""
    found: dict[str, None] = {}
    for spec in (find_spec(_package(entry)) for entry in others()):
        if spec is not None:
            found |= dict.fromkeys(spec.submodule_search_locations or [spec.origin or ""])
    return tuple(found)


_SPOKEN = {"emitters": "target", "parsers": "source format"}
"""What users call the kinds."""


def load(kind: str, name: str) -> Any:
    """The plug-in's object, made from its entry point.

    Raises:
        UsageError: There is none of that name; the nearest names are given.
        DependencyError: It needs a package that isn't installed.
    """
    found = available(kind)
    if name not in found:
        raise UsageError(
            f"there is no {_SPOKEN.get(kind, kind[:-1])} {name!r}",
            hint=f"There are: {', '.join(found) or 'none'}.",
        )
    try:
        made = found[name].load()
    except ImportError as error:
        if error.name and error.name.split(".")[0] == found[name].module.split(".")[0]:
            raise  # a bug in the plug-in itself, not a missing package
        from converter.plugins.extras import extras, install_line

        raise DependencyError(
            f"the {_SPOKEN.get(kind, kind[:-1])} {name!r} needs the package {error.name or error}",
            hint=install_line(name) if name in extras() else "See what is there: modelyard doctor",
        ) from error
    except AttributeError as error:  # of a package that another has left half of
        from converter.plugins.extras import damaged

        if half := damaged(error):
            raise half from error
        raise
    return made() if isinstance(made, type) else made


def loaded(*kinds: str) -> Iterator[Any]:
    """The plug-ins of these kinds that can be loaded here; the others aren't used here either."""
    for kind in kinds:
        for name in available(kind):
            with suppress(ModelyardError):
                yield load(kind, name)
