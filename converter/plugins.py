"""Finds parsers, passes, emitters and servers, and says what each must be.

Four kinds of plug-in, each an entry-point group: ``modelyard.parsers``, ``.passes``,
``.emitters``, ``.servers``; and ``.options``, the dataclasses that their options are declared in.
Ours are registered like anybody's, in pyproject.toml; the pipeline reaches all of them through
here, never by name.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from converter.errors import DependencyError, ModelyardError, Unsupported, UsageError
from converter.files.marks import Marks

if TYPE_CHECKING:
    import numpy as np

    from converter.check.reference import ReferenceOutputs
    from converter.check.shipping import Shipped
    from converter.files.foreign import Foreign
    from converter.ir.contents import Contents
    from converter.ir.model import Legalized, Model, TensorSpec
    from converter.options.mmdnn import Known
    from converter.options.request import Request
    from converter.passes.legalize.chain import LegalizingPass
    from converter.precision.int8.scheme import Scheme
    from converter.runtime.frameworks import Framework
    from converter.samples import Samples

    Arrays = Mapping[str, np.ndarray[Any, Any]]

KINDS = ("parsers", "passes", "emitters", "servers")

Progress = Callable[[str], None]
"""Called with what is being done now, in a few words."""


Announce = Callable[[Path, Path, Path], None]
"""Called before a folder is renamed: the folder, what it is to be, and a folder on the same file
system that no server looks into; :meth:`converter.pipeline.published.Journal.announce`."""


class Session(Protocol):
    """A model that can be run: the source framework's, or an artifact in its runtime."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def runtime(self) -> dict[str, Any]:
        """What really runs: ``name``, ``version``, ``providers``, ``threads``...

        ``by_name`` is true where outputs have names and no order.

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
class Excerpt:
    """Some values of a tensor, by which it is known: of ``n`` flat values those at
    ``i * (n - 1) // 4095`` for ``i`` below 4096; all where there are no more than that."""

    shape: tuple[int, ...]
    values: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Part:
    """A part of a source's model as it ran: a module, or a function that a module calls.

    Attributes:
        name: The module's path, as nodes of the graph are called after it: ``encoder.attn``;
            empty for the model itself.
        kind: Its class.
        place: Where it is in the code, ``net.py:4``; empty where that isn't known. Never a path.
        inputs, outputs: Its tensors, by their keys in :attr:`Parts.tensors`; alike ones have one.
        call: Whether it is a function that the module ``name`` calls, at ``place``.
    """

    name: str
    kind: str
    place: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    call: bool = False


@dataclass(frozen=True)
class Parts:
    """What ran, in the order in which it ended, and the tensors."""

    ran: tuple[Part, ...]
    tensors: Mapping[str, Excerpt]


@runtime_checkable
class Locating(Protocol):
    """A session that can say what the parts of its model gave."""

    def parts(self, feeds: Arrays, inside: str = "") -> Parts:
        """What the module ``inside`` gave in each of its runs, and before that what it called: its
        own modules, and functions with the line that they are called in."""


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
        """Each text's numbers, by the tokenizer's names; see :data:`converter.samples.texts`."""


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

    def open(self, request: Request, workdir: Path, progress: Progress) -> Source: ...


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


@dataclass(frozen=True)
class Listing:
    """What a file holds, in its format's own terms.

    Attributes:
        format: ``ONNX, IR version 10``.
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
        legalized: The model as it was for the target, where that is made before
            (:meth:`Emitter.legalizing`).
        left_out: Outputs of the source's that it lacks, each with what to say of that.
    """

    target: str
    precision: str
    path: Path
    files: list[Path] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    later: Later = field(default_factory=Later)
    legalized: Legalized | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)


