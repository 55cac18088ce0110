"""Packages for OpenVINO Model Server: ``config.json`` and ``1/model.xml``.

As its documentation's "Model Server Parameters" and "Model Repository" have them. The server itself
has not run here: it is no package of Python's. Its engine has, which runs the IR in the checks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from converter.ir.model import Model
from converter.protocols.server import MODELS, ServedBy
from emitters.packaging import Readme, Wire
from emitters.serving.files import facts_of, model_files, place_artifact
from emitters.serving.ovms import SPECS
from emitters.serving.python.served import Served
from emitters.serving.versioned import VersionedServer

CONFIG, IMAGE = "config.json", "openvino/model_server:2026.2"

_HINTS = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
"""As the target openvino compiles what it checks: without the first, products are in bfloat16."""

_NOT_RUN = "OpenVINO Model Server was not run; its engine was, on the same files and settings"

_INSTALL = """A container, `openvino/model_server`, or the program `ovms` of its releases."""

_START = """In this folder:
```
docker run --rm -p 127.0.0.1:8000:8000 -p 127.0.0.1:9000:9000 -v "$PWD":/models/{name}:ro \\
    openvino/model_server:latest --config_path /models/{name}/config.json \\
    --rest_port 8000 --port 9000
```
or `ovms --config_path config.json --rest_port 8000 --port 9000`. `base_path` in `config.json`
means this folder, in any place. Modelyard has not run this server. `python selftest.py` compares
its answers with the source model's."""

_LOAD = """The server serves a folder `2/` with other files as soon as it is there, if
`model_version_policy` in `config.json` allows it."""

_SCALE = """`NUM_STREAMS` in `config.json` sets how many runs happen at once. Keep
`INFERENCE_PRECISION_HINT` at `f32`, or CPUs compute in bfloat16. For several models, put the
entries of their `config.json` into one list."""

_TLS = """The server has no TLS: put a proxy with TLS in front of it."""


class OvmsServer(VersionedServer, spec=SPECS["ovms"]):
    """OpenVINO Model Server."""

    name, title = "ovms", "OpenVINO Model Server"

    def file(self, served: Served) -> str:
        return served.file

    def write(self, served: Served, path: Path, model: Model) -> None:
        place_artifact(served.artifact, path / str(served.request.version))
        text = json.dumps(config_of(served), indent=2, ensure_ascii=False) + "\n"
        (path / CONFIG).write_text(text, encoding="utf-8")

    def decided(self, served: Served) -> list[str]:
        return [f"{CONFIG}: INFERENCE_PRECISION_HINT f32, as the check ran it", _NOT_RUN]

    def wire(self, served: Served) -> Wire:
        path, url = f"/v2/models/{served.name}", "http://127.0.0.1:8000"
        return Wire("v2", url, f"{path}/infer", f"{path}/ready", grpc="127.0.0.1:9000")

    def readme(self, served: Served, model: Model) -> Readme:
        files = [(CONFIG, "the server's configuration"), (f"{served.request.version}/", "the IR")]
        start = _START.format(name=served.name)
        return Readme(_INSTALL, start, _LOAD, "", _SCALE, _TLS, files)

    def deployed(self, folder: Path, root: str = MODELS) -> ServedBy:
        """As its documentation has it; its image has no Python."""
        facts, name = facts_of(folder), folder.name
        line = ["/ovms/bin/ovms", "--config_path", f"{root}/{name}/{CONFIG}"]
        line += ["--rest_port", "8000", "--port", "9000", "--metrics_enable"]
        return ServedBy(
            base=IMAGE,
            command=line,
            ports={"http": 8000, "grpc": 9000},
            ready=facts["wire"]["ready"],
            live="/v2/health/live",
            metrics=("http", "/metrics"),
            python=False,
            user=5000,
            model=model_files(folder, facts),
            notes=[f"{IMAGE} is the release of the OpenVINO that the IR is checked with"],
        )


def config_of(served: Served) -> dict[str, Any]:
    """``config.json``: one model, and the version that was written."""
    settings = {**_HINTS, "NUM_STREAMS": str(served.request.instances)}
    model = {
        "name": served.name,
        "base_path": ".",
        "target_device": "CPU",
        "plugin_config": settings,
        "model_version_policy": {"specific": {"versions": [served.request.version]}},
    }
    return {"model_config_list": [{"config": model}]}
