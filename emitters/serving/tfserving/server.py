"""Packages for TensorFlow Serving: ``models.config`` and ``1/saved_model.pb``.

As its documentation's "Configuring", "Batching" and "SavedModel warmup" have them. The server
itself has not run here: it is no package of Python's.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import UsageError
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.server import MODELS, ServedBy
from emitters.packaging import Readme, Wire
from emitters.serving.files import facts_of, link_or_copy, model_files
from emitters.serving.python.served import Served
from emitters.serving.tfserving import SPECS, client
from emitters.serving.tfserving.warmup import FILE, TYPES, prediction_log, records
from emitters.serving.versioned import VersionedServer

CONFIG, BATCHING = "models.config", "batching.config"
IMAGE = "tensorflow/serving:2.19.0"
LABEL = "stable"
DEFAULT = "serving_default"

_NOT_RUN = "TensorFlow Serving was not run: its configuration and warm-up were read back"

_INSTALL = """A container, `tensorflow/serving`, or its Debian package `tensorflow-model-server`.
For `client_grpc.py`: `pip install tensorflow-serving-api`."""

_START = """In this folder:
```
docker run --rm -p 127.0.0.1:8501:8501 -p 127.0.0.1:8500:8500 -v "$PWD":/models/{name}:ro \\
    tensorflow/serving --model_config_file=/models/{name}/{config} \\
    --allow_version_labels_for_unavailable_models=true{more}
```
Modelyard has not run this server. `python selftest.py` compares its answers with the source
model's."""

_LOAD = f"""The server serves a folder `2/` as soon as `{CONFIG}` names it. Requests to the label
`{{label}}` go to `/v1/models/{{name}}/labels/{{label}}:predict`. With
`--model_config_file_poll_wait_seconds=60`, the server reads that file again every minute."""

_SCALE = f"""`num_batch_threads` in `{BATCHING}` sets how many batches run at once. Without
batching, requests run side by side. Put a load balancer in front of several replicas."""

_TLS = (
    """gRPC has TLS with `--ssl_config_file`. HTTP has none: put a proxy with TLS in front of it."""
)