class Emitter(ABC):
    """A target format: all that is known of it stands in a class that extends this.

    Attributes:
        name: As ``--to`` has it.
        extra: The install extra of ours that brings what it needs.
        scheme: Its int8; None where it has none.
        precisions: Those that it has, by name.
        lacks: Of others, by name, why it hasn't it and what to do instead.
        texts: Whether its files can give text; without, such outputs are left out where others
            remain.
        half_io: Whether its files can have 16-bit floats as inputs and outputs.
        integer_io: Whether they can have integers with scales in their place.
        lowers: Whether :meth:`emit` lowers every node, and so raises all that :meth:`unsupported`
            would list: it isn't asked first where it would take as long.
        options: The options that mean nothing to most others: fields of
            :class:`converter.options.request.Request`, and headings: all below them.
        packages: Distributions that do its work: ``doctor`` and the manifest list their versions.
        cached: The folders that it has in the cache, and what lies in them has names like.
        packs: Whether its artifacts are packages by themselves: devices run them, and no server.
        tells: Whether no parser reads its files: :meth:`tell` says what is in them.
        marks: What those are known by.
        refused: Why they are no sources.
    """

    name: str
    extra: str | None = None
    scheme: Scheme | None = None
    precisions: Collection[str]
    lacks: Mapping[str, tuple[str, str]] = MappingProxyType({})
    texts: bool = True
    half_io: bool = True
    integer_io: bool = False
    lowers: bool = False
    options: Sequence[str] = ()
    packages: Sequence[str] = ()
    cached: Mapping[str, str] = MappingProxyType({})
    tells: bool = False
    packs: bool = False
    marks: Marks = Marks()
    refused: Sequence[Foreign] = ()

    def require_precision(self, precision: str, request: Request) -> None:
        """Raises UsageError where there can't be an artifact of ``precision``."""
        if precision not in self.precisions:
            has = f"it has {', '.join(self.precisions)}", "Ask for one of those."
            why, hint = self.lacks.get(precision, has)
            raise UsageError(f"{self.name} has no {precision}: {why}", hint=hint)

    def int8(self, request: Request) -> Scheme | None:
        """Its int8 for a request: :attr:`scheme`, where no option chooses another."""
        return self.scheme

    def has_grouped_tables(self, request: Request) -> bool:
        """Whether palettized weights may have a table for each group of channels."""
        return True

    @abstractmethod
    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """All that this target can't take of the model.

        Asked twice: of the model as it was read, where only what simplifying can't change counts
        (``simplified`` is false), and of the simplified one.
        """

    def ready(self) -> None:  # noqa: B027
        """Imports what takes long to import; called beside a framework that reads the model. What
        is wrong then, :meth:`emit` says."""

    def observe(self, samples: Samples, model: Model) -> None:  # noqa: B027
        """Looks at the samples of ``model``, where artifacts depend on how large their free
        dimensions are; called before ``emit``."""

    @abstractmethod
    def emit(self, model: Model, folder: Path, precision: str, request: Request) -> Artifact:
        """Writes the model into ``folder``."""

    @abstractmethod
    def sniff(self, path: Path) -> bool:
        """Whether a file (or folder) is one that :meth:`open` can run."""

    @abstractmethod
    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The artifact, opened from disk in the target's own runtime.

        With ``frugal``, a large model takes as little memory as it can; speed doesn't count.
        """

    def legalizing(self, model: Model, request: Request) -> LegalizingPass | None:
        """What writes the model in operators that this target has, in ONNX, where something does;
        verified like a pass before ``emit``, which takes what came of it
        (:attr:`Model.legalized`)."""
        return None

    def others(self, artifact: Artifact, request: Request) -> Mapping[str, Callable[[], Session]]:
        """Openers of the artifact on kernels that it runs on elsewhere than here, by what they are:
        ``without XNNPACK``. It is checked on each."""
        return {}

    @abstractmethod
    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """What ``artifact`` holds, read back from disk: reports count shares and sizes in it.

        Args:
            artifact: What :meth:`emit` gave.
            request: What was asked for.
            sizes: Of free dimensions by name, as the samples have them; 1 for those it lacks.

        Raises:
            ModelError: It can't be read.
        """

    def pack(
        self, artifact: Artifact, model: Model, shipped: Shipped, request: Request
    ) -> Sequence[str]:
        """Makes a package of a checked artifact, where :attr:`packs`: writes beside it what whoever
        has it needs; gives lines on what was decided.

        Args:
            artifact: What :meth:`emit` gave; what scripts in the package write is added to its
                ``later``.
            model: What it was made of.
            shipped: Samples that go along.
            request: What was asked for; its name is the package's.
        """
        return ()

    def tell(self, path: Path) -> Mapping[str, Any]:
        """What ``path`` is, for people and as JSON: a few names and values, in order; where
        :attr:`tells`."""
        raise NotImplementedError


class Server(ABC):
    """A server's folder of files around an artifact: a class that extends this.

    Attributes:
        name: As ``--serve`` has it.
        extra: The install extra of ours that brings what it needs.
        accepts: The targets whose artifacts it serves, best first.
        options: As an :class:`Emitter`'s; those of ``emitters/serving/request.py`` by name.
        packages: As an :class:`Emitter`'s.
        tools: Commands of it that ``doctor`` looks for.
        publishes: Whether it has repositories that packages are added to (``--repository``).
        ports: The ports that it listens on, by name, with its usual numbers; ``http`` first.
            Where there are none, ``modelyard serve`` doesn't start it.
        shipped: Samples that go along with the artifact; set before ``package``, None outside of
            a run.
        source: Opens what runs the source, for folders whose expected outputs aren't those of the
            samples alone; set as well, None where the check was left out.
    """

    name: str
    extra: str | None = None
    accepts: Sequence[str]
    options: Sequence[str] = ()
    packages: Sequence[str] = ()
    tools: Sequence[str] = ()
    publishes: bool = False
    ports: Mapping[str, int] = MappingProxyType({})
    shipped: Shipped | None = None
    source: Callable[[], Session] | None = None

    def compare_with(self, reference: ReferenceOutputs) -> None:  # noqa: B027
        """Takes the source's outputs on the samples, for folders that hold them to be compared
        with where they run; called before ``package``."""

    @abstractmethod
    def check(self, model: Model, request: Request) -> None:
        """Raises for what can be known to be wrong before anything is converted."""

    @abstractmethod
    def package(
        self, artifact: Artifact, model: Model, samples: Samples, request: Request, folder: Path
    ) -> Packaged:
        """Writes ``<folder>/<model name>/...``; ``folder`` is ``serving/<server>``."""

    def publish(self, packaged: Packaged, repository: Path, announce: Announce) -> Path:
        """Adds a package, at its next version, to an existing repository; gives the version's
        folder; where :attr:`publishes`. Never touches a version that is there.

        What is added is made aside, announced, and then appears by one rename: a run that is killed
        before its output is in place takes it back by that.
        """
        raise NotImplementedError

    def holds(self, folder: Path) -> bool:
        """Whether ``folder`` is a package of this server, as :meth:`package` wrote it, by its
        files: nothing of a package is run or imported to tell."""
        return False

    def environment(self, folder: Path) -> Environment:
        """What the package needs to run; where :attr:`ports`, as all that follow."""
        raise NotImplementedError

    def command(self, launch: Launch) -> Command:
        """How the server is started with the package ``launch.folder``.

        It may write into ``launch.scratch``, and into no other folder.
        """
        raise NotImplementedError

    def container(self, folder: Path) -> Container | None:
        """The image that runs the package; None where none does."""
        return None

    def contained(self, launch: Launch) -> Sequence[str]:
        """How the server is started inside :meth:`container`, on this machine's network."""
        raise NotImplementedError

    def ready(self, launch: Launch) -> bool:
        """Asks the server once whether it answers and the model is loaded; ``serve`` asks again
        until it is. :func:`converter.serving.asking.answers` is what most need."""
        raise NotImplementedError

    def endpoints(self, folder: Path) -> Sequence[Endpoint]:
        """Where the package's model is asked, the fastest protocol first."""
        raise NotImplementedError


