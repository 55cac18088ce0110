"""Packages for Ray Serve: ``app.py`` and ``serve.yaml``, its configuration file.

The file is a ``ServeDeploySchema`` (``ray/serve/schema.py``).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import yaml

from converter.errors import UsageError
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.server import MODELS, Command, Endpoint, Launch, ServedBy
from converter.serving.asking import answers
from emitters.packaging import Readme, Wire
from emitters.serving.python.served import Served
from emitters.serving.python.server import BEHIND, PythonServer
from emitters.serving.python.tuning import BATCH, DELAY, THREADS
from emitters.serving.rayserve import SPECS
from emitters.serving.rayserve.request import ray

CONFIG = "serve.yaml"

SHORT = 40
"""Characters of a folder in which Ray's sockets have names that the system takes (107); in a longer
one, what Ray writes goes to its own place, /tmp/ray."""

START = """```
serve run serve.yaml
```
It starts a Ray of its own; `RAY_USAGE_STATS_ENABLED=0` leaves its reports to its maker out."""

SCALE = """`num_replicas` in `serve.yaml`, or `autoscaling_config`: `serve deploy serve.yaml` again
takes them up."""

FILES = (
    ("app.py", "the deployment"),
    ("inference.py", "the model behind it: checks, batches, answers"),
    ("model.json", "the model's inputs, outputs and limits"),
    (CONFIG, "addresses, replicas and their resources"),
)


class RayServer(PythonServer, spec=SPECS["rayserve"]):
    """Ray 2.60."""

    name, title = "rayserve", "Ray Serve"
    requires = ("ray[serve]==2.60.0",)
    templates: ClassVar[Mapping[str, str]] = {"app.py": "app.py.j2"}
    tuned = (BATCH, DELAY, THREADS)
    unseen = f"a cluster, autoscaling, {PythonServer.unseen}"

    def check(self, model: Model, request: Request) -> None:
        super().check(model, request)
        asked = ray(request)
        if asked.replica_cpus <= 0 or asked.target_ongoing_requests < 1:
            raise UsageError(
                "--replica-cpus has to be above 0, and --target-ongoing-requests at least 1",
                code="option-value",
            )

    def values(self, served: Served) -> dict[str, Any]:
        return {
            "name": served.name,
            "prepared": served.declared is not None,
            "batched": served.batched,
        }

    def wire(self, served: Served) -> Wire:
        return Wire("json", "http://127.0.0.1:8000", f"/{served.name}", "/-/healthz")

    def start(self, served: Served) -> tuple[str, ...]:
        return ()  # the port stands in serve.yaml alone

    def readme(self, served: Served) -> Readme:
        return Readme(
            start=START,
            load="```\nserve deploy serve.yaml\n```\non a cluster that runs (`ray start --head`).",
            unload="```\nserve shutdown\n```",
            scale=SCALE,
            tls=BEHIND,
            files=FILES,
        )

    def texts(self, served: Served, path: Path) -> dict[str, str]:
        """``serve.yaml`` as well."""
        config = {
            "http_options": {
                "host": "127.0.0.1",
                "port": self.ports["http"],
                "request_timeout_s": served.request.request_timeout,
            },
            "applications": [
                {
                    "name": served.name,
                    "route_prefix": f"/{served.name}",
                    "import_path": "app:app",
                    "deployments": [_deployment(served)],
                }
            ],
        }
        text = yaml.safe_dump(config, sort_keys=False)
        return {**super().texts(served, path), CONFIG: text}

    # -- started ---------------------------------------------------------------------

    def holds(self, folder: Path) -> bool:
        return super().holds(folder) and (folder / CONFIG).is_file()

    def deployed(self, folder: Path, root: str = MODELS) -> ServedBy | None:
        """With an address that others reach, which ``serve run`` takes from its file alone."""
        made = super().deployed(folder, root)
        place = f"/tmp/{CONFIG}"
        script = f"sed 's/host: 127.0.0.1/host: 0.0.0.0/' {CONFIG} > {place}"
        line = ["sh", "-c", f"{script} && exec serve run {place}"]
        own = {"PYTHONPATH": f"{root}/{folder.name}", "RAY_USAGE_STATS_ENABLED": "0"}
        return replace(made, command=line, variables=own) if made else None

    def command(self, launch: Launch) -> Command:
        """``serve run`` on the package's configuration with another address, which starts a Ray of
        its own."""
        config = yaml.safe_load((launch.folder / CONFIG).read_text(encoding="utf-8"))
        config["http_options"] |= {"host": launch.host, "port": launch.ports["http"]}
        (launch.scratch / CONFIG).write_text(yaml.safe_dump(config, sort_keys=False))
        token = launch.scratch / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        own = {
            "PYTHONPATH": str(launch.folder),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",  # whoever else reaches Ray's ports could run code
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",  # 5: too short where cores are busy,
            "RAY_raylet_start_wait_time_s": "120",  # as are 30
        }
        if len(str(launch.scratch)) <= SHORT:
            own["RAY_TMPDIR"] = str(launch.scratch)
        line = [str(launch.environment / "bin" / "serve"), "run", str(launch.scratch / CONFIG)]
        return Command(line, own)

    def ready(self, launch: Launch) -> bool:
        return answers(f"http://{launch.address('http')}/-/healthz")

    def endpoints(self, folder: Path) -> list[Endpoint]:
        return [Endpoint("json", "http", f"/{self.told(folder)['name']}")]


def _deployment(served: Served) -> dict[str, Any]:
    """How many replicas run, and with what."""
    asked = ray(served.request)
    actor = {"num_cpus": asked.replica_cpus, **({"num_gpus": 1} if served.device == "gpu" else {})}
    made = {"name": served.name, "ray_actor_options": actor}
    waiting = {"max_ongoing_requests": 4 * max(served.max_batch, 1)}
    if not asked.max_instances or asked.max_instances == asked.instances:
        return {**made, **waiting, "num_replicas": asked.instances}
    scaling = {
        "min_replicas": asked.instances,
        "max_replicas": asked.max_instances,
        "target_ongoing_requests": asked.target_ongoing_requests,
    }
    return {**made, **waiting, "autoscaling_config": scaling}
