"""What a user asks for: one dataclass for the command line, a recipe and a Python call.

An option is declared once, with its default, its flags and its help: in the classes that a request
is made of (``*_options.py``), or in the folder of the target or server that it is for. The command
line builds its options from these fields, and a recipe's keys are their names. Only the standard
library is imported here, and by what plug-ins declare, so that ``modelyard --help`` starts in a
blink.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar

from converter import plugins
from converter.errors import DependencyError
from converter.options.check_options import CheckOptions, LatencyOptions, RunOptions
from converter.options.option import Option
from converter.options.source_options import SampleOptions, SourceOptions
from converter.options.target_options import PrecisionOptions, TargetOptions
from converter.plugins import available


@dataclass
class Request(
    RunOptions,
    LatencyOptions,
    CheckOptions,
    PrecisionOptions,
    SampleOptions,
    TargetOptions,
    SourceOptions,
):
    """One conversion: what is asked for, whatever the plug-ins are.

    Every field but ``source`` has a default; docs/options.md lists them. A plug-in's own options
    are the fields of a dataclass that extends this one, declared in the entry-point group
    ``modelyard.options``; :meth:`of` gives it a request with both.

    Attributes:
        plugin_options: The plug-ins' options that were given, by the names of their fields.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    plugin_options: dict[str, Any] = field(default_factory=dict)

    def of(self, kind: type[R]) -> R:
        """This request with a plug-in's own options.

        Args:
            kind: The dataclass that declares them.
        """
        if isinstance(self, kind):
            return self
        return kind(**{item.name: self.value(item.name) for item in fields(kind)})

    def value(self, name: str) -> Any:
        """The value of any option, by the name of its field."""
        if hasattr(self, name):
            return getattr(self, name)
        if name in self.plugin_options:
            return self.plugin_options[name]
        plain = field_of(name)
        return plain.default if plain.default_factory is MISSING else plain.default_factory()


R = TypeVar("R", bound=Request)

NO_OPTION = "plugin_options"
"""The field of a request that is no option."""


@cache
def sections() -> tuple[type[Request], ...]:
    """What plug-ins declare their options in, the last first.

    Raises:
        DependencyError: Two of ours have an option of one name, and not from a class that both
            extend.
    """
    known = {item.name: item for item in fields(Request)}
    taken = []
    for name, entry in available("options").items():
        kind = plugins.load("options", name) if name in plugins.working("options") else None
        if kind is None:
            continue
        wrong = _misfit(kind, known)
        if wrong and plugins.is_ours(entry):
            raise DependencyError(wrong, code="package-missing")
        if wrong:
            plugins.set_aside("options", entry, wrong)
            continue
        known |= {item.name: item for item in fields(kind)}
        taken.append(kind)
    return tuple(reversed(taken))


def _misfit(kind: Any, known: Mapping[str, Field[Any]]) -> str:
    """Why a plug-in's options can't be taken; empty where they can."""
    if not (isinstance(kind, type) and issubclass(kind, Request) and is_dataclass(kind)):
        return "its options aren't a dataclass that extends converter.options.request.Request"
    twice = (item.name for item in fields(kind) if known.get(item.name, item) is not item)
    return next((f"two plug-ins have the option {name}" for name in twice), "")


@cache
def all_fields() -> tuple[Field[Any], ...]:
    """Every option's field, the plug-ins' among them, in the order of docs/options.md."""
    last = {item.name for item in fields(RunOptions)}
    found = {item.name: item for item in fields(Request) if item.name not in last}
    for kind in sections():
        for item in fields(kind):
            found.setdefault(item.name, item)
    for name in (NO_OPTION, *last):
        found.pop(name, None)
    return (*found.values(), *fields(RunOptions))


_OF_CORE = frozenset(item.name for item in fields(Request))


@cache
def _fields_by_name() -> dict[str, Field[Any]]:
    return {item.name: item for item in all_fields()}


def field_of(name: str) -> Field[Any]:
    """The field of an option; raises KeyError where there is none."""
    return _fields_by_name()[name]


def option_of(name: str) -> Option:
    """How the command line spells the field ``name``."""
    return options()[name]


@cache
def options() -> dict[str, Option]:
    """How the command line spells each field that it has."""
    return {
        n: item.metadata["option"]
        for n, item in _fields_by_name().items()
        if "option" in item.metadata
    }


def group(name: str) -> tuple[str, ...]:
    """The fields whose options stand under the heading ``name``, in order."""
    return tuple(field for field, option in options().items() if option.group == name)


def taken(names: Collection[str]) -> tuple[str, ...]:
    """The fields that a plug-in's ``options`` name, by themselves or by their heading."""
    return tuple(n for n, option in options().items() if n in names or option.group in names)


def affecting(kind: str, names: Collection[str] = ()) -> tuple[str, ...]:
    """The fields that can change what a step gives, in order.

    Args:
        kind: Of :data:`converter.options.option.STEPS`.
        names: Those of the step's own target or server: what others declare isn't for it. What
            sources do all counts for ``parse``: there is one.
    """
    others = set(of_plugins()).difference(taken(names)) if kind != "parse" else ()
    found = (item for item in all_fields() if kind in item.metadata.get("affects", ()))
    return tuple(item.name for item in found if item.name not in others)


@cache
def of_plugins() -> tuple[str, ...]:
    """The fields that plug-ins declare."""
    return tuple(name for name in options() if name not in _OF_CORE)


@cache
def opening() -> tuple[str, ...]:
    """Those of them that say how an artifact is opened, to be checked or measured."""
    affects = {item.name: item.metadata.get("affects", ()) for item in all_fields()}
    return tuple(name for name in of_plugins() if "check" in affects[name])


IMAGE_OPTIONS = tuple(
    item.name
    for item in fields(SampleOptions)
    if "option" in item.metadata and item.metadata["option"].needs == "images"
)
"""The fields that say how images are prepared."""
