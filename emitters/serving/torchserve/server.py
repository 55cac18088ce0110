"""Packages for TorchServe: ``config.properties`` and ``model_store/NAME.mar``.

What stands in them is its documentation's "Advanced configuration" and "Model archive".
"""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any, ClassVar

import yaml

from converter.errors import UnsupportedError
from converter.ir.model import Model
from converter.options.request import Request
from converter.preparation.inputs import Sentence
from converter.protocols.server import (
    MODELS,
    Command,
    Endpoint,
    Environment,
    Launch,
    ServedBy,
)
from emitters.packaging import Readme, Wire
from emitters.serving.calling import call_problems
from emitters.serving.python.joining import FLOW, PARTS
from emitters.serving.python.served import Served
from emitters.serving.python.server import FILE, LOCK, PythonServer
from emitters.serving.torchserve import SPECS
from emitters.serving.torchserve.archive import write_archive

HERE = Path(__file__).parent
STORE, CONFIG = "model_store", "config.properties"

LARGEST = 64 << 20
"""Bytes of a request, or an answer, that the server takes: 6 MB unless told."""

LINE = ("torchserve", "--start", "--foreground", "--ncs", "--ts-config")

START = f"""It also needs Java 17 (`apt-get install openjdk-17-jre-headless`).

```
{" ".join(LINE)} {CONFIG}
```
`/ping` says Healthy before workers have loaded the model. `/predictions/NAME/VERSION/ready` is
answered by a worker that has, and `curl http://127.0.0.1:8081/models/NAME` shows all workers."""

TLS = f"""In `{CONFIG}`, `https://` in the addresses, and the files:

```
inference_address=https://127.0.0.1:8443
private_key_file=KEY
certificate_file=CERT
```
Everyone who reaches the management address can load code. Keep the address on this machine, and set
`disable_token_authorization=false`."""

FILES = (
    (CONFIG, "the server's configuration"),
    (f"{STORE}/", "the archive with the model, `handler.py` and `model-config.yaml` (a zip)"),
)


