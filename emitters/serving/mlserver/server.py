"""Packages for MLServer: a custom runtime, asked over the Open Inference Protocol.

Its folder: ``settings.json`` (the server), ``model-settings.json`` (the model), as its
documentation's "Settings" and "Custom inference runtimes" have them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from converter.ir.model import TensorSpec
from converter.protocols.server import (
    MODELS,
    Command,
    Endpoint,
    Launch,
    ServedBy,
    Turned,
    Value,
)
from converter.serving.asking import answers
from emitters.packaging import Readme, Wire
from emitters.serving.mlserver import SPECS
from emitters.serving.python.served import Served, datatype
from emitters.serving.python.server import BEHIND, PythonServer
from emitters.serving.python.tuning import ALL, INSTANCES

START = """```
MLSERVER_HOST=127.0.0.1 mlserver start .
```
Its ports are 8080 (HTTP), 8081 (gRPC) and 8082 (metrics), or what `MLSERVER_HTTP_PORT`,
`MLSERVER_GRPC_PORT` and `MLSERVER_METRICS_PORT` say."""

LOAD = """The server loads the model when it starts. Clients can't load or unload it.

Without the line `model_repository_implementation` in `settings.json`, MLServer lets any client
do so over HTTP and gRPC:
```
curl -X POST http://127.0.0.1:8080/v2/repository/models/{name}/load
curl -X POST http://127.0.0.1:8080/v2/repository/models/{name}/unload
```"""

SETTINGS = "settings.json"

FILES = (
    ("runtime.py", "the runtime that MLServer loads"),
    ("inference.py", "the model behind it: checks, batches, answers"),
    ("batcher.py", "joins requests to batches"),
    ("model.json", "the model's inputs, outputs and limits, for both"),
    ("model-settings.json", "the model's settings"),
    (SETTINGS, "the server's settings"),
)


class MlServer(PythonServer, spec=SPECS["mlserver"]):
    """MLServer 1.7."""

    name, title = "mlserver", "MLServer"
    requires = ("mlserver==1.7.1", "uvloop==0.21.0")  # with 0.22 its workers end at their start
    core = ("inference.py", "batcher.py")
    templates: ClassVar[Mapping[str, str]] = {"runtime.py": "runtime.py.j2"}
    tuned = ALL
    unseen = f"`parallel_workers` above 1, {PythonServer.unseen}"

    def values(self, served: Served) -> dict[str, Any]:
        return {"name": served.name, "prepared": served.declared is not None}

    def wire(self, served: Served) -> Wire:
        path = f"/v2/models/{served.name}"
        url, grpc = "http://127.0.0.1:8080", "127.0.0.1:8081"
        return Wire("v2", url, f"{path}/infer", f"{path}/ready", grpc=grpc)

    def asked_at(self, served: Served) -> str:
        return f"/v2/models/{served.name}/ask"

    def start(self, served: Served) -> tuple[str, ...]:
        ports = {"HTTP": "port", "GRPC": "grpc_port", "METRICS": "metrics_port"}
        own = [f"MLSERVER_{name}_PORT={{{port}}}" for name, port in ports.items()]
        return ("env", "MLSERVER_HOST={host}", *own, "mlserver", "start", ".")

    def readme(self, served: Served) -> Readme:
        return Readme(
            start=START,
            load=LOAD.format(name=served.name),
            scale="`parallel_workers` in `settings.json`: processes, each with the model.",
            tls=BEHIND,
            files=FILES,
        )

    def texts(self, served: Served, path: Path) -> dict[str, str]:
        """Settings as well: addresses and ports stand in none, so that variables can say them."""
        asked = served.request
        model = {
            "name": served.name,
            "implementation": "runtime.Runtime",
            "platform": "modelyard",
            "parameters": {"uri": f"./{served.file}", "version": str(asked.version)},
            "inputs": [_metadata(spec) for spec in served.inputs],
            "outputs": [_metadata(spec) for spec in served.outputs],
        }
        server = {
            "debug": False,
            "parallel_workers": asked.instances,
            "model_repository_implementation": "runtime.Settled",
        }
        return {
            **super().texts(served, path),
            "model-settings.json": _json(model),
            SETTINGS: _json(server),
        }

    def turned(self, folder: Path, values: Mapping[str, Value]) -> Turned:
        """The server's settings as well, which say how many workers there are."""
        made = super().turned(folder, values)
        text = (folder / SETTINGS).read_text(encoding="utf-8")
        settings = _json({**json.loads(text), "parallel_workers": values[INSTANCES]})
        return replace(made, files={**made.files, folder / SETTINGS: settings})

    def holds(self, folder: Path) -> bool:
        return super().holds(folder) and (folder / "model-settings.json").is_file()

    def deployed(self, folder: Path, root: str = MODELS) -> ServedBy | None:
        """What it writes goes into ``/tmp``."""
        made = super().deployed(folder, root)
        own = {"MLSERVER_METRICS_DIR": "/tmp/metrics", "MLSERVER_ENVIRONMENTS_DIR": "/tmp/env"}
        metrics = ("metrics", "/metrics")
        return made and replace(made, variables=own, live="/v2/health/live", metrics=metrics)

    def command(self, launch: Launch) -> Command:
        """``mlserver start``; it takes addresses from variables where its settings have none."""
        ports = {f"MLSERVER_{name.upper()}_PORT": str(port) for name, port in launch.ports.items()}
        variables = {
            "MLSERVER_HOST": launch.host,
            **ports,
            "MLSERVER_METRICS_DIR": str(launch.scratch / "metrics"),
            "MLSERVER_ENVIRONMENTS_DIR": str(launch.scratch / "environments"),
        }
        program = str(launch.environment / "bin" / "mlserver")
        return Command([program, "start", str(launch.folder)], variables)

    def ready(self, launch: Launch) -> bool:
        name = self.told(launch.folder)["name"]
        return answers(f"http://{launch.address('http')}/v2/models/{name}/ready")

    def endpoints(self, folder: Path) -> list[Endpoint]:
        name = self.told(folder)["name"]
        return [Endpoint("grpc", "grpc", name), Endpoint("v2", "http", name)]


def _metadata(spec: TensorSpec) -> dict[str, Any]:
    """An input or output as V2's model metadata has it: -1 is a free dimension."""
    shape = [-1 if isinstance(dim, str) else dim for dim in spec.shape or ()]
    return {"name": spec.name, "datatype": datatype(spec.dtype), "shape": shape}


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"
