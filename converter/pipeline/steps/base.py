"""What a step is to :mod:`converter.pipeline.run`: a function of the request, the source and the
results of other steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from converter.errors import ModelyardError
from converter.options.request import Request
from converter.pipeline.cache import Cache
from converter.pipeline.plan import Plan, Step
from converter.pipeline.reads import contents_of
from converter.pipeline.work import Work, left_of, sized
from converter.runtime.session import Progress, Session

R = TypeVar("R")


class Results(Protocol):
    """The results of the steps that are done; and what isn't to be done, and why."""

    @property
    def plan(self) -> Plan: ...

    def result(self, id: str) -> Any: ...

    def leave_out(self, target: str, error: ModelyardError) -> None: ...


class Codec(Protocol[R]):
    """How a kind of result is written into a folder, and read."""

    def save(self, folder: Path, result: R, own: Path) -> None:
        """Writes a result.

        Args:
            folder: An empty folder.
            result: What a step gave.
            own: A folder whose files nobody changes any more: weights mapped from them may be
                links.
        """

    def load(self, folder: Path) -> R | None:
        """What was written; raises, or gives None, where that is damaged."""


class StepAction(ABC):
    """What a kind of step does.

    Args:
        work: What all steps of a part share.
        done: What steps have given so far.
        versions: Of the packages that take part, by name: they are a part of keys.

    Attributes:
        codec: How its results are kept; None of those that are kept nowhere.
    """

    codec: ClassVar[Codec[Any] | None] = None

    def __init__(self, work: Work, done: Results, versions: Mapping[str, str]) -> None:
        self.work = work
        self.done = done
        self.versions = versions

    @property
    def request(self) -> Request:
        """What was asked for, with the sizes that the source suggests; of files, what is left to
        do outside of the graph."""
        model = self.done.result("parse").model
        return left_of(sized(self.work.request, model), model)

    def session(self) -> Session:
        """The source framework's session."""
        return self.work.opened.session(self.done.result("parse").model)

    @abstractmethod
    def run(self, step: Step, progress: Progress) -> Any:
        """Does it; gives its result."""

    def known(self, step: Step, needs: list[str]) -> str:
        """The key of what is known before it is done: of what is asked for, the contents of files
        that this names, the versions of what does it, and the keys of what it needs."""
        return step.key(needs, self.versions, contents_of(step.params))

    def key(self, step: Step, needs: list[str], result: Any) -> str:
        """The key of its result: what is known before, or what only the result can tell."""
        return self.known(step, needs)

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        """The key and the result of an earlier run."""
        if self.codec is None:
            return None
        key = self.known(step, needs)
        result = cache.load(key, self.codec.load)
        if result is None:
            return None
        self.found(result)
        return key, result

    def found(self, result: Any) -> None:  # noqa: B027 - for most, that is all
        """Called where an earlier run's result is taken."""

    def keep(self, key: str, result: Any, cache: Cache) -> None:
        """Puts its result into the cache."""
        codec = self.codec
        if codec is not None and self.is_kept(result):
            cache.save(key, lambda folder: codec.save(folder, result, self.work.scratch))

    def is_kept(self, result: Any) -> bool:
        """Whether a result is worth its room."""
        return True
