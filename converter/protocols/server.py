"""What packages an artifact for a server: one plug-in of the group ``modelyard.servers``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from converter.protocols.emitter import Later
from converter.protocols.spec import ServerSpec, apply

if TYPE_CHECKING:
    from converter.check.reference import ReferenceOutputs
    from converter.check.shipping import Shipped
    from converter.errors import Unsupported
    from converter.ir.model import Model
    from converter.options.request import Request
    from converter.preparation.declared import Declaration
    from converter.protocols.emitter import Artifact
    from converter.protocols.flow import JoinedFlow
    from converter.runtime.session import Session
    from converter.samples import Samples


MODELS = "/models"
"""Where packages lie in an image."""

Announce = Callable[[Path, Path | str, Path], None]
"""Called before a folder is renamed: the folder, what it is to be, and a folder on the same file
system that no server looks into. In an object store, before it is copied there: the folder, the URL
that it is to have, and the file in it that is written last.
:meth:`converter.pipeline.publish_journal.Journal.announce` is one."""


@dataclass(frozen=True)
class Evidence:
    """What a run knows of an artifact, for packages that hold some of it; None where it was left
    out.

    Attributes:
        shipped: Samples that go along with the artifact.
        reference: The source's outputs on the samples, to be compared with where a package runs.
        source: Opens what runs the source, for packages whose expected outputs aren't those of the
            samples alone.
        assets: Files that go with the model, as a tokenizer's, by name: a run copies them into the
            package's folder once it is written.
    """

    shipped: Shipped | None = None
    reference: ReferenceOutputs | None = None
    source: Callable[[], Session] | None = None
    assets: Mapping[str, Path] = field(default_factory=dict)


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
        joins: Whether it has flows (:meth:`join`).
        several: Whether one process of it serves several packages, which then lie in one folder:
            that folder may stand in a package's place below.
        ports: The ports that it listens on, by name, with its usual numbers; ``http`` first.
            Where there are none, ``modelyard serve`` doesn't start it.
    """

    name: str
    extra: str | None = None
    accepts: Sequence[str]
    options: Sequence[str] = ()
    packages: Sequence[str] = ()
    tools: Sequence[str] = ()
    publishes: bool = False
    several: bool = False
    joins: bool = False
    ports: Mapping[str, int] = MappingProxyType({})

    def __init_subclass__(cls, spec: ServerSpec | None = None) -> None:
        if spec is not None:
            apply(spec, cls)

    @abstractmethod
    def check(self, model: Model, request: Request) -> None:
        """Raises for what can be known to be wrong before anything is converted."""

    def unprepared(self, declared: Declaration) -> Sequence[Unsupported]:
        """What of a declaration its packages can't do; it is refused before anything is
        converted."""
        return ()

    @abstractmethod
    def package(
        self,
        artifact: Artifact,
        model: Model,
        samples: Samples,
        request: Request,
        folder: Path,
        evidence: Evidence | None = None,
    ) -> Packaged:
        """Writes the package ``<folder>/<model name>/...``.

        Args:
            artifact: The file that is served: a link to it or a copy goes into the package.
            model: The graph, whose inputs and outputs the server's configuration declares.
            samples: They go along as test data and warm-up.
            request: The options: the served name, ``--max-batch``, the server's own.
            folder: ``serving/<server>`` in the output, which exists.
            evidence: What the check kept for whoever runs the package: samples, limits, outputs;
                None where it was left out.
        """

    def join(self, folder: Path, flow: JoinedFlow) -> Packaged:
        """Writes ``<folder>/<flow's name>/...``, which takes users' files through the models of
        several parts, whose packages lie beside it; where :attr:`joins`."""
        raise NotImplementedError

    def publish(self, packaged: Packaged, repository: Path | str, announce: Announce) -> PurePath:
        """Adds a package, at its next version, to an existing repository; gives the version's
        folder; where :attr:`publishes`. Never touches a version that is there.

        What is added is made aside, announced, and then appears by one rename: a run that is killed
        before its output is in place takes it back by that. An object store has no rename: there
        :class:`converter.files.store_writer.StoreWriter` adds it.

        Args:
            packaged: What :meth:`package` wrote.
            repository: A folder, or the URL of one in an object store.
            announce: Called before anything appears.
        """
        raise NotImplementedError

    def versions(self, folder: Path) -> Sequence[int]:
        """The versions in a model's folder of a repository, in order; where :attr:`publishes`, as
        the next two."""
        raise NotImplementedError

    def served(self, folder: Path) -> Sequence[int]:
        """Those of them that the configuration has the server serve."""
        raise NotImplementedError

    def serving(self, folder: Path, version: int | None) -> tuple[str, str]:
        """A file's name in the folder and the text with which the server serves that version alone;
        with None, what it served before. Nothing is written here."""
        raise NotImplementedError

    def holds(self, folder: Path) -> bool:
        """Whether ``folder`` is a package of this server, as :meth:`package` wrote it, by its
        files: nothing of a package is run or imported to tell."""
        return False

    def calls(self, folder: Path) -> Sequence[Path]:
        """The packages beside ``folder`` that it asks itself: they are served with it, and samples
        of tensors are theirs."""
        return ()

    def environment(self, folder: Path) -> Environment | None:
        """What the package needs to run; where :attr:`ports`, as all that follow. None where its
        :meth:`container` alone runs it."""
        return None

    def deployed(self, folder: Path, root: str = MODELS) -> ServedBy | None:
        """What a deployment has to know of the package; None where the server can't be deployed.

        Args:
            folder: The package.
            root: Where its folder's parent lies there.

        Raises:
            UsageError: The package lacks something that is still to be made.
        """
        return None

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

    def files_at(self, folder: Path) -> Endpoint | None:
        """Where users' files are posted to, ``model`` being the path; None where it takes none."""
        return None

    def knobs(self, folder: Path) -> Sequence[Knob]:
        """The settings of a package that ``modelyard tune`` tries values of; where there are none,
        it doesn't tune it.

        Raises:
            UsageError: What would be measured says nothing of the package, and why.
        """
        return ()

    def turned(self, folder: Path, values: Mapping[str, Value]) -> Turned:
        """What :meth:`knobs` at these values make of the package's files; none is written here."""
        raise NotImplementedError


