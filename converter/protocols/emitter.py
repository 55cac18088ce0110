"""What writes and runs a target format: one plug-in of the group ``modelyard.emitters``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from converter.errors import Unsupported, UsageError
from converter.files.signatures import Marks
from converter.protocols.spec import TargetSpec, apply

if TYPE_CHECKING:
    from converter.check.shipping import Shipped
    from converter.files.unread_formats import Foreign
    from converter.ir.contents import Contents
    from converter.ir.model import Legalized, Model
    from converter.options.request import Request
    from converter.passes.legalize.chain import LegalizingPass
    from converter.precision.int8.scheme import Scheme
    from converter.runtime.alone import Alone
    from converter.runtime.session import Session
    from converter.samples import Samples


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
    """A target format: all that is known of it stands in a class that extends this, and in its
    ``spec``.

    Attributes:
        name: As ``--to`` has it.
        extra: The install extra of ours that brings what it needs.
        scheme: Its int8; None where it has none.
        precisions: Those that it has, by name.
        lacks: Of others, by name, why it hasn't it and what to do instead.
        texts: Whether its files can give text; without, such outputs are left out where others
            remain.
        resizes: Whether its files take pictures of any size and resize them as Pillow does: Resize
            with antialiasing, of 8-bit pixels.
        half_io: Whether its files can have 16-bit floats as inputs and outputs.
        integer_io: Whether they can have integers with scales in their place.
        lowers: Whether :meth:`emit` lowers every node, and so raises all that :meth:`unsupported`
            would list: it isn't asked first where it would take as long.
        options: The options that mean nothing to most others: fields of
            :class:`converter.options.request.Request`, and headings: all below them.
        packages: Distributions that do its work: ``doctor`` and the manifest list their versions.
        cached: The folders that it has in the cache, and what lies in them has names like.
        gpu: Whether its artifacts run on a GPU: a cluster gives it a machine that has one.
        packs: Whether its artifacts are packages by themselves: devices run them, and no server.
        tells: Whether no parser reads its files: :meth:`tell` says what is in them.
        marks: What those are known by.
        refused: Why they are no sources.
        passes_left_out: Simplifying passes that take away what it keeps, by the option of its own
            that asks for that.
        labels: What the report calls details whose names, as words, aren't spelled right.
    """

    name: str
    extra: str | None = None
    scheme: Scheme | None = None
    precisions: Collection[str]
    lacks: Mapping[str, tuple[str, str]] = MappingProxyType({})
    texts: bool = True
    resizes: bool = False
    half_io: bool = True
    integer_io: bool = False
    lowers: bool = False
    options: Sequence[str] = ()
    packages: Sequence[str] = ()
    cached: Mapping[str, str] = MappingProxyType({})
    tells: bool = False
    gpu: bool = False
    packs: bool = False
    marks: Marks = Marks()
    refused: Sequence[Foreign] = ()
    passes_left_out: Mapping[str, Sequence[str]] = MappingProxyType({})
    labels: Mapping[str, str] = MappingProxyType({})

    def __init_subclass__(cls, spec: TargetSpec | None = None) -> None:
        if spec is not None:
            apply(spec, cls)

    def require_precision(self, precision: str, request: Request) -> None:
        """Raises UsageError where there can't be an artifact of ``precision``."""
        if precision not in self.precisions:
            has = f"it has {', '.join(self.precisions)}", "Ask for one of those."
            why, hint = self.lacks.get(precision, has)
            raise UsageError(
                f"{self.name} has no {precision}: {why}", code="precision-unavailable", hint=hint
            )

    def int8(self, request: Request) -> Scheme | None:
        """Its int8 for a request: :attr:`scheme`, where no option chooses another."""
        return self.scheme

    def decodes(self, request: Request) -> bool:
        """Whether its files are asked to take a picture's file in the place of pixels
        (:data:`converter.preparation.declared.DECODED`)."""
        return False

    def has_grouped_tables(self, request: Request) -> bool:
        """Whether palettized weights may have a table for each group of channels."""
        return True

    @abstractmethod
    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """All that this target can't take of the model.

        Asked twice: of the model as it was read, and of the simplified one.

        Args:
            model: The graph, which isn't changed.
            request: The options, which may rule out operators: ``--opset``, fixed shapes.
            simplified: Whether passes have run. Where false, only what simplifying can't change
                counts.

        Returns:
            One for each operator, shape or dtype that is in the way; empty where the target takes
            all.
        """

    def ready(self) -> None:  # noqa: B027
        """Imports what takes long to import; called beside a framework that reads the model. What
        is wrong then, :meth:`emit` says."""

    def observe(self, samples: Samples, model: Model) -> Any:
        """What :meth:`legalizing` and :meth:`emit` have to know of the samples of ``model``, where
        artifacts depend on how large their free dimensions are."""
        return None

    @abstractmethod
    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Writes the model as a file of the target, or as a folder.

        Args:
            model: The graph in the precision that it is written in, legalized where
                :meth:`legalizing` says so.
            folder: Where the artifact goes; files that it needs lie beside it.
            precision: One of the target's ``precisions``.
            request: The options, of which the target reads its own.
            seen: What :meth:`observe` gave; None where it gave nothing.
        """

    @abstractmethod
    def sniff(self, path: Path) -> bool:
        """Whether a file (or folder) is one that :meth:`open` can run."""

    @abstractmethod
    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The artifact, opened from disk in the target's own runtime.

        Args:
            artifact: What :meth:`emit` wrote, or a file that a user named.
            request: The options: threads, providers, device.
            frugal: Whether a large model takes as little memory as it can; speed doesn't count
                then.

        Raises:
            ModelError: The runtime refuses the file.
            DependencyError: The runtime isn't installed.
        """

    def load(self, artifact: Artifact, request: Request) -> Session:
        """The artifact for whoever uses it: in this process where its runtime can be."""
        return self.open(artifact, request)

    def alone(self, artifact: Artifact, request: Request) -> Alone | str:
        """The artifact in a process that holds its runtime and nothing else, where memory and time
        by operator are measured; or why that can't be."""
        return f"Modelyard can't measure the costs of {self.name} in a process of its own"

    def legalizing(self, model: Model, request: Request, seen: Any = None) -> LegalizingPass | None:
        """What writes the model in operators that this target has, in ONNX, where something does.

        The result is verified like a pass before :meth:`emit`, which takes it
        (:attr:`Model.legalized`).

        Args:
            model: The simplified graph.
            request: The options.
            seen: What :meth:`observe` gave; None where it gave nothing.

        Returns:
            The pass; None where the target takes the model's operators as they are.
        """
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
