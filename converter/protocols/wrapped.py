"""A source or a session as another one that changes something: the rest is passed on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.runtime.session import Locating

if TYPE_CHECKING:
    import numpy as np

    from converter.ir.model import Model, TensorSpec
    from converter.protocols.parser import Source
    from converter.runtime.session import Arrays, Parts, Session, Timing

    Array = np.ndarray[Any, Any]


class WrappedSource:
    """Another source.

    Args:
        source: That one.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def parse(self) -> Model:
        return self._source.parse()

    def reference(self) -> Session:
        return self._source.reference()

    def dependencies(self) -> Mapping[str, Path]:
        return self._source.dependencies()

    @property
    def warnings(self) -> Sequence[str]:
        return self._source.warnings

    def close(self) -> None:
        self._source.close()


class WrappedSession:
    """Another session.

    Args:
        session: That one.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        if isinstance(session, Locating):  # or nobody takes it for one
            self.parts = self._parts

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self._session.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self._session.outputs

    @property
    def runtime(self) -> dict[str, Any]:
        return self._session.runtime

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """Runs the session on what it is fed for the feeds."""
        return self._session.run(self._fed(feeds))

    def cast(self, feeds: Arrays) -> Arrays:
        """What the artifact itself is given, of a session that tells
        (:meth:`converter.check.feeding.Fed.cast`)."""
        inner: Any = self._session
        found: Arrays = inner.cast(self._fed(feeds))
        return found

    def time(self, feeds: Arrays, runs: int, concurrency: int = 1) -> Timing:
        """The session's time alone: what it is fed is made before."""
        return self._session.time(self._fed(feeds), runs, concurrency)

    def close(self) -> None:
        self._session.close()

    def _parts(self, feeds: Arrays, inside: str = "") -> Parts:
        """See :class:`converter.runtime.session.Locating`."""
        assert isinstance(self._session, Locating)
        return self._session.parts(self._fed(feeds), inside)

    def _fed(self, feeds: Arrays) -> Arrays:
        """What the session is fed."""
        return feeds


class ReadSource(WrappedSource):
    """A source that a library reads.

    Args:
        source: The source.
        reading: What its reading is inside of.
    """

    def __init__(self, source: Source, reading: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(source)
        self._reading = reading

    def parse(self) -> Model:
        with self._reading():
            return self._source.parse()

    def reference(self) -> Session:
        with self._reading():
            return self._source.reference()


class Narrowed(WrappedSession):
    """A session some of whose outputs nobody looks at.

    Args:
        session: What runs.
        left_out: Those outputs.
    """

    def __init__(self, session: Session, left_out: Collection[str]) -> None:
        super().__init__(session)
        self._left_out = frozenset(left_out)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Those that are left."""
        return tuple(spec for spec in super().outputs if spec.name not in self._left_out)

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """The session's outputs that are left."""
        found = super().run(feeds)
        return {name: array for name, array in found.items() if name not in self._left_out}
