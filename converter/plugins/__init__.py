"""Finds parsers, passes, emitters, servers, deployments and executors; what each must be says
:mod:`converter.protocols`.

Six kinds of plug-in, each an entry-point group: ``modelyard.parsers``, ``.passes``,
``.emitters``, ``.servers``, ``.deployments``, ``.executors``; and ``.options``, the dataclasses
that their options are declared in. Ours are registered like anybody's, in pyproject.toml; the
pipeline reaches all of them through here, never by name. A broken one of another distribution is
left out, and told.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from importlib.util import find_spec
from typing import Any

from converter.errors import DependencyError, ModelyardError, UsageError
from converter.text.words import one_line

KINDS = ("parsers", "passes", "emitters", "servers", "deployments", "executors", "options")
"""The groups of entry points, without ``modelyard.`` before them."""

_SPOKEN = {"emitters": "target", "parsers": "source format", "passes": "pass", "options": "options"}
"""What users call the kinds."""


@dataclass(frozen=True)
class Broken:
    """A plug-in of another distribution that can't be used here, and is left out.

    Attributes:
        kind, name: What it is.
        package: Its distribution.
        error: Why it can't be used.
    """

    kind: str
    name: str
    package: str
    error: str

    def __str__(self) -> str:
        return f"the {spoken(self.kind)} {self.name!r} of {self.package} is left out: {self.error}"


_broken: dict[tuple[str, str, str], Broken] = {}


def broken() -> list[Broken]:
    """The plug-ins that were found to be broken so far, by kind and name."""
    return [_broken[key] for key in sorted(_broken)]


def spoken(kind: str) -> str:
    """What users call one of a kind."""
    return _SPOKEN.get(kind, kind[:-1])


@cache
def _registered(path: tuple[str, ...]) -> dict[str, EntryPoints]:
    """What the packages on ``sys.path`` register: a file of each is read for it, so it's kept."""
    found = entry_points()
    return {kind: found.select(group=f"modelyard.{kind}") for kind in KINDS}


def available(kind: str) -> dict[str, EntryPoint]:
    """The plug-ins of a kind by name. Of two with one name ours stays, else the first package's."""
    found: dict[str, EntryPoint] = {}
    for entry in sorted(_registered(tuple(sys.path))[kind], key=_ours_first):
        known = found.setdefault(entry.name, entry)
        if known.value != entry.value:
            set_aside(kind, entry, f"{_distribution(known)} has one of that name")
    return dict(sorted(found.items()))


_OURS = frozenset({"converter", "emitters", "parsers"})


def _ours_first(entry: EntryPoint) -> tuple[bool, str]:
    """Ours need no distribution's name, for which its metadata is read anew each time."""
    return (False, "") if is_ours(entry) else (True, _distribution(entry))


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else _package(entry)


def is_ours(entry: EntryPoint) -> bool:
    """Whether a plug-in is one of modelyard's own."""
    return _package(entry) in _OURS


def _package(entry: EntryPoint) -> str:
    return entry.value.partition(":")[0].partition(".")[0]


def others() -> list[EntryPoint]:
    """The plug-ins of other distributions, of all kinds, by kind and name."""
    return [e for kind in KINDS for e in available(kind).values() if not is_ours(e)]


@cache
def places() -> tuple[str, ...]:
    """Where the code of those lies: the folder of each one's top package, or the module's file."""
    found: dict[str, None] = {}
    for package in dict.fromkeys(map(_package, others())):
        with suppress(ImportError, ValueError):  # told where it is loaded
            if (spec := find_spec(package)) is not None:
                found |= dict.fromkeys(spec.submodule_search_locations or [spec.origin or ""])
    return tuple(found)


def set_aside(kind: str, entry: EntryPoint, error: object) -> Broken:
    """Notes that a plug-in of another distribution can't be used, and why.

    Args:
        kind: The group: ``parsers``, ``emitters``...
        entry: Its entry point, which names the distribution.
        error: What was raised, or what is wrong in words.
    """
    bug = isinstance(error, Exception) and not isinstance(error, ModelyardError)
    what = f"{type(error).__name__}: {error}" if bug else getattr(error, "message", str(error))
    made = Broken(kind, entry.name, _distribution(entry), one_line(what))
    _broken[kind, made.name, made.package] = made
    return made


