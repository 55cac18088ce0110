"""What is known of a plug-in without its code.

It stands beside the module of the entry point, in the package itself or in its ``spec.py``, in
``SPECS`` by the plug-in's name, and :func:`converter.plugins.specs` reads it. That module imports
nothing but what data is made of. A plug-in without one has the same attributes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from converter.files.signatures import Marks

if TYPE_CHECKING:
    from converter.files.unread_formats import Foreign
    from converter.runtime.frameworks import Framework


@dataclass(frozen=True)
class ParserSpec:
    """Of a :class:`converter.protocols.parser.Parser`, whose attributes these are."""

    framework: Framework | None = None
    extra: str | None = None
    options: Sequence[str] = ()
    marks: Marks = field(default_factory=Marks)
    refused: Sequence[Foreign] = ()
    elsewhere: Callable[[str], str | None] = lambda source: None
    """How to fetch a source that isn't there; None where its name says nothing to the parser."""


@dataclass(frozen=True)
class TargetSpec:
    """Of a :class:`converter.protocols.emitter.Emitter`, whose attributes these are."""

    precisions: Collection[str]
    lacks: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    options: Sequence[str] = ()
    extra: str | None = None
    packages: Sequence[str] = ()
    cached: Mapping[str, str] = field(default_factory=dict)
    marks: Marks = field(default_factory=Marks)
    refused: Sequence[Foreign] = ()
    passes_left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerSpec:
    """Of a :class:`converter.protocols.server.Server`, whose attributes these are."""

    accepts: Sequence[str]
    options: Sequence[str] = ()
    extra: str | None = None
    packages: Sequence[str] = ()
    tools: Sequence[str] = ()
    ports: Mapping[str, int] = field(default_factory=dict)
    publishes: bool = False
    several: bool = False
    joins: bool = False


@dataclass(frozen=True)
class DeploymentSpec:
    """Of a :class:`converter.protocols.deployment.Deployment`, whose attributes these are."""

    options: Sequence[str] = ()


def apply(spec: Any, to: type) -> None:
    """Gives a class the attributes of its spec."""
    for item in fields(spec):
        setattr(to, item.name, getattr(spec, item.name))