class TensorFlowServing(VersionedServer, spec=SPECS["tfserving"]):
    """TensorFlow Serving."""

    name, title = "tfserving", "TensorFlow Serving"
    batches = labels = True

    def check(self, model: Model, request: Request) -> None:
        """And types that its requests have no number of, and signatures that clients don't ask.

        Raises:
            UsageError, UnsupportedError: As of :class:`VersionedServer`.
        """
        super().check(model, request)
        odd = sorted({spec.dtype for spec in model.inputs} - TYPES.keys())
        if odd:
            raise UsageError(
                f"tfserving has no requests with {', '.join(odd)}", code="server-cannot-serve"
            )
        if (signature := _signature(model)) != DEFAULT:
            raise UsageError(
                f"the clients of tfserving's packages use {DEFAULT}, but this model's "
                f"signature is {signature}",
                code="server-cannot-serve",
                hint=f"Export it as {DEFAULT}, or use --serve triton.",
            )

    def file(self, served: Served) -> str:
        return "saved_model.pb"

    def write(self, served: Served, path: Path, model: Model) -> None:
        version = path / str(served.request.version)
        shutil.copytree(
            served.artifact.path,
            version,
            copy_function=lambda source, target: link_or_copy(Path(source), Path(target)),
            dirs_exist_ok=True,
        )
        texts = {CONFIG: config_of(served), client.NAME: client.snippet(served, _signature(model))}
        if served.batched:
            texts[BATCHING] = batching_of(served)
        for name, text in texts.items():
            (path / name).write_text(text, encoding="utf-8")
        if messages := _messages(served, _signature(model)):
            extra = version / "assets.extra"
            extra.mkdir(exist_ok=True)
            (extra / FILE).unlink(missing_ok=True)  # the source's own may be linked
            (extra / FILE).write_bytes(records(messages))

    def wire(self, served: Served) -> Wire:
        path, url = f"/v1/models/{served.name}", "http://127.0.0.1:8501"
        return Wire("json", url, f"{path}:predict", path, "inputs", "outputs")

    def decided(self, served: Served) -> list[str]:
        return [*served.decisions, _NOT_RUN]

    def readme(self, served: Served, model: Model) -> Readme:
        folder = f"/models/{served.name}"
        more = ""
        if served.batched:
            more += " \\\n    --enable_batching=true --batching_parameters_file="
            more += f"{folder}/{BATCHING}"
        if (tags := _tags(model)) != ["serve"]:
            more += f" \\\n    --saved_model_tags={','.join(tags)}"
        files = [(CONFIG, "the server's models"), (client.NAME, "a client by gRPC stubs")]
        files += [(BATCHING, "how requests are joined")] if served.batched else []
        return Readme(
            install=_INSTALL,
            start=_START.format(name=served.name, config=CONFIG, more=more),
            load=_LOAD.format(name=served.name, label=_label(served)),
            scale=_SCALE,
            tls=_TLS,
            files=[*files, (f"{served.request.version}/", "the SavedModel")],
        )

    def more(self, served: Served, model: Model) -> dict[str, Any]:
        """The tags of what it loads, which its line says."""
        return {"tags": _tags(model)}

    def deployed(self, folder: Path, root: str = MODELS) -> ServedBy:
        """As its documentation has it; its image has no Python."""
        facts, place = facts_of(folder), f"{root}/{folder.name}"
        line = ["tensorflow_model_server", "--port=8500", "--rest_api_port=8501"]
        line += [f"--model_config_file={place}/{CONFIG}"]
        line += ["--allow_version_labels_for_unavailable_models=true"]
        if (folder / BATCHING).is_file():
            line += ["--enable_batching=true", f"--batching_parameters_file={place}/{BATCHING}"]
        if facts["tags"] != ["serve"]:
            line.append(f"--saved_model_tags={','.join(facts['tags'])}")
        ready = facts["wire"]["ready"]
        return ServedBy(
            base=IMAGE,
            command=line,
            ports={"http": 8501, "grpc": 8500},
            ready=ready,
            live=ready,
            python=False,
            model=model_files(folder, facts),
            runtime=("kserve-tensorflow-serving", "tensorflow", "v1"),
        )

    def details(self, served: Served) -> dict[str, Any]:
        found = super().details(served)
        joins = served.max_batch > 1 and served.request.dynamic_batching
        return {**found, "max_batch": served.max_batch, "dynamic_batching": joins}


def config_of(served: Served) -> str:
    """``models.config``: a ModelServerConfig as protobuf's text."""
    name, version = _quoted(served.name), served.request.version
    return f"""model_config_list {{
  config {{
    name: {name}
    base_path: {_quoted(f"/models/{served.name}")}
    model_platform: "tensorflow"
    model_version_policy {{ specific {{ versions: {version} }} }}
    version_labels {{ key: {_quoted(_label(served))} value: {version} }}
  }}
}}
"""


def _label(served: Served) -> str:
    return served.request.version_label or LABEL


def batching_of(served: Served) -> str:
    """``batching.config``: BatchingParameters as protobuf's text."""
    asked = served.request
    return f"""max_batch_size {{ value: {served.max_batch} }}
batch_timeout_micros {{ value: {asked.queue_delay} }}
num_batch_threads {{ value: {asked.instances} }}
max_enqueued_batches {{ value: 100 }}
"""


def _quoted(text: str) -> str:
    return json.dumps(text)


def _messages(served: Served, signature: str) -> list[bytes]:
    """Of the first samples, by themselves and as the largest batch where requests are joined."""
    items = served.shipped.items[: served.request.warmup] if served.shipped else []
    types = {spec.name: spec.dtype for spec in served.inputs}
    sizes = (1, served.max_batch) if served.batched else (1,)
    return [
        prediction_log(
            served.name,
            signature,
            {
                name: (types[name], np.concatenate([array] * size) if size > 1 else array)
                for name, array in item.feeds.items()
            },
        )
        for item in items
        for size in sizes
    ]


def _signature(model: Model) -> str:
    return str(model.source.get("signature") or DEFAULT)


def _tags(model: Model) -> list[str]:
    """A SavedModel source's own; those that TensorFlow gives what is written here, of any other."""
    tags: list[str] = model.source.get("file", {}).get("tags", ["serve"])
    return tags