def load(kind: str, name: str) -> Any:
    """The plug-in's object, made from its entry point.

    Raises:
        UsageError: There is none of that name; the nearest names are given.
        DependencyError: It needs a package that isn't installed, or is another distribution's and
            broken.
    """
    found = available(kind)
    if name not in found:
        raise UsageError(
            f"there is no {spoken(kind)} {name!r}",
            code="unknown-name",
            hint=f"There are: {', '.join(found) or 'none'}.",
        )
    entry = found[name]
    if is_ours(entry):
        return _made(kind, entry)
    try:
        return _made(kind, entry)
    except Exception as error:  # whatever another's code raises
        made = set_aside(kind, entry, error)
        raise DependencyError(
            f"the {spoken(kind)} {name!r} of {made.package} can't be loaded: {made.error}",
            code="plugin-broken",
            hint=f"Repair it, or uninstall it: pip uninstall {made.package}",
        ) from error


def _made(kind: str, entry: EntryPoint) -> Any:
    try:
        made = entry.load()
    except ImportError as error:
        if error.name and error.name.split(".")[0] == _package(entry):
            raise  # a bug in the plug-in itself, not a missing package
        from converter.plugins.extras import extras, install_line

        name = entry.name
        raise DependencyError(
            f"the {spoken(kind)} {name!r} needs the package {error.name or error}",
            code="package-missing",
            hint=install_line(name)
            if name in extras()
            else "modelyard doctor shows what is installed.",
        ) from error
    except AttributeError as error:  # of a package that another has left half of
        from converter.plugins.extras import damaged

        if half := damaged(error):
            raise half from error
        raise
    if not isinstance(made, type) or kind == "options":
        return made
    if kind == "passes" or not is_ours(entry):  # these may keep something while they work
        return made()
    if made not in _stateless:
        _stateless[made] = made()
    return _stateless[made]


_stateless: dict[type, Any] = {}
"""Ours that keep nothing, by their classes: one object will do."""


def spec(kind: str, name: str) -> Any:
    """What is known of one plug-in without its code; as :func:`specs` gives it."""
    return dict(specs(kind))[name]


def specs(*kinds: str) -> Iterator[tuple[str, Any]]:
    """The plug-ins of these kinds by name, and what is known of each without its code
    (:mod:`converter.protocols.spec`): ``SPECS`` of its package, or of ``spec.py`` in that. Of one
    that has neither, the plug-in itself, where it can be loaded."""
    for kind in kinds:
        for name, entry in available(kind).items():
            if (found := _spec(entry)) is not None:
                yield name, found
            elif name in working(kind):
                yield name, load(kind, name)


def _spec(entry: EntryPoint) -> Any:
    package = entry.module.rpartition(".")[0]
    place = f"{package}.spec"
    try:
        own = getattr(import_module(package), "SPECS", None) if package else None
        found = import_module(place).SPECS if own is None else own
    except ModuleNotFoundError as error:
        if is_ours(entry) and error.name != place:
            raise
        return None
    except Exception:  # another's code: told where the plug-in itself is loaded
        if is_ours(entry):
            raise
        return None
    return found.get(entry.name)


def working(kind: str) -> list[str]:
    """The names of a kind, without those of other distributions that can't be loaded."""
    found = available(kind)
    return [name for name, entry in found.items() if is_ours(entry) or _loads(kind, name)]


def _loads(kind: str, name: str) -> bool:
    try:
        load(kind, name)
    except DependencyError:
        return False
    return True


def loaded(*kinds: str) -> Iterator[Any]:
    """The plug-ins of these kinds that can be loaded here; the others aren't used here either."""
    for kind in kinds:
        for name in available(kind):
            with suppress(ModelyardError):
                yield load(kind, name)
