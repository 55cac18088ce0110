"""Stands in for ModelBox, which no package index has: reads a package's graph, and runs it.

TOML by tomllib, graphs by pydot. Its own units do in numpy what ModelBox's documentation of each
says, their ports stand here a second time, and units in Python get the calls that its examples
make. It doesn't show how ModelBox schedules, or what its engines do to a model: ONNX Runtime runs
that here.
"""

import importlib.util
import io
import sys
import tomllib
import types
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pydot
from PIL import Image

Values = dict[str, Any]


class Buffer:
    """What goes along an edge: an array, bytes or a text."""

    def __init__(self, device: Any, value: Any) -> None:
        self.value = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.value, dtype)

    def has_error(self) -> bool:
        return False


class FlowUnit:
    """What units in Python extend."""

    def get_bind_device(self) -> str:
        return "cpu"


class Status:
    """What their methods give."""

    class StatusCode:
        STATUS_SUCCESS = 0


class Lists:
    """A unit's data: lists of buffers by port."""

    def __init__(self, given: Values) -> None:
        self.given = {name: [Buffer(None, value)] for name, value in given.items()}
        self.made: dict[str, list[Buffer]] = defaultdict(list)

    def input(self, port: str) -> list[Buffer]:
        return self.given[port]

    def output(self, port: str) -> Any:
        return types.SimpleNamespace(push_back=self.made[port].append)


def _decode(at: Values, given: Values) -> Values:
    picture = Image.open(io.BytesIO(given["in_encoded_image"])).convert("RGB")
    pixels = np.asarray(picture)
    return {"out_image": pixels[..., ::-1] if at["pix_fmt"] == "bgr" else pixels}


def _resize(at: Values, given: Values) -> Values:
    assert at["interpolation"] in ("inter_nearest", "inter_linear", "inter_cubic")
    size = int(at["image_width"]), int(at["image_height"])
    return {"out_image": np.asarray(Image.fromarray(given["in_image"]).resize(size))}


def _planar(at: Values, given: Values) -> Values:
    assert given["in_image"].dtype == np.uint8
    return {"out_image": given["in_image"].transpose(2, 0, 1)}


def _by_channel(key: str, do: Callable[[Any, Any], Any]) -> Callable[[Values, Values], Values]:
    def run(at: Values, given: Values) -> Values:
        numbers = np.array([float(n) for n in at[key].split(",")], np.float32)
        assert len(numbers) == 3
        return {"out_data": do(given["in_data"].astype(np.float32), numbers[:, None, None])}

    return run


OWN: dict[str, tuple[set[str], set[str], Callable[[Values, Values], Values]]] = {
    "httpserver_sync_receive": (set(), {"out_request_info"}, lambda at, given: given),
    "image_decoder": ({"in_encoded_image"}, {"out_image"}, _decode),
    "resize": ({"in_image"}, {"out_image"}, _resize),
    "packed_planar_transpose": ({"in_image"}, {"out_image"}, _planar),
    "mean": ({"in_data"}, {"out_data"}, _by_channel("mean", np.subtract)),
    "normalize": (
        {"in_data"}, {"out_data"}, _by_channel("standard_deviation_inverse", np.multiply)
    ),
    "httpserver_sync_reply": ({"in_reply_info"}, set(), lambda at, given: given),
}  # fmt: skip


