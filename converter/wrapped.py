"""A source or a session as another one that changes something: the rest is passed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from converter.ir import Model, TensorSpec
    from converter.plugins import Arrays, Session, Source, Timing

    Array = np.ndarray[Any, Any]


class WrappedSource:
    """Another source.

    Args:
        source: That one.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def parse(self) -> Model:
        """The source's model."""
        return self._source.parse()

    def reference(self) -> Session:
        """The framework."""
        return self._source.reference()

    def dependencies(self) -> Mapping[str, Path]:
        """The source's."""
        return self._source.dependencies()

    @property
    def warnings(self) -> Sequence[str]:
        """The source's."""
        return self._source.warnings

    def close(self) -> None:
        """Closes the source."""
        self._source.close()


class WrappedSession:
    """Another session.

    Args:
        session: That one.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The session's."""
        return self._session.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The session's."""
        return self._session.outputs

    @property
    def runtime(self) -> dict[str, Any]:
        """The session's."""
        return self._session.runtime

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """Runs the session on what it is fed for the feeds."""
        return self._session.run(self._fed(feeds))

    def time(self, feeds: Arrays, runs: int, concurrency: int = 1) -> Timing:
        """The session's time alone: what it is fed is made before."""
        return self._session.time(self._fed(feeds), runs, concurrency)

    def close(self) -> None:
        """Closes the session."""
        self._session.close()

    def _fed(self, feeds: Arrays) -> Arrays:
        """What the session is fed."""
        return feeds