@dataclass(frozen=True)
class Environment:
    """What a server needs on this machine: a virtual environment, set up once under the cache.

    Attributes:
        name: Its folder in the cache begins with that.
        requirements: pip's, each with its version (``numpy==1.26.4``).
        megabytes: What pip downloads, about; users are asked before.
        dependencies: Whether pip adds what the requirements depend on.
        constraints: The text of a constraints file of pip's, with the versions of what it adds.
        programs: What has to be there already, and how it gets there: ``{"java": "apt-get
            install openjdk-17-jre-headless"}``.
        hint: What to do where pip can't install it.
    """

    name: str
    requirements: Sequence[str]
    megabytes: int
    dependencies: bool = True
    constraints: str = ""
    programs: Mapping[str, str] = field(default_factory=dict)
    hint: str = "It needs a network once; what was set up works with --offline."


@dataclass(frozen=True)
class Container:
    """The image that runs a package, where there is docker or podman.

    Attributes:
        image: Its name and tag; empty where it isn't known which one can.
        folder: Where the package lies in it: ``/models/net``.
        gpus: Whether it is given the machine's GPUs.
    """

    image: str
    folder: str
    gpus: bool = False


@dataclass(frozen=True)
class Launch:
    """Where a server is to run, and with what.

    Attributes:
        folder: The package.
        environment: The folder of its virtual environment.
        scratch: A folder for what the server needs beside the package, which is never written to.
            It is empty before :meth:`Server.command`, and gone after the server.
        host: The address to listen on.
        ports: Numbers by the names in :attr:`Server.ports`.
    """

    folder: Path
    environment: Path
    scratch: Path
    host: str
    ports: Mapping[str, int]

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.environment / "bin" / "python"

    @property
    def packages(self) -> Path:
        """The environment's ``site-packages``."""
        return next(self.environment.glob("lib/python3*/site-packages"))

    def address(self, port: str) -> str:
        """``127.0.0.1:8000``: where this machine asks the server."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"[{host}]:{self.ports[port]}" if ":" in host else f"{host}:{self.ports[port]}"


@dataclass(frozen=True)
class Command:
    """A process to start.

    Attributes:
        line: The program and its arguments.
        variables: Environment variables, beside those of our own process.
        folder: Where it runs; None for :attr:`Launch.scratch`.
        shared: What the names of its shared memory begin with; what is left of it is removed.
        after: A line that is run once the process has ended, however it did.
    """

    line: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    shared: str = ""
    after: Sequence[str] = ()


@dataclass(frozen=True)
class Endpoint:
    """Where a model is asked, and how.

    Attributes:
        protocol: ``v2`` (Open Inference Protocol over HTTP), ``grpc`` (the same), or ``json``: a
            POST of ``{input: nested lists, batch included}``, answered by ``{output: nested
            lists}``.
        port: Of :attr:`Server.ports`.
        model: The model's name; of ``json``, the path that it is asked at: ``/predict``.
    """

    protocol: str
    port: str
    model: str


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


@cache
def _registered(path: tuple[str, ...]) -> dict[str, EntryPoints]:
    """What the packages on ``sys.path`` register: a file of each is read for it, so it's kept."""
    found = entry_points()
    return {kind: found.select(group=f"modelyard.{kind}") for kind in (*KINDS, "options")}