class Graph:
    """A graph's file, whose units have been found and whose edges' ports are the units'.

    Args:
        text: The TOML, with the package's folder in it.
    """

    def __init__(self, text: str) -> None:
        told = tomllib.loads(text)
        assert told["graph"]["format"] == "graphviz"
        (graph,) = pydot.graph_from_dot_data(told["graph"]["graphconf"]) or ()
        self.nodes = {
            _plain(node.get_name()): {k: _plain(v) for k, v in node.get_attributes().items()}
            for node in graph.get_nodes()
            if node.get_name() != "node"
        }
        folders = [Path(folder) for folder in told["driver"]["dir"]]
        files = [file for folder in folders for file in sorted(folder.glob("*/*.toml"))]
        self.units = {}
        for file in files:
            unit = tomllib.loads(file.read_text(encoding="utf-8"))
            assert unit["base"].keys() >= {"name", "device", "version", "description", "type"}
            self.units[unit["base"]["name"]] = {**unit, "folder": file.parent}
        self.edges = [
            (*_ends(edge.get_source()), *_ends(edge.get_destination()))
            for edge in graph.get_edges()
        ]
        for source, port, target, into in self.edges:
            assert port in self.ports(source, 1), (source, port)
            assert into in self.ports(target, 0), (target, into)
        for name in self.nodes:
            into = {edge[3] for edge in self.edges if edge[2] == name}
            assert into == self.ports(name, 0), f"{name} gets {into}"

    def ports(self, name: str, side: int) -> set[str]:
        """A node's inputs (0) or outputs (1)."""
        node = self.nodes[name]
        if node["type"] in ("input", "output"):
            return {""} if (node["type"] == "output") == (side == 0) else set()
        if node["flowunit"] in OWN:
            return OWN[node["flowunit"]][side]
        table = self.units[node["flowunit"]][("input", "output")[side]]
        return {
            table[f"{('input', 'output')[side]}{at}"]["name"] for at in range(1, len(table) + 1)
        }

    def run(self, given: Values) -> Values:
        """What comes out of nodes that nothing leaves, of what goes into those that nothing enters,
        by node."""
        made: dict[tuple[str, str], Any] = {}
        ended: Values = {}
        waiting = dict(self.nodes)
        while waiting:
            name = next(n for n in waiting if all(
                edge[:2] in made for edge in self.edges if edge[2] == n
            ))  # fmt: skip
            node = waiting.pop(name)
            found = {edge[3]: made[edge[:2]] for edge in self.edges if edge[2] == name}
            if node["type"] == "input":
                found = {"": given[name]}
            elif node.get("flowunit") == "httpserver_sync_receive":
                found = {"out_request_info": given[name]}
            elif node["type"] == "flowunit":
                found = self._unit(node, found)
            made |= {(name, port): value for port, value in found.items()}
            if all(edge[0] != name for edge in self.edges):
                (ended[name],) = found.values()
        return ended

    def _unit(self, node: Values, given: Values) -> Values:
        if node["flowunit"] in OWN:
            return OWN[node["flowunit"]][2](node, given)
        unit = self.units[node["flowunit"]]
        base, folder = unit["base"], unit["folder"]
        assert base["device"] == node["device"]
        if base["type"] == "inference":
            session = onnxruntime.InferenceSession(folder / base["entry"])
            names = [item.name for item in session.get_outputs()]
            return dict(zip(names, session.run(names, given), strict=True))
        assert base["type"] == "python"
        file, _, kind = base["entry"].partition("@")
        spec = importlib.util.spec_from_file_location(file, folder / f"{file}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["_flowunit"] = sys.modules[__name__]
        spec.loader.exec_module(module)
        made, lists = getattr(module, kind)(), Lists(given)
        assert made.open(unit.get("config")) == made.process(lists) == 0
        return {port: buffer.value for port, (buffer,) in lists.made.items()}


class Stream:
    """The SDK's stream, of rows in order."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._sent: dict[str, list[Any]] = defaultdict(list)
        self._made: dict[str, list[Any]] = defaultdict(list)

    def send(self, node: str, array: Any) -> None:
        self._sent[node].append(array)

    def close_input(self) -> None:
        for row in zip(*self._sent.values(), strict=True):
            for node, value in self._graph.run(dict(zip(self._sent, row, strict=True))).items():
                self._made[node].append(value)

    def recv(self, node: str) -> Any:
        return self._made[node].pop(0)


class Flow:
    """The SDK's flow."""

    class Format:
        FORMAT_TOML = 1

    def init(self, name: str, text: str, form: int) -> bool:
        self._graph = Graph(text)
        return name == tomllib.loads(text)["flow"]["name"] and form == self.Format.FORMAT_TOML

    def start_run(self) -> bool:
        return True

    def create_stream_io(self) -> Stream:
        return Stream(self._graph)

    def stop(self) -> None:
        pass


def _plain(text: str) -> str:
    return text.strip('"').replace('\\"', '"')


def _ends(text: str) -> tuple[str, str]:
    """Node and port."""
    node, _, port = text.partition('":"')
    return _plain(node), _plain(port)
