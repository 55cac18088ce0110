"""Flow units and graphs as ModelBox reads them: TOML, and graphs in graphviz's language.

The keys are those that its drivers read, and so are the units' ports:
``virtualdriver_inference.cc``, ``virtualdriver_python.cc``, ``graphviz_conf.cc``
and the units of modelbox-ai/modelbox, March 2024.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

APPLICATION = "@APPLICATION_PATH@"
"""What stands for the package's folder, as in ModelBox's own projects: it takes no relative one."""

PORTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "httpserver_sync_receive": ((), ("out_request_info",)),
    "image_decoder": (("in_encoded_image",), ("out_image",)),
    "resize": (("in_image",), ("out_image",)),
    "packed_planar_transpose": (("in_image",), ("out_image",)),
    "mean": (("in_data",), ("out_data",)),
    "normalize": (("in_data",), ("out_data",)),
    "httpserver_sync_reply": (("in_reply_info",), ()),
}
"""Ports of ModelBox's own units that graphs here are made of: inputs, outputs."""


@dataclass(frozen=True)
class Port:
    """An input or output of a unit; ``type`` is empty where any will do."""

    name: str
    type: str = ""


@dataclass(frozen=True)
class Unit:
    """A flow unit of the package's own.

    Attributes:
        name: Of its folder, its file, and in graphs.
        base, config: Tables of its TOML.
        inputs, outputs: Its ports.
    """

    name: str
    base: Mapping[str, Any]
    inputs: Sequence[Port]
    outputs: Sequence[Port]
    config: Mapping[str, Any] = field(default_factory=dict)

    def toml(self) -> str:
        """Its TOML."""
        lines = ["[base]", *_pairs({"name": self.name, **self.base})]
        lines += ["", "[config]", *_pairs(self.config)]
        for side, ports in (("input", self.inputs), ("output", self.outputs)):
            lines += ["", f"[{side}]"]
            for number, port in enumerate(ports, start=1):
                kind = {"type": port.type} if port.type else {}
                lines += [f"[{side}.{side}{number}]", *_pairs({"name": port.name, **kind})]
        return "\n".join(lines) + "\n"


@dataclass
class Graph:
    """Nodes and edges, in order.

    Attributes:
        name: The flow's.
        about: What it does, in a line.
    """

    name: str
    about: str
    nodes: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)

    def node(self, name: str, **attributes: Any) -> None:
        """A node that isn't a unit: ``type`` is ``input`` or ``output``."""
        known = ", ".join(f"{key}={quoted(value)}" for key, value in attributes.items())
        self.nodes.append(f"    {quoted(name)} [{known}]")

    def unit(self, name: str, device: str = "cpu", **settings: Any) -> None:
        """A node that is the unit of that name."""
        self.node(name, type="flowunit", flowunit=name, device=device, deviceid=0, **settings)

    def edge(self, source: Iterable[str], target: Iterable[str]) -> None:
        """From a port to a port: node and port each, or the node alone of inputs and outputs."""
        self.edges.append(f"    {':'.join(map(quoted, source))} -> {':'.join(map(quoted, target))}")

    def chain(self, *units: str) -> None:
        """An edge from each of ModelBox's units to the next."""
        for one, other in pairwise(units):
            self.edge((one, PORTS[one][1][0]), (other, PORTS[other][0][0]))

    def toml(self) -> str:
        """Its TOML."""
        head = f"digraph {quoted(self.name)} {{\n    node [shape=Mrecord]"
        text = "\n".join((head, *self.nodes, "", *self.edges, "}"))
        conf = json.dumps(text, ensure_ascii=False) if "'''" in text else f"'''{text}'''"
        lines = ["[driver]", *_pairs({"dir": [f"{APPLICATION}/flowunit"], "skip-default": False})]
        lines += ["", "[profile]", *_pairs({"profile": False, "trace": False, "dir": ""})]
        lines += ["", "[log]", *_pairs({"level": "INFO"})]
        lines += ["", "[flow]", *_pairs({"name": self.name, "desc": self.about})]
        return "\n".join([*lines, "", "[graph]", 'format = "graphviz"', f"graphconf = {conf}", ""])


def quoted(value: Any) -> str:
    """An identifier of graphviz's, which may hold anything in quotes."""
    text = str(value).replace('"', '\\"')
    return f'"{text}"'


def _pairs(table: Mapping[str, Any]) -> list[str]:
    """Keys and values in TOML, which has JSON's strings, numbers, truth values and lists."""
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items()]
