"""Packages for BentoML: two services, of which one takes requests and the other joins them.

As its documentation's "Adaptive batching" has it for requests of several inputs; ``bentofile.yaml``
makes a Bento of the folder (``bentoml build``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import yaml

from converter.protocols.server import MODELS, Command, Endpoint, Launch, ServedBy
from converter.serving.asking import answers
from emitters.packaging import Readme, Wire
from emitters.serving.bentoml import SPECS
from emitters.serving.python.served import Served
from emitters.serving.python.server import PythonServer

FOLDERS = ("examples", "parts", "warmup")
"""What a package may hold for the model."""

LINE = ("bentoml", "serve", "service:Service")

FILES = (
    ("service.py", "the services"),
    ("inference.py", "the model behind them: checks, batches, answers"),
    ("model.json", "the model's inputs, outputs and limits"),
    ("bentofile.yaml", "the list of a Bento's contents"),
)


class BentoServer(PythonServer, spec=SPECS["bentoml"]):
    """BentoML 1.4."""

    name, title = "bentoml", "BentoML"
    requires = ("bentoml==1.4.39",)
    templates: ClassVar[Mapping[str, str]] = {"service.py": "service.py.j2"}
    unseen = f"its own TLS, `bentoml build` and `containerize`, {PythonServer.unseen}"

    def values(self, served: Served) -> dict[str, Any]:
        return {
            "name": served.name,
            "prepared": served.declared is not None,
            "bento": bento_name(served.name),
            "batched": served.batched,
            "max_batch": served.max_batch,
            "instances": served.request.instances,
            "resources": "" if served.device == "cpu" else ', resources={"gpu": 1}',
            "timeout": served.request.request_timeout,
        }

    def wire(self, served: Served) -> Wire:
        return Wire("json", "http://127.0.0.1:3000", "/predict", "/readyz")

    def asked_at(self, served: Served) -> str:
        return "/ask"

    def start(self, served: Served) -> tuple[str, ...]:
        return (*LINE, "--host", "{host}", "--port", "{port}")

    def readme(self, served: Served) -> Readme:
        line = " ".join((*LINE, "--host 127.0.0.1 --port 3000"))
        return Readme(
            start=f"```\n{line}\n```\n`BENTOML_DO_NOT_TRACK=True` keeps it from reporting its use.",
            load="`bentoml build` makes a Bento of this folder, `bentoml containerize` an image.",
            scale="`workers` in `service.py`: processes, each with the model, and batches.",
            tls=f"```\n{line} --ssl-certfile CERT --ssl-keyfile KEY\n```",
            files=FILES,
        )

    def texts(self, served: Served, path: Path) -> dict[str, str]:
        """``bentofile.yaml`` as well."""
        found = super().texts(served, path)
        beside = (file.name for file in path.iterdir() if file.is_file())
        files = sorted({*found, *beside, *served.assets})
        bento = {
            "service": "service:Service",
            "include": [*files, *(f"{name}/" for name in FOLDERS if (path / name).is_dir())],
            "python": {"packages": list(self.needs(served))},
        }
        return {**found, "bentofile.yaml": yaml.safe_dump(bento, sort_keys=False)}

    def holds(self, folder: Path) -> bool:
        return super().holds(folder) and (folder / "bentofile.yaml").is_file()

    def deployed(self, folder: Path, root: str = MODELS) -> ServedBy | None:
        """Its home is in ``/tmp``."""
        made = super().deployed(folder, root)
        own = {"BENTOML_HOME": "/tmp/bentoml", "BENTOML_DO_NOT_TRACK": "True"}
        metrics = ("http", "/metrics")
        return made and replace(made, variables=own, live="/livez", metrics=metrics)

    def command(self, launch: Launch) -> Command:
        """``bentoml serve``, whose own files go into the scratch folder."""
        program = str(launch.environment / "bin" / "bentoml")
        line = [program, "serve", "service:Service", "--working-dir", str(launch.folder)]
        line += ["--host", launch.host, "--port", str(launch.ports["http"])]
        home = {"BENTOML_HOME": str(launch.scratch), "BENTOML_DO_NOT_TRACK": "True"}
        return Command(line, home)

    def ready(self, launch: Launch) -> bool:
        return answers(f"http://{launch.address('http')}/readyz")

    def endpoints(self, folder: Path) -> list[Endpoint]:
        return [Endpoint("json", "http", "/predict")]


def bento_name(name: str) -> str:
    """The name as Bentos can have it: lower case."""
    return name.lower()
