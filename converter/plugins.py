"""Finds parsers, passes, emitters and servers, and says what each must be.

Four kinds of plug-in, each an entry-point group: ``modelyard.parsers``, ``.passes``,
``.emitters``, ``.servers``. Ours are registered like anybody's, in pyproject.toml; the
pipeline reaches all of them through here, never by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from converter.errors import DependencyError, Unsupported, UsageError

if TYPE_CHECKING:
    import numpy as np

    from converter.check.reference import ReferenceOutputs
    from converter.contents import Contents
    from converter.ir import Model, TensorSpec
    from converter.request import Request
    from converter.samples import Samples

    Arrays = Mapping[str, np.ndarray[Any, Any]]

KINDS = ("parsers", "passes", "emitters", "servers")

Progress = Callable[[str], None]
"""Called with what is being done now, in a few words."""


Announce = Callable[[Path, Path, Path], None]
"""Called before a folder is renamed: the folder, what it is to be, and a folder on the same file
system that no server looks into; :meth:`converter.published.Journal.announce`."""


class Session(Protocol):
    """A model that can be run: the source framework's, or an artifact in its runtime."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def runtime(self) -> dict[str, Any]:
        """What really runs: ``name``, ``version``, ``providers``, ``threads``...

        Where something else runs in an artifact's place, ``stands_for`` names the file that
        doesn't run, and ``not_run`` says why. Such a session is checked, and never measured.
        """

    def run(self, feeds: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """Outputs by name, in order. Feeds are arrays by input name, batch included."""

    def time(self, feeds: Arrays, runs: int, concurrency: int = 1) -> Timing:
        """Runs ``feeds`` ``runs`` times in each of ``concurrency`` callers."""

    def close(self) -> None: ...


@runtime_checkable
class Roundable(Protocol):
    """A session that can round in another way."""

    def run_rounded(self, feeds: Arrays, seed: int) -> dict[str, np.ndarray[Any, Any]]:
        """As :meth:`Session.run`, with rounding added by ``seed``."""


@dataclass(frozen=True)
class Timing:
    """Latencies of single runs, in nanoseconds, and the wall time of all of them together."""

    ns: tuple[int, ...]
    total_ns: int


@dataclass(frozen=True)
class Identity:
    """What the result of reading a source depends on.

    Attributes:
        name: The model's name where the user gives none.
        format: ``onnx``, ``pytorch``...
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
class Tokenizing(Protocol):
    """A source that makes tokens of texts, as its model takes them."""

    def tokenize(
        self, texts: Sequence[str], pairs: Sequence[str] | None, length: int | None, fixed: bool
    ) -> list[dict[str, list[int]]]:
        """Each text's numbers, by the tokenizer's names; see :data:`converter.samples.texts`."""


class Parser(Protocol):
    """A source format."""

    name: str
    extra: str | None

    def sniff(self, source: str) -> bool:
        """Whether ``source`` is of this format, by content, not only by suffix."""

    def identify(self, request: Request) -> Identity:
        """What it is, without starting the framework; raises UsageError if it isn't there."""

    def open(self, request: Request, workdir: Path, progress: Progress) -> Source: ...


@runtime_checkable
class Living(Protocol):
    """A parser that also takes models of its framework that are alive in the caller's process."""

    def living(self, value: object, folder: Path) -> Parser | None:
        """What reads ``value`` in the parser's place; None where it is no model of this format.

        Whatever is written of it goes into ``folder``. No framework is imported to tell.
        """


@dataclass(frozen=True)
class Listing:
    """What a file holds, in its format's own terms.

    Attributes:
        format: ``TFLite, schema version 3``.
        inputs, outputs: Name, dtype and shape of each; scale and zero point of integers with them.
        op_types: For each of its operators, how many compute in which type, most frequent first.
        parameters: Numbers in the weights, however they are stored.
        stored: Bytes of the weights by the type that they are stored in.
        quantization: How many tensors (or operations) stand for real numbers, by type or name.
        domains: Of an ONNX model: the version of each operator domain, of ONNX's own by "".
    """

    format: str
    inputs: Sequence[Mapping[str, Any]]
    outputs: Sequence[Mapping[str, Any]]
    op_types: Mapping[str, Mapping[str, int]]
    parameters: int
    stored: Mapping[str, int]
    quantization: Mapping[str, int] = field(default_factory=dict)
    domains: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class Listed(Protocol):
    """A parser that can say what is in its files without taking them for conversion."""

    def listing(self, request: Request) -> Listing:
        """What is in the file ``request.source``; raises as :meth:`Parser.open`."""


@dataclass
class Later:
    """What scripts in an output do when they are run; paths may have * in their last part.

    Attributes:
        write: Files that they make.
        move: Where they put files that are there already, or copies of them.
    """

    write: list[Path] = field(default_factory=list)
    move: list[Path] = field(default_factory=list)


@dataclass
class Artifact:
    """A file (or folder) that an emitter wrote.

    Attributes:
        target, precision: What it is.
        path: Where it lies, to be opened.
        files: All of its files, ``path`` first.
        details: What the report should say of it; ``decisions``: lines on what was chosen and why;
            ``assumes``: lines on what its user has to keep to.
        later: What scripts among the files do when they are run.
    """

    target: str
    precision: str
    path: Path
    files: list[Path] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    later: Later = field(default_factory=Later)


class Emitter(Protocol):
    """A target format.

    One whose files can't have 16-bit floats as inputs and outputs says ``half_io = False``; one
    that can have integers with scales in their place says ``integer_io = True``.
    """

    name: str
    extra: str | None
    scheme: str
    """Its int8: a name of :data:`converter.quantize.scheme.SCHEMES`."""

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """All that this target can't take of the model.

        Asked twice: of the model as it was read, where only what simplifying can't change counts
        (``simplified`` is false), and of the simplified one.
        """

    def emit(self, model: Model, folder: Path, precision: str, request: Request) -> Artifact:
        """Writes the model into ``folder``."""

    def sniff(self, path: Path) -> bool:
        """Whether a file (or folder) is one that :meth:`open` can run."""

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The artifact, opened from disk in the target's own runtime.

        With ``frugal``, a large model takes as little memory as it can; speed doesn't count.
        """


@runtime_checkable
class Configurable(Protocol):
    """An emitter or a server with options that mean nothing to most others."""

    options: Sequence[str]
    """Fields of :class:`converter.request.Request`, and headings whose options are all meant."""


@runtime_checkable
class Lacking(Protocol):
    """An emitter that doesn't have every precision, or not with every option."""

    def require_precision(self, precision: str, request: Request) -> None:
        """Raises UsageError where there can't be an artifact of ``precision``."""


@runtime_checkable
class Observing(Protocol):
    """An emitter whose artifacts depend on how large the samples' free dimensions are."""

    def observe(self, samples: Samples, model: Model) -> None:
        """Looks at the samples of ``model``; called before ``emit``."""


@runtime_checkable
class Varied(Protocol):
    """An emitter whose artifacts run on other kernels too, elsewhere than here: checked as well."""

    def others(self, artifact: Artifact, request: Request) -> Mapping[str, Callable[[], Session]]:
        """Openers of the artifact, by what it runs on: ``without XNNPACK``."""


@runtime_checkable
class Counting(Protocol):
    """An emitter that reads its artifacts back for what is in them: what reports say of shares and
    sizes is counted there."""

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """What ``artifact`` holds, opened from disk.

        Args:
            artifact: What :meth:`Emitter.emit` gave.
            request: What was asked for.
            sizes: Of free dimensions by name, as the samples have them; 1 for those it lacks.

        Raises:
            ModelError: It can't be read.
        """


@runtime_checkable
class Comparing(Protocol):
    """A server whose folders may hold what the source gave, to compare with where they run."""

    def compare_with(self, reference: ReferenceOutputs) -> None:
        """Takes the source's outputs on the samples; called before ``package``."""


@runtime_checkable
class Telling(Protocol):
    """An emitter whose artifacts no parser reads, and that says itself what is in them."""

    def sniff(self, path: Path) -> bool:
        """As an emitter's."""

    def tell(self, path: Path) -> Mapping[str, Any]:
        """What ``path`` is, for people and as JSON: a few names and values, in order."""


class Server(Protocol):
    """A server's folder of files around an artifact."""

    name: str
    extra: str | None
    accepts: Sequence[str]
    """The targets whose artifacts it serves, best first."""

    def check(self, model: Model, request: Request) -> None:
        """Raises for what can be known to be wrong before anything is converted."""

    def package(
        self, artifact: Artifact, model: Model, samples: Samples, request: Request, folder: Path
    ) -> Packaged:
        """Writes ``<folder>/<model name>/...``; ``folder`` is ``serving/<server>``."""

    def publish(self, packaged: Packaged, repository: Path, announce: Announce) -> Path:
        """Adds a package, at its next version, to an existing repository; gives the version's
        folder. Never touches a version that is there.

        What is added is made aside, announced, and then appears by one rename: a run that is killed
        before its output is in place takes it back by that.
        """


@dataclass
class Packaged:
    """A server's folder as written.

    Attributes:
        server: The server's name.
        path: The model's folder.
        details: What the report should say of it: max batch, version, instances, warm-ups.
        decisions: What was chosen and why, a line each.
        later: What scripts in it do when they are run.
    """

    server: str
    path: Path
    details: dict[str, Any] = field(default_factory=dict)
    decisions: list[str] = field(default_factory=list)
    later: Later = field(default_factory=Later)


def available(kind: str) -> dict[str, EntryPoint]:
    """The plug-ins of a kind by name, ours first; two of one name are refused.

    Raises:
        DependencyError: Two packages register the same name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=f"modelyard.{kind}"):
        if entry.name in found and entry.value != found[entry.name].value:
            raise DependencyError(
                f"two packages register the {kind[:-1]} {entry.name!r}: "
                f"{found[entry.name].value} and {entry.value}",
                hint="Uninstall one of them.",
            )
        found[entry.name] = entry
    return dict(sorted(found.items()))


_SPOKEN = {"emitters": "target", "parsers": "source format"}
"""What users call the kinds."""


def load(kind: str, name: str) -> Any:
    """The plug-in's object, made from its entry point.

    Raises:
        UsageError: There is none of that name; the nearest names are given.
        DependencyError: It needs a package that isn't installed.
    """
    found = available(kind)
    if name not in found:
        raise UsageError(
            f"there is no {_SPOKEN.get(kind, kind[:-1])} {name!r}",
            hint=f"There are: {', '.join(found) or 'none'}.",
        )
    try:
        made = found[name].load()
    except ImportError as error:
        if error.name and error.name.split(".")[0] == found[name].module.split(".")[0]:
            raise  # a bug in the plug-in itself, not a missing package
        from converter.extras import extras, install_line

        raise DependencyError(
            f"the {_SPOKEN.get(kind, kind[:-1])} {name!r} needs the package {error.name or error}",
            hint=install_line(name) if name in extras() else "See what is there: modelyard doctor",
        ) from error
    return made() if isinstance(made, type) else made
