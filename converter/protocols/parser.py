"""What reads a source format: one plug-in of the group ``modelyard.parsers``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from converter.files.signatures import Marks
    from converter.ir.listing import Listing
    from converter.ir.model import Model, TensorSpec
    from converter.options.request import Request
    from converter.protocols.mmdnn import Known
    from converter.runtime.frameworks import Framework
    from converter.runtime.session import Progress, Session


@dataclass(frozen=True)
class Identity:
    """What the result of reading a source depends on.

    Attributes:
        name: The model's name where the user gives none.
        format: The parser's name.
        files: The source's files, by a name without a path: their contents are the key.
        versions: Versions of what reads it.
        assets: Files that go with the model wherever it goes, as a tokenizer's, by name.
        runs_code: Whether code of the user's runs while it is read, which may depend on anything:
            it is read anew in every run.
    """

    name: str
    format: str
    files: Mapping[str, Path]
    versions: Mapping[str, str]
    assets: Mapping[str, Path] = field(default_factory=dict)
    runs_code: bool = False

    @property
    def python(self) -> str:
        """The version of the user's Python that reads it; empty where that is our own."""
        return self.versions.get("python", "")


class Source(Protocol):
    """A source that is open: its model, and the framework that runs it."""

    def parse(self) -> Model:
        """The source as a Model, in whatever opset its exporter gives."""

    def reference(self) -> Session:
        """The framework itself."""

    def dependencies(self) -> Mapping[str, Path]:
        """Files that reading it turned out to depend on: the user's modules."""

    @property
    def warnings(self) -> Sequence[str]:
        """What the report has to say loudly."""

    def close(self) -> None: ...


@runtime_checkable
class Rerunning(Protocol):
    """A source that runs under an interface that is known already, without being read anew."""

    def rerun(self, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> Session:
        """The framework itself, whose inputs and outputs are these, in this order."""


@runtime_checkable
class Tokenizing(Protocol):
    """A source that makes tokens of texts, as its model takes them."""

    def tokenize(
        self, texts: Sequence[str], pairs: Sequence[str] | None, length: int | None, fixed: bool
    ) -> list[dict[str, list[int]]]:
        """Turns each text into numbers. See :mod:`converter.samples.texts`.

        Args:
            texts: The texts.
            pairs: The second text of each, as many as ``texts``, for models that take two; None for
                others.
            length: The most tokens of a text: longer ones are cut. None for the tokenizer's own
                limit.
            fixed: Whether each text is also padded to ``length``.

        Returns:
            For each text, the numbers by the tokenizer's names (``input_ids``, ``attention_mask``),
            one for each token.
        """


class Parser(Protocol):
    name: str
    extra: str | None
    framework: Framework | None
    """What reads or runs it in a process of its own; None where nothing does."""
    marks: Marks
    """What its files are known by."""

    def sniff(self, source: str) -> bool:
        """Whether ``source`` is of this format, by content, not only by suffix."""

    def identify(self, request: Request) -> Identity:
        """What it is, without starting the framework; raises UsageError if it isn't there."""

    def open(self, request: Request, workdir: Path, progress: Progress) -> Source:
        """Opens the source and starts its framework, where it needs one.

        Args:
            request: The source, and the options that say how to read it.
            workdir: A folder for what is written while the source is open; the caller deletes it.
            progress: Called with what happens, in a few words.

        Raises:
            ModelError: The file can't be read.
            DependencyError: The framework isn't there.
        """


@runtime_checkable
class Living(Protocol):
    """A parser that also takes models of its framework that are alive in the caller's process."""

    def living(self, value: object, folder: Path) -> Parser | None:
        """What reads ``value`` in the parser's place; None where it is no model of this format.

        Whatever is written of it goes into ``folder``. No framework is imported to tell.
        """


@runtime_checkable
class Migrated(Protocol):
    """A parser of a framework that MMdnn knew."""

    @property
    def mmdnn(self) -> Known:
        """What its users know of it."""


@runtime_checkable
class Listed(Protocol):
    """A parser that can say what is in its files without taking them for conversion."""

    def listing(self, request: Request) -> Listing:
        """What is in the file ``request.source``; raises as :meth:`Parser.open`."""
