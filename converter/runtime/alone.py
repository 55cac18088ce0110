"""An artifact in a process of its own, which holds its runtime and nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import MachineError, ModelError, UsageError
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import interpreter
from converter.runtime.worker import Worker

if TYPE_CHECKING:
    import numpy as np

    from converter.runtime.session import Footprint, OperatorTime, Profile

SECONDS = {"memory": 0.1, "profile": 0.5}
"""How long a model runs for its steady state, and for the time by operator."""

Feeds = Mapping[str, "np.ndarray[Any, Any]"]
Operators = list["OperatorTime"]


@dataclass(frozen=True)
class Alone:
    """How a file is run in a process of its own.

    Attributes:
        framework: Whose backend has the methods ``memory`` and ``profile``.
        file: The artifact.
        settings: What both methods are given besides.
        load: What the method ``load`` is given before, where there is one.
        package: The runtime's distribution.
        arena: What its arena holds, for people, or why it isn't told.
        joined: Makes operators with their layers of what ``profile`` answers.
    """

    framework: Framework
    file: Path
    settings: Mapping[str, Any]
    package: str
    arena: str
    joined: Callable[[Mapping[str, Any]], Operators]
    load: Mapping[str, Any] = field(default_factory=dict)

    def memory(self, feeds: Feeds) -> Footprint:
        """Resident memory by phase, on these feeds; where the process fails, why."""
        from converter.runtime.session import Footprint, Phase

        try:
            found = self._call("memory", feeds)
        except (ModelError, MachineError, UsageError) as error:
            return Footprint(why=error.message)
        if not found["phases"]:
            return Footprint(why="this system doesn't show resident memory (Linux does)")
        phases = tuple(Phase(**phase) for phase in found["phases"])
        return Footprint(phases, found["arena"], self.arena)

    def profile(self, feeds: Feeds) -> Profile:
        """Time by operator, on these feeds; where the process fails, why."""
        from converter.runtime.session import Profile

        try:
            found = self._call("profile", feeds)
        except (ModelError, MachineError, UsageError) as error:
            return Profile(why=error.message)
        version = interpreter(None).version(self.package) or ""
        title = f"{self.framework.title} {version}".strip()
        return Profile(title, found["runs"], found["us"], tuple(self.joined(found)))

    def _call(self, method: str, feeds: Feeds) -> dict[str, Any]:
        from converter.files.arrays import save_arrays

        with tempfile.TemporaryDirectory(prefix="modelyard-") as folder, self._worker() as worker:
            path = Path(folder) / "feeds.npz"
            texts = {n: a.astype(str) for n, a in feeds.items() if a.dtype == object}
            save_arrays(path, {**feeds, **texts})
            if self.load:
                worker.call("load", file=str(self.file.absolute()), later=True, **self.load)
            return worker.call(
                method, file=str(self.file.absolute()), feeds=str(path), seconds=SECONDS[method],
                **self.settings,
            )  # fmt: skip

    @contextmanager
    def _worker(self) -> Iterator[Worker]:
        worker = Worker(
            self.framework,
            what="the process that is measured",
            source=self.file.name,
            interpreter=interpreter(None),
            progress=lambda text: None,
        )
        try:
            yield worker
        finally:
            worker.close()


_ARENA = "ONNX Runtime's arena, with the weights that it copied there"


def in_onnxruntime(
    file: Path, providers: Sequence[str], threads: int | None, without: Sequence[str] = ()
) -> Alone | str:
    """A file in ONNX Runtime on the CPU.

    Args:
        file: The ``.onnx`` or ``.ort`` file.
        providers: The providers that the user asked for: with any but ``cpu``, nothing is measured.
        threads: Threads inside one run; None for one a core.
        without: Names of ONNX Runtime's optimizations that are left out.

    Returns:
        What to run; or, on a GPU, why memory isn't measured there.
    """
    if any(name != "cpu" for name in providers):
        return "this is measured on the CPU only: leave --provider out"
    backend = "onnx.child.costs:OnnxRuntimeBackend"
    framework = Framework("onnxruntime", backend, "", needs=("onnxruntime",), own=())
    settings = {"threads": threads, "without": list(without)}
    return Alone(framework, file, settings, "onnxruntime", _ARENA, partial(_joined, file))


def _joined(file: Path, found: Mapping[str, Any]) -> Operators:
    from converter.ir.serialized import read_outline
    from converter.runtime.layers import Node, join, layer_of
    from converter.runtime.session import OperatorTime

    ran = {item["name"]: item.pop("outputs") for item in found["nodes"]}
    if file.suffix == ".onnx":
        nodes = [
            Node(node.name, node.op_type, next(iter(node.input), ""), list(node.output))
            for node in read_outline(file).graph.node
        ]
    else:  # by ONNX Runtime itself, whose own nodes are called after their operators
        named = (item for item in found["nodes"] if layer_of(item["name"]))
        nodes = [Node(item["name"], item["op"], "", ()) for item in named]
    return join([OperatorTime(**item) for item in found["nodes"]], nodes, ran)
