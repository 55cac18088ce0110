"""The server: a folder with the arrays and a configuration."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from converter.errors import UsageError
from converter.ir.model import Model, spec_dict
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from converter.protocols.server import Evidence, Packaged, Server
from converter.samples import Samples
from modelyard_toy.request import SERVER, ToyServerRequest


class ToyServer(Server):
    """Writes ``NAME/config.json`` and ``NAME/model.npz``."""

    name = "toy-server"
    accepts = ("toy",)
    options = (SERVER, "max_batch")

    def check(self, model: Model, request: Request) -> None:
        asked = request.of(ToyServerRequest)
        if asked.toy_workers < 1:
            raise UsageError(f"--toy-workers {asked.toy_workers}: it has one at least")

    def package(
        self,
        artifact: Artifact,
        model: Model,
        samples: Samples,
        request: Request,
        folder: Path,
        evidence: Evidence | None = None,
    ) -> Packaged:
        asked = request.of(ToyServerRequest)
        path = folder / (request.name or "model")
        path.mkdir(parents=True)
        shutil.copyfile(artifact.path, path / "model.npz")
        config = {
            "workers": asked.toy_workers,
            "max_batch": asked.max_batch or 8,
            "inputs": [spec_dict(spec) for spec in model.inputs],
        }
        (path / "config.json").write_text(json.dumps(config, indent=2))
        return Packaged(self.name, path, {"workers": asked.toy_workers})
