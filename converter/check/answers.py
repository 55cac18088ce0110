"""What a source gives on inputs that aren't samples: asked once, and kept where it is told."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from converter.check.feeding import Fed
from converter.check.reference import load_outputs, store_outputs
from converter.check.sums import Array
from converter.errors import ModelError, ModelyardError, from_os_error
from converter.runtime.session import Session
from converter.verify.probes import contents

Outputs = Mapping[str, Array]


class Answers:
    """A source's answers: what it gave, or why it refused.

    Args:
        source: Runs the source.
    """

    def __init__(self, source: Callable[[Outputs], Outputs]) -> None:
        self._source = source
        self._known: dict[str, Outputs | Path | ModelyardError] = {}
        self._folder: Path | None = None

    def keep_in(self, folder: Path | None) -> None:
        """Writes the answers that follow into a folder; None for memory alone."""
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def look_in(self, folder: Path) -> None:
        """Takes over what an earlier run kept in a folder, which is only read."""
        for path in folder.glob("*.npz"):
            self._known[path.stem] = path
        for path in folder.glob("*.refused"):
            self._known[path.stem] = ModelError(path.read_text(), code="model-code-failed")

    def know(self, feeds: Outputs, outputs: Outputs, tag: str = "") -> None:
        """Remembers what the source gave, so that it isn't asked again.

        Args:
            feeds: One sample: arrays by input name.
            outputs: What it gave for them: arrays by output name.
            tag: Tells runs on the same feeds apart: rounding added by a seed.
        """
        self._learn(_key(feeds) + tag, outputs)

    def __call__(self, feeds: Outputs, tag: str = "") -> Outputs:
        """Its outputs; ``tag`` tells calls with the same input apart.

        Raises:
            ModelyardError: It takes no such input.
        """
        key = _key(feeds) + tag
        if key not in self._known:
            try:
                self._learn(key, self._source(feeds))
            except ModelyardError as error:
                self._learn(key, error)
        found = self._known[key]
        if isinstance(found, ModelyardError):
            raise found
        return load_outputs(found) if isinstance(found, Path) else found

    def given(self, feeds: Outputs, tag: str = "") -> Outputs | None:
        """Its outputs; None where it takes no such input."""
        try:
            return self(feeds, tag)
        except ModelyardError:
            return None

    def without(self, left_out: Collection[str]) -> Answers:
        """These answers without some of the outputs."""
        return _Narrowed(self, frozenset(left_out)) if left_out else self

    def _learn(self, key: str, answer: Outputs | ModelyardError) -> None:
        self._known[key] = answer
        if self._folder is None:
            return
        try:
            if isinstance(answer, ModelyardError):
                (self._folder / f"{key}.refused").write_text(answer.message)
            else:
                self._known[key] = self._folder / f"{key}.npz"
                store_outputs(self._folder / f"{key}.npz", answer)
        except OSError as error:
            raise from_os_error(error, "storing what the source gives") from error


class _Narrowed(Answers):
    def __init__(self, answers: Answers, left_out: frozenset[str]) -> None:
        super().__init__(answers)
        self._all, self._left_out = answers, left_out

    def __call__(self, feeds: Outputs, tag: str = "") -> Outputs:
        found = self._all(feeds, tag)
        return {name: array for name, array in found.items() if name not in self._left_out}


class Once(Fed):
    """A source that is run once on each input, however often it is asked.

    Args:
        session: The source's.
        folder: Where its answers are kept.
    """

    def __init__(self, session: Session, folder: Path) -> None:
        super().__init__(session)
        self.answers = Answers(super().run)
        self.answers.keep_in(folder)

    def run(self, feeds: Outputs) -> dict[str, Array]:
        return dict(self.answers(feeds))


def _key(feeds: Outputs) -> str:
    digest = hashlib.sha256()
    for name, shape, values in contents(feeds):
        digest.update(f"{name}\0{shape}\0".encode())
        digest.update(values if isinstance(values, bytes) else repr(values).encode())
    return digest.hexdigest()