def available(kind: str) -> dict[str, EntryPoint]:
    """The plug-ins of a kind by name, ours first; two of one name are refused.

    Raises:
        DependencyError: Two packages register the same name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in _registered(tuple(sys.path))[kind]:
        if entry.name in found and entry.value != found[entry.name].value:
            raise DependencyError(
                f"two packages register the {kind[:-1]} {entry.name!r}: "
                f"{found[entry.name].value} and {entry.value}",
                hint="Uninstall one of them.",
            )
        found[entry.name] = entry
    return dict(sorted(found.items()))


_OURS = frozenset({"converter", "emitters", "parsers"})


def is_ours(entry: EntryPoint) -> bool:
    """Whether a plug-in is one of modelyard's own."""
    return _package(entry) in _OURS


def _package(entry: EntryPoint) -> str:
    return entry.module.partition(".")[0]


def others() -> list[EntryPoint]:
    """The plug-ins of other distributions, of all kinds, by kind and name."""
    return [e for kind in KINDS for e in available(kind).values() if not is_ours(e)]


@cache
def places() -> tuple[str, ...]:
    """Where the code of those lies: the folder of each one's top package, or the module's file."""
    found: dict[str, None] = {}
    for spec in (find_spec(_package(entry)) for entry in others()):
        if spec is not None:
            found |= dict.fromkeys(spec.submodule_search_locations or [spec.origin or ""])
    return tuple(found)


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
        from converter.runtime.extras import extras, install_line

        raise DependencyError(
            f"the {_SPOKEN.get(kind, kind[:-1])} {name!r} needs the package {error.name or error}",
            hint=install_line(name) if name in extras() else "See what is there: modelyard doctor",
        ) from error
    except AttributeError as error:  # of a package that another has left half of
        from converter.runtime.extras import damaged

        if half := damaged(error):
            raise half from error
        raise
    return made() if isinstance(made, type) else made


def loaded(*kinds: str) -> Iterator[Any]:
    """The plug-ins of these kinds that can be loaded here; the others aren't used here either."""
    for kind in kinds:
        for name in available(kind):
            with suppress(ModelyardError):
                yield load(kind, name)
