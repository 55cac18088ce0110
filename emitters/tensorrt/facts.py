"""The record beside an engine: what it was built from and how, and what it computes in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import ModelError
from converter.files.digest import file_digest
from emitters.tensorrt.plan_header import read_header

if TYPE_CHECKING:
    from emitters.tensorrt.build import BuildReport

PLAN, GRAPH, LOG, FACTS = "model.plan", "model.onnx", "build.log", "engine.json"
"""The engine; the typed graph that it was built from; the builder's log; what is known of both."""


def record(
    folder: Path, graph: Mapping[str, str], details: Mapping[str, Any], report: BuildReport
) -> None:
    """Writes ``engine.json``: the artifact's details, its layers, and its graph's digests.

    Args:
        folder: Where it goes.
        graph: The sha256 of the graph's files, by name.
        details: The artifact's.
        report: What the build said.
    """
    facts = {
        **details,
        "graph_sha256": dict(graph),
        "inputs": report.inputs,
        "outputs": report.outputs,
        "layers": report.layers,
        "engine_layers": report.engine,
    }
    (folder / FACTS).write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")


def require_unchanged(plan: Path) -> dict[str, Any]:
    """The record of an engine, if engine and graph are still those that it is of.

    Raises:
        ModelError: One of the files was changed, is missing or damaged.
    """
    file = plan.with_name(FACTS)
    try:
        known: dict[str, Any] = json.loads(file.read_text())
        wanted = {plan.name: known["sha256"][PLAN], **known["graph_sha256"]}
        changed = [
            name
            for name, sha256 in wanted.items()
            if not (there := plan.with_name(name)).is_file() or file_digest(there) != sha256
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{file.name} is damaged: {error}", code="model-damaged", hint="Build it again."
        ) from error
    if changed:
        raise ModelError(
            f"{', '.join(changed)} was changed since the engine was built",
            code="source-changed",
            hint="Build it again.",
        )
    return known


def told(plan: Path) -> dict[str, Any]:
    """What an engine is, for ``modelyard inspect``; the record is believed where it is its own.

    Raises:
        ModelError: The engine is damaged.
    """
    header = read_header(plan)
    facts: dict[str, Any] = {
        "engine": f"{header.target} {header.version}",
        "bytes": plan.stat().st_size,
    }
    if header.compute_capabilities:
        facts["built for"] = f"compute capability {', '.join(header.compute_capabilities)}"
    if not plan.with_name(FACTS).is_file():
        return facts
    known = require_unchanged(plan)
    for name in ("inputs", "outputs"):
        facts[name] = [
            f"{item['name']}: {item['type']}{item['shape']}" for item in known.get(name, ())
        ]
    options = [f"{name} {value}" for name, value in known.get("options", {}).items()]
    hidden = ("profiles ", "compute_capabilities ")
    facts["options"] = [text for text in options if not text.startswith(hidden)]
    facts["known"] = list(known.get("decisions", ()))
    return {name: value for name, value in facts.items() if value not in ([], "")}
