"""What a server is given to join the packages of several parts; see :meth:`Server.join`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from converter.options.request import Request
    from converter.protocols.emitter import Artifact
    from converter.protocols.server import Packaged


@dataclass(frozen=True)
class Example:
    """A user's file that goes along with a flow.

    Attributes:
        path: Where it lies.
        name: What messages call it.
        answer: What the sources' flow says of it; None where the check was left out.
        kind: What it is, as :mod:`converter.preparation.stages` calls it.
    """

    path: Path
    name: str
    answer: Mapping[str, Any] | None = None
    kind: str = "picture"


@dataclass(frozen=True)
class JoinedPart:
    """A part in one precision.

    Attributes:
        packaged: Its package.
        artifact: What that serves.
        assets: Files that go with the model, as a tokenizer's, by name.
    """

    packaged: Packaged
    artifact: Artifact
    assets: Mapping[str, Path]


@dataclass(frozen=True)
class JoinedFlow:
    """A flow in one precision.

    Attributes:
        name: What users call it.
        steps: See :class:`converter.preparation.flow.FlowStep`, as JSON.
        parts: By their names.
        request: The first part's.
        examples: Files that go along.
        limit: The share of answers that has to be the sources'.
        reference: What gave the examples' answers: names and versions.
    """

    name: str
    steps: Sequence[Mapping[str, Any]]
    parts: Mapping[str, JoinedPart]
    request: Request
    examples: Sequence[Example] = ()
    limit: float = 0.0
    reference: str = ""
