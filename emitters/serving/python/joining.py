"""A flow in the Python servers: one package, whose handler holds the models of all parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from converter.preparation.declared import Declaration
from converter.preparation.staged.base import FILE
from converter.protocols.flow import JoinedFlow
from emitters.packaging.flow import example_files
from emitters.packaging.stages import flows_text, stages_texts
from emitters.serving.files import place_artifact, place_asset

PARTS, FLOW = "parts", "flow.json"

FILES = (
    ("asking.py", "answers requests with files"),
    ("files.py", "reads files, and asks one model"),
    ("flows.py", "how models are joined"),
    ("stages.py", "how files are prepared, and what outputs mean"),
    ("stages.json", "the preparation of the first model's files, and limits"),
)
"""What its package holds besides."""

NOTES = (
    "a request runs by itself: boxes of one file share runs of a model, files of several don't",
    "it only takes files: the packages of the parts take arrays",
)


@dataclass(frozen=True)
class Joined:
    """The models of a flow.

    Attributes:
        flow: The flow.
        models: What ``model.json`` says of each part.
        stages: What ``stages.json`` says of it.
    """

    flow: JoinedFlow
    models: Mapping[str, dict[str, Any]]
    stages: Mapping[str, dict[str, Any]]

    @property
    def first(self) -> str:
        """The part that takes the file."""
        return str(self.flow.steps[0]["part"])

    @property
    def declared(self) -> Declaration:
        """How files become its inputs."""
        known = self.stages[self.first]
        return Declaration(prepare=known["prepare"], answer=known["answer"])

    @property
    def files(self) -> list[str]:
        """Each part's artifact, by its path in the package."""
        return [f"{PARTS}/{name}/{facts['file']}" for name, facts in self.models.items()]

    @property
    def targets(self) -> list[str]:
        """Of the artifacts."""
        return list(dict.fromkeys(part.artifact.target for part in self.flow.parts.values()))

    @property
    def kinds(self) -> list[str]:
        """The kinds of files that parts prepare."""
        said = (item["kind"] for known in self.stages.values() for item in known["prepare"])
        return list(dict.fromkeys(said))

    @property
    def required(self) -> list[str]:
        """What functions of the user's require, in any part."""
        known = (
            Declaration(prepare=s["prepare"], answer=s["answer"]) for s in self.stages.values()
        )
        return list(dict.fromkeys(name for item in known for name in item.requires))

    def place(self, path: Path) -> None:
        """Writes the parts into a package.

        Raises:
            OSError: It can't be written.
        """
        for name, part in self.flow.parts.items():
            folder = path / PARTS / name
            folder.mkdir(parents=True)
            place_artifact(part.artifact, folder)
            for asset, source in part.assets.items():
                place_asset(source, folder / asset)
            facts = {**self.models[name], "warmup": []}  # the flow is warmed up as a whole
            for file, said in (("model.json", facts), (FILE, self.stages[name])):
                text = json.dumps(said, indent=1, ensure_ascii=False) + "\n"
                (folder / file).write_text(text, encoding="utf-8")

    def texts(self, core: Path, warmup: int) -> dict[str, str]:
        """What the package holds beside the server's own.

        Args:
            core: Where the handler's files lie.
            warmup: Files that are asked about before it is ready, at most.
        """
        files = [file for _, file in example_files(self.flow.examples)][:warmup]
        said = {"steps": list(self.flow.steps), "parts": [*self.flow.parts], "warmup": files}
        code = {"asking.py": "flow_asking.py", "files.py": "asking.py"}
        return {
            **{name: (core / file).read_text(encoding="utf-8") for name, file in code.items()},
            **stages_texts(self.stages[self.first]),
            "flows.py": flows_text(),
            FLOW: json.dumps(said, indent=1, ensure_ascii=False) + "\n",
        }
