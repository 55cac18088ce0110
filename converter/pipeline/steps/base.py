"""What a step is to :mod:`converter.pipeline.run`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from converter.errors import ModelyardError
from converter.options.request import Request
from converter.pipeline.cache import Cache
from converter.pipeline.plan import Step
from converter.pipeline.reads import contents_of
from converter.pipeline.work import Work
from converter.runtime.session import Progress


class Results(Protocol):
    """The results of the steps that are done; and what isn't to be done, and why."""

    def result(self, id: str) -> Any: ...

    def leave_out(self, target: str, error: ModelyardError) -> None: ...


class StepAction(ABC):
    """A step whose result is kept nowhere."""

    def __init__(self, work: Work, done: Results, versions: Mapping[str, str]) -> None:
        self.work = work
        self.done = done
        self.versions = versions

    @property
    def request(self) -> Request:
        """What was asked for."""
        return self.work.request

    @abstractmethod
    def run(self, step: Step, progress: Progress) -> Any:
        """Does it; gives its result."""

    def key(self, step: Step, needs: list[str], result: Any) -> str:
        """The step's own key."""
        return self.own_key(step, needs)

    def own_key(self, step: Step, needs: list[str]) -> str:
        """What is known before it is done: what is asked for, the contents of what that names, the
        versions of what does it, and the keys of what it needs."""
        return step.key(needs, self.versions, contents_of(step.params))

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        return None

    def keep(self, key: str, result: Any, cache: Cache) -> None:  # noqa: B027 - most keep nothing
        """Nothing is kept."""