Value = int | str
"""Of a :class:`Knob`."""


@dataclass(frozen=True)
class Knob:
    """A setting of a package that can be turned.

    Attributes:
        name: What people call it, with its unit: ``queue delay us``.
        values: Those that make sense on this machine, the package's own among them; numbers in
            order.
        value: As the package has it.
        of_files: Whether it acts on requests of files alone.
    """

    name: str
    values: Sequence[Value]
    value: Value
    of_files: bool = False


@dataclass(frozen=True)
class Turned:
    """A package at other settings.

    Attributes:
        files: The text of each file that is otherwise, of the package or of one that it calls.
        details: What of :attr:`Packaged.details` is otherwise.
    """

    files: Mapping[Path, str]
    details: Mapping[str, Any] = field(default_factory=dict)


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
    hint: str = "It needs a network once. After that it works with --offline."


@dataclass(frozen=True)
class Container:
    """The image that runs a package, where there is docker or podman.

    Attributes:
        image: Its name and tag; empty where it isn't known which one can.
        folder: Where the package lies in it: ``/models/net``.
        gpus: Whether it is given the machine's GPUs.
        beside: Folders that lie beside the package there, too.
    """

    image: str
    folder: str
    gpus: bool = False
    beside: Sequence[Path] = ()


@dataclass(frozen=True)
class ServedBy:
    """How a package runs in an image, for deployments.

    Attributes:
        base: The image that it is built on, with its tag.
        command: The program and its arguments, listening on every address.
        ports: Numbers by name, ``http`` first.
        ready: The path on ``http`` that answers 200 once the model is loaded and warm.
        live: The path that answers 200 while the server runs.
        metrics: The port and path of Prometheus's metrics; empty without.
        python: Whether the image has an interpreter, ``python``, and pip.
        requirements: What pip installs: files of the package, or requirements with their versions.
        system: Debian packages that are installed.
        user: The number of the user that runs it; never 0.
        signal: What ends it after the requests that it has begun.
        variables: Environment variables.
        model: What of the package is the model, by path in it: a layer of its own.
        instances: Processes that hold the model.
        gpu: Whether it needs a GPU.
        version: The model's.
        runtime: The runtime that a cluster has for it and that takes the package from a storage
            URI, what it calls the format, and the protocol's version; empty where none does.
        notes: What to know besides.
    """

    base: str
    command: Sequence[str]
    ports: Mapping[str, int]
    ready: str
    live: str
    metrics: tuple[str, str] | tuple[()] = ()
    python: bool = True
    requirements: Sequence[str] = ()
    system: Sequence[str] = ()
    user: int = 1000
    signal: str = "SIGTERM"
    variables: Mapping[str, str] = field(default_factory=dict)
    model: Sequence[str] = ()
    instances: int = 1
    gpu: bool = False
    version: int = 1
    runtime: tuple[str, str, str] | tuple[()] = ()
    notes: Sequence[str] = ()


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
        headers: Of each request, besides what the protocol has.
    """

    protocol: str
    port: str
    model: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Packaged:
    """A server's folder as written.

    Attributes:
        server: The server's name.
        path: The model's folder.
        details: What the report should say of it: max batch, version, instances, warm-ups.
        decisions: What was chosen and why, a line each.
        later: What scripts in it do when they are run.
        assets: The folders that what goes with the model (a tokenizer) is put into; empty for
            ``path``.
    """

    server: str
    path: Path
    details: dict[str, Any] = field(default_factory=dict)
    decisions: list[str] = field(default_factory=list)
    later: Later = field(default_factory=Later)
    assets: Sequence[Path] = ()
