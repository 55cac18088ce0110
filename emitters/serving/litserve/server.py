"""Packages for LitServe: ``server.py``, a program of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from converter.protocols.server import MODELS, Command, Endpoint, Launch, ServedBy
from converter.serving.asking import answers
from emitters.packaging import Readme, Wire
from emitters.serving.litserve import SPECS
from emitters.serving.python.served import Served
from emitters.serving.python.server import BEHIND, PythonServer
from emitters.serving.python.tuning import ALL

FILES = (
    ("server.py", "the server"),
    ("inference.py", "the model behind it: checks, batches, answers"),
    ("model.json", "the model's inputs, outputs and limits"),
)


class LitServer(PythonServer, spec=SPECS["litserve"]):
    """LitServe 0.2."""

    name, title = "litserve", "LitServe"
    requires = ("litserve==0.2.19",)
    templates: ClassVar[Mapping[str, str]] = {"server.py": "server.py.j2"}
    seen = "a TFLite file"
    tuned = ALL
    unseen = f"`instances` above 1, {PythonServer.unseen}"

    def values(self, served: Served) -> dict[str, Any]:
        return {
            "name": served.name,
            "prepared": served.declared is not None,
            "batched": served.batched,
            "accelerator": {"gpu": "cuda"}.get(served.device, served.device),
            "timeout": served.request.request_timeout,
        }

    def wire(self, served: Served) -> Wire:
        return Wire("json", "http://127.0.0.1:8000", "/predict", "/health")

    def start(self, served: Served) -> tuple[str, ...]:
        return ("{python}", "server.py", "--host", "{host}", "--port", "{port}")

    def readme(self, served: Served) -> Readme:
        return Readme(
            start="```\npython server.py --host 127.0.0.1 --port 8000\n```",
            scale="`instances` in `model.json`: processes, each with the model.",
            tls=BEHIND,
            files=FILES,
        )

    def deployed(self, folder: Path, root: str = MODELS) -> ServedBy | None:
        """It ends by an interrupt; asked to terminate, its workers stay."""
        made = super().deployed(folder, root)
        return replace(made, signal="SIGINT") if made else None

    def command(self, launch: Launch) -> Command:
        line = [str(launch.python), str(launch.folder / "server.py")]
        line += ["--host", launch.host, "--port", str(launch.ports["http"])]
        return Command(line)

    def ready(self, launch: Launch) -> bool:
        return answers(f"http://{launch.address('http')}/health")

    def files_at(self, folder: Path) -> Endpoint | None:
        """Where arrays go too."""
        plain = {"Content-Type": "application/octet-stream"}
        takes = self.told(folder).get("prepares")
        return Endpoint("files", "http", "/predict", plain) if takes else None

    def endpoints(self, folder: Path) -> list[Endpoint]:
        return [Endpoint("json", "http", "/predict")]
