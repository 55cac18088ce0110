"""What the Python servers have in common: a folder with the artifact, one handler core, and the few
lines that hand it the server's requests."""

from __future__ import annotations

import inspect
import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from converter.errors import UsageError, from_os_error
from converter.ir.model import Model
from converter.options.request import Request
from converter.preparation.staged.base import FILE as STAGED
from converter.protocols.emitter import Artifact
from converter.protocols.flow import JoinedFlow
from converter.protocols.server import (
    MODELS,
    Environment,
    Evidence,
    Knob,
    Packaged,
    ServedBy,
    Server,
    Turned,
    Value,
)
from converter.samples import Samples
from emitters.packaging import Package, Readme, Wire
from emitters.packaging.flow import FlowPackage
from emitters.packaging.script.stored import FACTS
from emitters.packaging.sending import told_of_files
from emitters.packaging.stages import (
    needs_of_kinds,
    require_declared,
    stages_facts,
    stages_texts,
)
from emitters.serving.files import facts_of, model_files, place_artifact
from emitters.serving.python.joining import FILES as JOINED
from emitters.serving.python.joining import Joined
from emitters.serving.python.served import Served, require_servable, runtime_of
from emitters.serving.python.tuning import THREADS, knobs_of, turned_facts
from emitters.serving.request import ServingRequest, refuse_label, serving
from emitters.templates import render

CORE = Path(__file__).parent

LOCK = "requirements.lock"
"""In a server's folder and its packages: the versions of all that is installed; see ``lock.py``."""

ASKING = "asking.py"

PYTHON_IMAGE = "python:3.11-slim-bookworm"
"""What packages run in: the Python that the locks were made for."""

STAGES = (
    (ASKING, "answers requests with files"),
    ("stages.py", "how they are prepared, and what outputs mean"),
    ("stages.json", "the declaration of both, and limits"),
)
"""What a package holds whose server prepares files."""

JSON_TOO = "Arrays are also accepted there, as JSON with `Content-Type: application/json`."

FILE = "model.json"
"""What the handler core reads."""

BEHIND = """The server has no TLS of its own. Put a proxy with TLS in front of it, or try it with
`modelyard serve . --tls CERT KEY`."""

INSTALL = """In an environment of its own:

```
python -m venv .venv
.venv/bin/pip install -r requirements.txt -c requirements.lock
. .venv/bin/activate
```"""

TARGETS = {".onnx": "onnx", ".tflite": "tflite", ".pt": "torchscript"}
"""By the suffixes of artifacts."""

"""The options of ``emitters/serving/request.py`` that all of them read."""


