"""A flow in Triton: a model that takes users' files and asks the models of its parts.

It stands beside the packages of the parts, which ``--prepare server`` has made: what each of them
prepares and answers, and what it asks, is in its ``stages.json``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from tritonclient.grpc import model_config_pb2 as schema

from converter.errors import UsageError
from converter.preparation.staged.base import FILE
from converter.protocols.flow import JoinedFlow
from converter.protocols.server import Packaged
from emitters.packaging import Wire
from emitters.packaging.flow import FlowPackage
from emitters.packaging.stages import facts_in, flows_text, write_stages
from emitters.serving.files import place_asset
from emitters.serving.triton.config import CONFIG_NAME, version_numbers, write_config
from emitters.serving.triton.front_files import BACKEND, CALLS, CODE, FLOW, SEPARATOR
from emitters.serving.triton.packing import URL
from emitters.serving.triton.request import triton
from emitters.templates import render


def write_flow(folder: Path, flow: JoinedFlow) -> Packaged:
    """Writes ``<folder>/<flow's name>``.

    Args:
        folder: The repository, where the parts' packages lie.
        flow: What joins them.

    Raises:
        UsageError: The folder is in the way, or a part's server doesn't prepare files.
        OSError: It can't be written.
    """
    name, steps = flow.name, flow.steps
    path = folder / name
    if path.exists():
        raise UsageError(
            f"{path.name} is in the way: a part's model has the same name as the flow",
            code="output-in-the-way",
            hint="Give the recipe another name (name: NAME).",
        )
    known = {part: _facts(of.packaged) for part, of in flow.parts.items()}
    version = path / str(triton(flow.request).version)
    version.mkdir(parents=True)
    write_stages(version, known[steps[0]["part"]])
    said = {"steps": list(steps), "parts": known}
    (version / FLOW).write_text(json.dumps(said, ensure_ascii=False) + "\n", encoding="utf-8")
    here = files(__package__)
    own = {CODE: "flow_model.py", "files.py": "front_model.py"}
    for file, ours in own.items():
        (version / file).write_text(here.joinpath(ours).read_text(encoding="utf-8"), "utf-8")
    (version / "flows.py").write_text(flows_text(), "utf-8")
    for part, of in flow.parts.items():
        for asset, source in of.assets.items():
            place_asset(source, version / "parts" / part / asset)
    asked = [facts["model"]["name"] for facts in known.values()]
    values = {"name": name, "steps": steps, "asked": asked, "version": version.name}
    (path / "README.md").write_text(render(str(__package__), "flow.md.j2", values), "utf-8")
    base = f"/v2/models/{name}"
    wire = Wire("v2-binary", URL, f"{base}/infer", f"{base}/ready")
    FlowPackage(flow, "triton", "", wire, (), ()).write(path)
    (path / CONFIG_NAME).write_text(write_config(_config(name, asked)), encoding="utf-8")
    told = f"{name} takes files and asks {', '.join(asked)}: serve the whole folder"
    return Packaged("triton", path, {"model": name, "asks": asked}, [told])


def _facts(packaged: Packaged) -> dict[str, Any]:
    """What a part's ``stages.json`` says."""
    number = version_numbers(packaged.path)[-1]
    file = packaged.path / str(number) / FILE
    if not file.is_file():
        raise UsageError(
            f"{packaged.path.name} only takes tensors: give --prepare server",
            code="server-cannot-serve",
        )
    return facts_in(file.parent)


def _config(name: str, asked: Sequence[str]) -> Any:
    config = schema.ModelConfig(name=name, backend=BACKEND)
    for entry, port in ((config.input.add(), "file"), (config.output.add(), "answer")):
        entry.name, entry.data_type = port, schema.DataType.TYPE_STRING
        entry.dims.append(1)
    config.version_policy.latest.num_versions = 1
    config.instance_group.add(count=1, kind=schema.ModelInstanceGroup.Kind.KIND_CPU)
    config.parameters[CALLS].string_value = SEPARATOR.join(asked)
    return config
