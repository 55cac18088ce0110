"""Packages for KServe's Python model server: ``model.py``, a program of its own.

An InferenceService runs it as a custom predictor, in a container with the folder and its
``requirements.txt``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from converter.protocols.server import MODELS, Command, Endpoint, Launch, ServedBy
from converter.serving.asking import answers
from emitters.packaging import Readme, Wire
from emitters.serving.kserve import SPECS
from emitters.serving.python.served import Served
from emitters.serving.python.server import PythonServer
from emitters.serving.python.tuning import BATCH, DELAY, THREADS

SCALE = """`--workers N` starts N processes for HTTP, each with the model, and batches; one more
answers gRPC. In a cluster, replicas are the InferenceService's: `minReplicas`, `maxReplicas`."""

LOAD = """The server loads the model when it starts. Clients can't load or unload it. With
`--repository_api`, as in KServe by itself, any client can do so over HTTP and gRPC."""

FILES = (
    ("model.py", "the model server's program"),
    ("inference.py", "the model behind it: checks, batches, answers"),
    ("batcher.py", "joins requests to batches"),
    ("model.json", "the model's inputs, outputs and limits"),
)


class KServeServer(PythonServer, spec=SPECS["kserve"]):
    """KServe 0.21."""

    name, title = "kserve", "KServe"
    requires = ("kserve==0.21.0",)
    core = ("inference.py", "batcher.py")
    templates: ClassVar[Mapping[str, str]] = {"model.py": "model.py.j2"}
    tuned = (BATCH, DELAY, THREADS)
    unseen = f"its own TLS, a pod in Kubernetes, `--workers` above 1, {PythonServer.unseen}"

    def values(self, served: Served) -> dict[str, Any]:
        return {"name": served.name, "prepared": served.declared is not None}

    def wire(self, served: Served) -> Wire:
        path = f"/v2/models/{served.name}"
        url, grpc = "http://127.0.0.1:8080", "127.0.0.1:8081"
        return Wire("v2", url, f"{path}/infer", f"{path}/ready", grpc=grpc)

    def asked_at(self, served: Served) -> str:
        return f"/v2/models/{served.name}/ask"

    def start(self, served: Served) -> tuple[str, ...]:
        ports = ("--http_port", "{port}", "--grpc_port", "{grpc_port}")
        workers = ("--workers", str(served.request.instances))
        return ("{python}", "model.py", "--host", "{host}", *ports, *workers)

    def readme(self, served: Served) -> Readme:
        workers = f" --workers {served.request.instances}" * (served.request.instances > 1)
        line = f"python model.py --host 127.0.0.1{workers}"
        secure = f"{line} --ssl_certfile CERT --ssl_keyfile KEY"
        return Readme(
            start=f"```\n{line}\n```\nWithout `--host` it listens on every address, as in a pod.",
            load=LOAD,
            scale=SCALE,
            tls=f"Only HTTP has TLS; gRPC has none:\n```\n{secure}\n```",
            files=FILES,
        )

    def deployed(self, folder: Path, root: str = MODELS) -> ServedBy | None:
        """With the paths of its own for what lives, and for metrics."""
        made = super().deployed(folder, root)
        return replace(made, live="/v2/health/live", metrics=("http", "/metrics")) if made else None

    def command(self, launch: Launch) -> Command:
        facts = self.told(launch.folder)
        line = [str(launch.python), str(launch.folder / "model.py"), "--host", launch.host]
        line += ["--http_port", str(launch.ports["http"]), "--grpc_port", str(launch.ports["grpc"])]
        return Command([*line, "--workers", str(facts["instances"])])

    def ready(self, launch: Launch) -> bool:
        name = self.told(launch.folder)["name"]
        return answers(f"http://{launch.address('http')}/v2/models/{name}/ready")

    def endpoints(self, folder: Path) -> list[Endpoint]:
        name = self.told(folder)["name"]
        return [Endpoint("grpc", "grpc", name), Endpoint("v2", "http", name)]