class PythonServer(Server):
    """One of them; its folder has the templates.

    Attributes:
        title: As its makers call it.
        requires: What pip installs for the server itself, each at the version that tests have seen;
            what comes along has its version in the folder's ``requirements.lock``.
        core: The files of this folder that its packages hold.
        templates: The template of each file that depends on the model.
        seen: What the live test runs it with, for its page.
        unseen: What of it has not been run.
        typed: Whether a file has to come with its content type.
        staged: The files that a package has besides where the server prepares users' files.
        tuned: What :mod:`emitters.serving.python.tuning` may change in ``model.json``.
    """

    title: str
    requires: Sequence[str]
    core: Sequence[str] = ("inference.py",)
    templates: ClassVar[Mapping[str, str]]
    tuned: Sequence[str] = (THREADS,)
    seen = "an ONNX file"
    unseen = "GPUs (`--instance-kind`)"
    typed = False
    staged: Sequence[tuple[str, str]] = STAGES

    def check(self, model: Model, request: Request) -> None:
        """Refuses what can be known before anything is converted.

        Raises:
            UsageError: A serving option is wrong in itself, or contradicts another.
            UnsupportedError: Inputs or outputs of types that it can't take; all of them.
        """
        require_servable(model, serving(request), self.name)
        refuse_label(serving(request), self.name)

    def package(
        self,
        artifact: Artifact,
        model: Model,
        samples: Samples,
        request: Request,
        folder: Path,
        evidence: Evidence | None = None,
    ) -> Packaged:
        """Writes ``<folder>/<name>/``: what depends on the arguments alone, to the byte.

        Raises:
            UsageError: A serving option doesn't fit the model, or the folder is in the way.
            ModelError: The runtime refuses the artifact.
            MachineError: The disk is full.
        """
        asked = self._asked(request)
        served = Served.of(artifact, model, samples, asked)
        if evidence is not None:
            served = replace(served, shipped=evidence.shipped, assets=evidence.assets)
        if asked.prepare == "server":
            known = served.shipped.declared if served.shipped else None
            served = replace(served, declared=require_declared(known))
        hint = "Serve one precision at a time, or choose another --name."
        path = _free(folder / served.name, hint)
        with self._writing():
            path.mkdir(parents=True)
            place_artifact(served.artifact, path)
            served.decisions.extend(self._surround(served, path))
            self.write(served, path)
        return Packaged(self.name, path, self.details(served), served.decisions)

    def _asked(self, request: Request) -> ServingRequest:
        """What is asked of this server."""
        asked = serving(request)
        return asked if "max_instances" in self.options else replace(asked, max_instances=None)

    def join(self, folder: Path, flow: JoinedFlow) -> Packaged:
        """Writes ``<folder>/<flow's name>/``, a package of this server whose handler holds the
        models of all parts.

        Raises:
            UsageError: The folder is in the way: a part's package has the flow's name.
            MachineError: The disk is full.
        """
        models, stages = (
            {name: json.loads(self.stored(part.packaged.path, file))
             for name, part in flow.parts.items()}
            for file in (FILE, STAGED)
        )  # fmt: skip
        joined = Joined(flow, models, stages)
        served = Served.joining(joined, self._asked(flow.request))
        path = _free(folder / served.name, "Give the recipe another name: name: NAME.")
        with self._writing():
            path.mkdir(parents=True)
            joined.place(path)
            self._around(served, joined).write(path)
            self.write(served, path)
        return Packaged(self.name, path, self.details(served), served.decisions)

    def _around(self, served: Served, joined: Joined) -> FlowPackage:
        """What a flow's package has besides."""
        wire = replace(self.wire(served), kind="json", path=self.asked_at(served))
        told = told_of_files(joined.declared, f"{wire.url}{wire.path}", typed=self.typed)
        readme = self.readme(served)
        readme = replace(
            readme,
            install=readme.install or INSTALL,
            files=(*readme.files, *(JOINED if self.staged else ())),
            notes=served.decisions,
            ask=told,
        )
        title, needs, start = f"A package for {self.title}", self.needs(served), self.start(served)
        return FlowPackage(joined.flow, self.name, title, wire, needs, start, readme)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise from_os_error(error, f"writing the {self.name} package") from error

    def write(self, served: Served, path: Path) -> None:
        """The server's own files, beside the artifact and what goes along with it."""
        for name, text in self.texts(served, path).items():
            (path / name).write_text(text, encoding="utf-8")

    def texts(self, served: Served, path: Path) -> dict[str, str]:
        """Those that are text: the core, what it reads, and the server's own."""
        values = self.values(served)
        return {
            **{name: (CORE / name).read_text(encoding="utf-8") for name in self.core},
            **self._stages(served),
            FILE: served.facts(_warmup(path, served.request.warmup)),
            **{
                name: render(type(self).__module__.rpartition(".")[0], template, values)
                for name, template in self.templates.items()
            },
            "requirements.txt": "".join(f"{line}\n" for line in self.needs(served)),
            LOCK: self.lock(),
        }

    def _stages(self, served: Served) -> dict[str, str]:
        """What prepares files, where the server does."""
        if served.declared is None:
            return {}
        if served.flow is not None:
            return served.flow.texts(CORE, served.request.warmup)
        asking = (CORE / ASKING).read_text(encoding="utf-8")
        facts = stages_facts(served.declared, served.inputs, served.outputs)
        return {ASKING: asking, **stages_texts(facts)}

    def _surround(self, served: Served, path: Path) -> list[str]:
        """Samples, clients, a self-test and a README; what was decided on them."""
        readme = self.readme(served)
        notes = [*served.decisions, *readme.notes]
        files = (
            ("requirements.txt", "what pip installs"),
            (LOCK, "the versions of these packages, and of all their dependencies"),
            *readme.files,
            *(self.staged if served.declared else ()),
        )
        told = self._told_of_files(served)
        return Package(
            name=served.name,
            server=self.name,
            title=f"A package for {self.title}",
            target=served.artifact.target,
            precision=served.artifact.precision,
            file=self.place(served),
            inputs=served.inputs,
            outputs=served.outputs,
            shipped=served.shipped,
            request=served.request,
            runs=self.wire(served),
            requires=self.needs(served),
            start=self.start(served),
            readme=replace(
                readme, install=readme.install or INSTALL, files=files, notes=notes, ask=told
            ),
        ).write(path)

    def _told_of_files(self, served: Served) -> str:
        """What a README says of how files are sent; nothing where clients prepare them."""
        if served.declared is None:
            return ""
        wire = self.wire(served)
        path = self.asked_at(served)
        text = told_of_files(served.declared, f"{wire.url}{path}", typed=self.typed)
        return f"{text}\n\n{JSON_TOO}" if path == wire.path else text

    def asked_at(self, served: Served) -> str:
        """Where files are sent to, where the server prepares them."""
        return self.wire(served).path

    def needs(self, served: Served) -> tuple[str, ...]:
        """pip's requirements."""
        prepares = needs_of_kinds(served.kinds)
        return tuple(dict.fromkeys((*self.requires, *served.runtimes, *prepares, *served.required)))

    @classmethod
    def home(cls) -> Path:
        """The server's folder."""
        return Path(inspect.getfile(cls)).parent

    def lock(self) -> str:
        """The text of ``requirements.lock``."""
        return (self.home() / LOCK).read_text(encoding="utf-8")

    @property
    def megabytes(self) -> int:
        """What is downloaded, as the lock's first line has it: ``# about 109 MB ...``."""
        return int(self.lock().split(maxsplit=3)[2])

    @abstractmethod
    def values(self, served: Served) -> dict[str, Any]:
        """What the templates are filled with."""

    def place(self, served: Served) -> str:
        """Where the artifact lies in the folder."""
        return served.file

    @abstractmethod
    def wire(self, served: Served) -> Wire:
        """How the package is asked."""

    @abstractmethod
    def start(self, served: Served) -> Sequence[str]:
        """The command that starts it; empty where that can't say the port."""

    @abstractmethod
    def readme(self, served: Served) -> Readme:
        """What the README says of the server."""

    def details(self, served: Served) -> dict[str, Any]:
        """What the report says of the package."""
        asked = served.request
        return {
            "model": served.name,
            "runtime": ", ".join(served.runtimes),
            "max_batch": served.max_batch,
            "dynamic_batching": served.batched,
            "instances": asked.instances,
            "instance_kind": served.device,
            **({"prepare": "server"} if served.declared else {}),
        }

    def deployed(self, folder: Path, root: str = MODELS) -> ServedBy | None:
        """As the package says that it is started, in Python's own image."""
        facts, told = facts_of(folder), self.told(folder)
        known = {
            "python": "python",
            "host": "0.0.0.0",
            **{f"{name}_port": number for name, number in self.ports.items()},
            "port": self.ports["http"],
        }
        ready = facts["wire"]["ready"]
        return ServedBy(
            base=PYTHON_IMAGE,
            command=[part.format(**known) for part in facts["start"]],
            ports={name: self.ports[name] for name in self.ports if "management" not in name},
            ready=ready,
            live=ready,
            requirements=("requirements.txt", LOCK),
            model=model_files(folder, facts),
            instances=int(told.get("instances", 1)),
            gpu=told.get("device") == "gpu",
        )

    # -- started ---------------------------------------------------------------------

    def holds(self, folder: Path) -> bool:
        """Whether the folder is a package of this server's, by the files that it has to have."""
        return all((folder / name).is_file() for name in (*self.core, *self.templates))

    def environment(self, folder: Path) -> Environment:
        """The server and the runtime of the package's model."""
        facts = self.told(folder)
        files = map(Path, facts.get("flow") or [str(facts["file"])])
        runtimes = [runtime_of(TARGETS[file.suffix], str(facts["device"])) for file in files]
        prepares = needs_of_kinds(map(str, facts.get("prepares", ())))
        own = map(str, facts.get("requires", ()))
        needs = dict.fromkeys((*self.requires, *runtimes, *prepares, *own))
        return Environment(self.name, tuple(needs), self.megabytes, constraints=self.lock())

    def told(self, folder: Path) -> dict[str, Any]:
        """What ``model.json`` says.

        Raises:
            UsageError: It can't be read.
        """
        try:
            facts = json.loads(self.stored(folder, FILE))
            return {**facts, "name": str(facts["name"])}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(
                f"{folder.name}/{FILE} was changed since it was written: {error}",
                code="package-incomplete",
            ) from error

    def knobs(self, folder: Path) -> Sequence[Knob]:
        """Those that ``model.json`` has."""
        return knobs_of(self.told(folder), self.tuned)

    def turned(self, folder: Path, values: Mapping[str, Value]) -> Turned:
        """``model.json`` at these values."""
        text, details = turned_facts(self.told(folder), values)
        return Turned({folder / FILE: text}, details)

    def stored(self, folder: Path, name: str) -> str:
        """The text of a file that the handler reads."""
        return (folder / name).read_text(encoding="utf-8")


def _free(path: Path, hint: str) -> Path:
    """A folder that isn't there yet."""
    if path.exists():
        raise UsageError(
            f"{path.name} is in the way: the package folder already holds it",
            code="output-in-the-way",
            hint=hint,
        )
    return path


def _warmup(path: Path, count: int) -> list[dict[str, str]]:
    """The files of the first samples that go along, by input."""
    if not (path / FACTS).is_file():  # outside of a run
        return []
    samples = json.loads((path / FACTS).read_text(encoding="utf-8")).get("samples", ())
    return [
        {name: entry["file"] for name, entry in sample["feeds"].items()}
        for sample in samples[:count]
    ]