class TorchServer(PythonServer, spec=SPECS["torchserve"]):
    """TorchServe 0.12, which is a Java program that starts Python workers."""

    name, title = "torchserve", "TorchServe"
    requires = ("torchserve==0.12.0", "torch==2.13.0", "pyyaml==6.0.3", "numpy==2.4.6")
    tuned = ()  # it lies in the archive
    templates: ClassVar[Mapping[str, str]] = {CONFIG: "config.properties.j2"}
    typed, staged = True, ()  # those are in the archive
    seen = "an ONNX file (with a TorchScript file: started, and the self-test)"
    unseen = f"its own TLS, more workers by the management address, {PythonServer.unseen}"

    def check(self, model: Model, request: Request) -> None:
        """And what of a TorchScript file no request has."""
        super().check(model, request)
        if "torchscript" in request.to and "onnx" not in request.to:
            problems = list(call_problems(model, self.title))
            if problems:
                raise UnsupportedError("TorchServe can't call this file as it is", problems)

    def values(self, served: Served) -> dict[str, Any]:
        return {"archive": f"{served.name}.mar", "largest": LARGEST}

    def place(self, served: Served) -> str:
        return f"{STORE}/{served.name}.mar"

    def wire(self, served: Served) -> Wire:
        path = f"/predictions/{served.name}"
        ready = f"{path}/{served.request.version}.0/ready"
        return Wire("json", "http://127.0.0.1:8080", path, ready)

    def start(self, served: Served) -> tuple[str, ...]:
        addresses = {"INFERENCE": "port", "METRICS": "metrics_port"}
        own = [f"TS_{name}_ADDRESS=http://{{host}}:{{{port}}}" for name, port in addresses.items()]
        return ("env", *own, "TS_GRPC_INFERENCE_PORT={grpc_port}", *LINE, CONFIG)

    def readme(self, served: Served) -> Readme:
        models = "http://127.0.0.1:8081/models"
        return Readme(
            start=START,
            load=f"```\ncurl -X POST '{models}?url={served.name}.mar&initial_workers=1'\n```",
            unload=f"```\ncurl -X DELETE {models}/{served.name}\n```",
            scale="Workers are processes, each with the model:\n"
            f"```\ncurl -X PUT '{models}/{served.name}?min_worker=2'\n```",
            tls=TLS,
            files=FILES,
        )

    def write(self, served: Served, path: Path) -> None:
        """The archive from a folder of its own, and the server's files beside it."""
        texts = self.texts(served, path)
        outer = ("requirements.txt", LOCK, *self.templates)
        for name in outer:
            (path / name).write_text(texts.pop(name), encoding="utf-8")
        placed = [path / file.name for file in served.artifact.files or [served.artifact.path]]
        warmup = [
            path / file for item in json.loads(texts[FILE])["warmup"] for file in item.values()
        ]
        if served.flow is not None:
            placed = [file for file in (path / PARTS).rglob("*") if file.is_file()]
            warmup = [path / file for file in json.loads(texts[FLOW])["warmup"]]
        files: dict[str, Path | str] = {
            file.relative_to(path).as_posix(): file for file in (*placed, *warmup)
        }
        files["handler.py"] = HERE / ("handler_of_files.py" if served.declared else "handler.py")
        files |= {name: served.assets[name] for name in _needed(served)}
        (path / STORE).mkdir()
        archive = path / STORE / f"{served.name}.mar"
        version = f"{served.request.version}.0"
        write_archive(archive, served.name, version, served.file, {**files, **texts})
        for file in placed:
            file.unlink()
        shutil.rmtree(path / PARTS, ignore_errors=True)  # a flow's, without its files

    def texts(self, served: Served, path: Path) -> dict[str, str]:
        """``model-config.yaml`` as well: the frontend's settings of the model."""
        asked = served.request
        config = {
            "minWorkers": asked.instances,
            "maxWorkers": asked.max_instances or asked.instances,
            "batchSize": served.max_batch if served.batched else 1,
            "maxBatchDelay": -(-asked.queue_delay // 1000) if served.batched else 0,  # ms
            "responseTimeout": asked.request_timeout,
            "deviceType": "gpu" if served.device == "gpu" else "cpu",
        }
        text = yaml.safe_dump(config, sort_keys=False)
        return {**super().texts(served, path), "model-config.yaml": text}

    # -- started ---------------------------------------------------------------------

    def holds(self, folder: Path) -> bool:
        return (folder / CONFIG).is_file() and len([*(folder / STORE).glob("*.mar")]) == 1

    def stored(self, folder: Path, name: str) -> str:
        """Of the archive's."""
        (archive,) = (folder / STORE).glob("*.mar")
        try:
            with zipfile.ZipFile(archive) as parts:
                return parts.read(name).decode()
        except zipfile.BadZipFile as error:
            raise ValueError(f"{archive.name}: {error}") from error

    def environment(self, folder: Path) -> Environment:
        """With Java, which runs the server itself."""
        java = {"java": "apt-get install openjdk-17-jre-headless"}
        return replace(super().environment(folder), programs=java)

    def deployed(self, folder: Path, root: str = MODELS) -> ServedBy | None:
        """With Java; its management stays inside, and what it writes goes into ``/tmp``."""
        made = super().deployed(folder, root)
        own = {"LOG_LOCATION": "/tmp/logs", "METRICS_LOCATION": "/tmp/logs", "TEMP": "/tmp"}
        return made and replace(
            made,
            system=("openjdk-17-jre-headless",),
            variables={**own, "TS_GRPC_INFERENCE_ADDRESS": "0.0.0.0"},
            metrics=("metrics", "/metrics"),
            live="/ping",
            signal="SIGINT",  # as an image's first process it stays where it is asked to terminate
        )

    def command(self, launch: Launch) -> Command:
        """``torchserve`` with the package's configuration on other ports, from the scratch folder:
        it writes its logs, and unpacks archives, where it runs."""
        text = (launch.folder / CONFIG).read_text(encoding="utf-8")
        host = f"[{launch.host}]" if ":" in launch.host else launch.host
        own = {
            "inference_address": f"http://{host}:{launch.ports['http']}",
            "management_address": f"http://{host}:{launch.ports['management']}",
            "metrics_address": f"http://{host}:{launch.ports['metrics']}",
            "grpc_inference_address": launch.host,
            "grpc_inference_port": launch.ports["grpc"],
            "grpc_management_address": launch.host,
            "grpc_management_port": launch.ports["grpc_management"],
            "model_store": launch.folder / STORE,
        }
        for name, value in own.items():
            text = re.sub(rf"^{name}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
        (launch.scratch / CONFIG).write_text(text, encoding="utf-8")
        line = [str(launch.environment / "bin" / "torchserve"), "--start", "--foreground", "--ncs"]
        variables = {
            "LOG_LOCATION": "logs",
            "METRICS_LOCATION": "logs",
            "TEMP": str(launch.scratch),
        }
        return Command([*line, "--ts-config", CONFIG], variables)

    def ready(self, launch: Launch) -> bool:
        """A worker that is: /ping says Healthy while workers die."""
        name = self.told(launch.folder)["name"]
        url = f"http://{launch.address('management')}/models/{name}"
        with suppress(OSError, HTTPException), urllib.request.urlopen(url, timeout=5) as page:
            return b'"READY"' in page.read()
        return False

    def endpoints(self, folder: Path) -> list[Endpoint]:
        return [Endpoint("json", "http", f"/predictions/{self.told(folder)['name']}")]


def _needed(served: Served) -> list[str]:
    """The files that preparing needs: the tokenizer's."""
    prepared = served.declared.prepare if served.declared and served.flow is None else ()
    return [item.file for item in prepared if isinstance(item, Sentence)]
