"""Writes around an artifact what every package has."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from converter.check.shipping import Shipped
from converter.ir.model import Model, TensorSpec
from converter.options.request import Request
from converter.preparation.declared import tops_of
from converter.protocols.emitter import Artifact
from emitters.packaging.facts import Device, Wire
from emitters.packaging.photos import preparation_of
from emitters.packaging.readme import Readme, curl, write_readme
from emitters.packaging.samples import Form, write_samples
from emitters.packaging.script.stored import FACTS
from emitters.packaging.selftest import NAME, selftest
from emitters.packaging.texts import texts_of

UNCHECKED = "the check was left out (--no-check)"


@dataclass(frozen=True)
class Package:
    """A package whose artifact and configuration lie in their folder already.

    Attributes:
        name: The model's, as it is asked for.
        server: What runs it: a server, or a device's runtime.
        title: What it is, for the README: ``A package for MLServer``.
        target, precision: The artifact's.
        file: The artifact, by its path in the folder.
        inputs, outputs: As they are served: names, types, shapes, and what is known of them.
        shipped: The samples; None outside of a run, and then nothing is written.
        request: Its ``image_*``.
        runs: How it is run.
        requires: What has to be installed, as pip takes it.
        start: The command that starts its server, run in the folder; ``{host}``, ``{port}``,
            ``{grpc_port}``, ``{metrics_port}`` and ``{python}`` in it are filled in.
        readme: The server's own part; None where it writes a README itself.
        form: Of the files in ``warmup/``.
        wider: See :func:`emitters.packaging.samples.write_samples`.
        labels: The file of class names of each output that has some, where the server has
            written them already; else those that the outputs bring are written.
    """

    name: str
    server: str
    title: str
    target: str
    precision: str
    file: str
    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    shipped: Shipped | None
    request: Request
    runs: Wire | Device
    requires: Sequence[str] = ()
    start: Sequence[str] = ()
    readme: Readme | None = None
    form: Form = "npy"
    wider: Collection[str] = ()
    labels: Mapping[str, str] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def on_device(
        cls,
        runtime: str,
        artifact: Artifact,
        model: Model,
        shipped: Shipped,
        request: Request,
        **more: Any,
    ) -> Package:
        """A package around an artifact that a device's runtime runs.

        Args:
            runtime: What runs it, by name.
            artifact: The artifact; target, precision and file are its.
            model: What it was made of; inputs and outputs are its.
            shipped: The samples that go along.
            request: What was asked for; its name is the package's.
            **more: Other attributes, and those that aren't the model's.
        """
        own: dict[str, Any] = {
            "name": request.name or "model",
            "server": runtime,
            "title": f"A package for {runtime}",
            "target": artifact.target,
            "precision": artifact.precision,
            "file": artifact.path.name,
            "inputs": model.inputs,
            "outputs": model.outputs,
        }
        return cls(**{**own, "shipped": shipped, "request": request, **more})

    def write(self, folder: Path) -> list[str]:
        """Writes it into ``folder``; gives lines on what was decided.

        Raises:
            OSError: The folder can't be written.
        """
        shipped = self.shipped
        if shipped is None:
            return []
        facts = self._facts(folder, shipped)
        text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
        (folder / FACTS).write_text(text, encoding="utf-8")
        script = selftest(self.runs.part, listed=bool(shipped.lists))
        (folder / NAME).write_text(script, encoding="utf-8")
        clients: list[tuple[str, str]] = []
        texts: dict[str, Any] = {}
        if isinstance(self.runs, Wire):
            from emitters.packaging.clients import write_clients  # of servers' packages alone

            one = len(self.inputs) == 1 and shipped.of_images
            photo = preparation_of(self.inputs[0], self.request) if one else None
            texts = texts_of(self.inputs, shipped.texts)
            clients = write_clients(folder, facts, self.runs, photo, texts)
        if self.readme is not None:
            write_readme(folder, facts, self.readme, self._told(facts, clients, texts))
        return [_count(shipped), *shipped.notes]

    def _facts(self, folder: Path, shipped: Shipped) -> dict[str, Any]:
        """What ``modelyard.json`` says."""
        samples = write_samples(
            folder, shipped.items, self.inputs, form=self.form, wider=self.wider
        )
        known = {spec.name: spec for spec in shipped.outputs}
        wire = asdict(self.runs) if isinstance(self.runs, Wire) else None
        own = self.runs.facts if isinstance(self.runs, Device) else {}
        tops = [
            {"of": of, "best": best, "index": index}
            for of, (best, index) in tops_of(shipped.declared).items()
        ]
        return {
            "format": 1,
            "tool": f"modelyard {version('modelyard')}",
            "model": self.name,
            "server": self.server,
            "target": self.target,
            "precision": self.precision,
            "artifact": self.file,
            "requires": list(self.requires),
            "start": list(self.start),
            "wire": wire,
            **own,
            **self.more,
            "inputs": [self._tensor(spec) for spec in self.inputs],
            "outputs": [
                {**self._tensor(spec), **_compared(spec, known.get(spec.name))}
                for spec in self.outputs
            ],
            "labels": self._labels(folder),
            "gates": shipped.gates,
            "lists": [{"outputs": list(i.outputs), "axis": i.axis} for i in shipped.lists],
            **({"tops": tops} if tops else {}),
            "reference": shipped.reference,
            "uncompared": self._uncompared(shipped),
            "origin": shipped.origin,
            "random": shipped.random,
            "samples": samples,
        }

    def _tensor(self, spec: TensorSpec) -> dict[str, Any]:
        shape = [*(spec.shape or ()), *([1] if spec.name in self.wider else [])]
        return {"name": spec.name, "dtype": spec.dtype, "shape": shape}

    def _uncompared(self, shipped: Shipped) -> str:
        if not shipped.reference:
            return UNCHECKED
        return (
            ""
            if shipped.items
            else ("no sample is in the package: each one misses a limit by itself")
        )

    def _labels(self, folder: Path) -> dict[str, str]:
        """The file of class names by output."""
        if self.labels is not None:
            return dict(self.labels)
        found = {spec.name: spec.labels for spec in self.outputs if spec.labels}
        files: dict[tuple[str, ...], str] = {}
        for names in found.values():
            files.setdefault(names, f"labels-{len(files) + 1}.txt" if files else "labels.txt")
        for names, file in files.items():
            lines = "".join(" ".join(name.split()) + "\n" for name in names)
            (folder / file).write_text(lines, encoding="utf-8")
        return {name: files[labels] for name, labels in found.items()}

    def _told(
        self,
        facts: Mapping[str, Any],
        clients: Sequence[tuple[str, str]],
        texts: Mapping[str, Any],
    ) -> dict[str, Any]:
        """What the README's template has besides."""
        asks, starts = [], bool(self.start)
        tested = "It runs the artifact itself, and needs nothing else of this folder."
        if isinstance(self.runs, Wire):
            first = facts["samples"][0] if facts["samples"] else None
            asks = [f"curl --fail {self.runs.url}{self.runs.ready}"]
            asks += [curl(self.runs, facts["inputs"], first)]
            asks += ["pip install requests"]
            asks += [f"python {name}" + ' "A TEXT"' * bool(texts) for name, _ in clients]
            tested = "It asks the server above; `--url URL` asks another."
            if starts:
                tested = "It starts the server for itself; `--url URL` asks one that runs."
        return {
            "title": self.title,
            "texts": texts,
            "clients": clients,
            "asks": [line for line in asks if line],
            "test": f"python {NAME}",
            "tested": tested,
        }


def _compared(spec: TensorSpec, known: TensorSpec | None) -> dict[str, Any]:
    """How an output is compared: see :class:`emitters.packaging.script.gates.Output`."""
    scale = stored = largest = None
    if known is not None and known.scale is not None and not known.is_float:
        scale = [known.scale, known.zero_point or 0]
    elif spec.scale is not None and not spec.is_float:
        stored = [spec.scale, spec.zero_point or 0]
    if known is not None and known.value_range is not None and known.is_float:
        largest = max(map(abs, known.value_range))
    found = {"largest": largest, "scale": scale, "stored": stored}
    floats = spec.activation and spec.is_float
    return {**found, "activation": spec.activation} if floats else found


def _count(shipped: Shipped) -> str:
    items, of = len(shipped.items), shipped.of
    against = f"against {shipped.reference}" if shipped.reference else f"without: {UNCHECKED}"
    return f"{NAME}: {items} of {of} sample{'s' * (of != 1)} along, {against}"
