"""An emitted file in LiteRT, which runs in a process of its own: a bad file can end it.

That process serves one file after another; where two are open at once, there are two.
"""

from __future__ import annotations

import json
import mmap
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.errors import MachineError, ModelError
from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.runtime.interpreter import interpreter
from converter.runtime.session import Timing
from converter.runtime.worker import Worker, WorkerSession
from emitters.tflite.delegates import left_by_xnnpack, told_of_all
from modelyard.containers.tflite import unpack

if TYPE_CHECKING:
    import numpy as np

DIMENSIONS = "modelyard.dimensions"
"""Name of the metadata that holds the names of free dimensions, which the format has no place for:
JSON, the shape of each input and output by its name."""

LARGE = 64 << 20
"""Bytes of a file from which its process doesn't wait for the next one: it holds them, and packed
weights beside them."""

_idle: list[Worker] = []


def open_file(
    path: Path,
    request: Request,
    *,
    xnnpack: bool = True,
    again: bool = False,
    frugal: bool = False,
) -> LiteRTSession:
    """A session on a file.

    Args:
        path: The file, with a signature.
        request: Its threads count.
        xnnpack: Whether the XNNPACK delegate takes what it can, as LiteRT has it by default.
        again: Whether the last session on the same file may go on, as it was left.
        frugal: Whether a large file's packed weights lie in a file, where all sizes are fixed.

    Raises:
        ModelError: LiteRT refuses the file.
        MachineError: LiteRT's process died of it.
    """
    return LiteRTSession(path, request, xnnpack, again, frugal)


class LiteRTSession:
    """A file's signature, run by its names.

    Args:
        path: The file, with a signature.
        request: What was asked for: threads.
        xnnpack: Whether the XNNPACK delegate takes what it can.
        again: Whether the last session on the same file may go on, as it was left.
        frugal: Whether a large file's packed weights lie in a file, where all sizes are fixed.

    Attributes:
        inputs, outputs: As the file declares them; free dimensions have the names that the
            file's metadata has for them, else ``batch`` and ``dim0``, ``dim1``...
    """

    def __init__(
        self, path: Path, request: Request, xnnpack: bool, again: bool, frugal: bool
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="modelyard-")
        try:
            self._worker = _idle.pop()
        except IndexError:  # none, or another thread took the last
            self._worker = _start()
        self._broken = False
        self._large = path.stat().st_size > LARGE
        self._told = None if xnnpack else ""
        signature = signature_of(path)
        self.inputs, self.outputs = signature["inputs"], signature["outputs"]
        self._count = signature["operators"]
        cached = frugal and xnnpack and self._large and _is_fixed((*self.inputs, *self.outputs))
        self._call(
            "load",
            file=str(path.absolute()),  # the process may be one that began in another folder
            xnnpack=xnnpack,
            again=again,
            packed=self._folder.name if cached else "",
            inputs=signature["input_numbers"],
            outputs=signature["output_numbers"],
        )
        version = interpreter(None).version("ai-edge-litert") or ""
        runtime = {"name": "LiteRT", "version": version, "delegate": "xnnpack" if xnnpack else ""}
        self._session = WorkerSession(
            self._call, Path(self._folder.name), self.inputs, self.outputs, runtime, request.threads
        )

    @property
    def runtime(self) -> dict[str, Any]:
        """LiteRT, its version, whether XNNPACK is used, and, after a run, what it leaves."""
        told = {"delegated": self._told} if self._told else {}
        return {**self._session.runtime, **told}

    def run(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        results = self._session.run(feeds)
        # Only a run settles the shapes, and with them what XNNPACK takes.
        if self._told is None:
            found = self._call("operators")
            self._told = (
                told_of_all(found["whole"], self._count)
                if "whole" in found
                else left_by_xnnpack(found["left"], found["operators"])
            )
        return results

    def time(
        self, feeds: Mapping[str, np.ndarray[Any, Any]], runs: int, concurrency: int = 1
    ) -> Timing:
        """Wall times in LiteRT's process."""
        return self._session.time(feeds, runs, concurrency)

    def shapes(
        self, inputs: Mapping[str, list[int]], tensors: list[int]
    ) -> dict[int, tuple[int, ...]]:
        """The shapes of tensors of the main graph, by their numbers, where inputs have these."""
        found = self._call("shapes", inputs=dict(inputs), tensors=tensors)["shapes"]
        return {int(number): tuple(shape) for number, shape in found.items()}

    def close(self) -> None:
        """Hands the process to the next file; one that holds a large file ends."""
        if self._broken or self._large:
            self._worker.close()
        else:
            _idle.append(self._worker)
        self._folder.cleanup()
        self._broken = True

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        try:
            return self._worker.call(method, **params)
        except MachineError:
            self._broken = True
            raise
        except ModelError:
            self._broken = method == "load"
            raise


def _start() -> Worker:
    return Worker(
        plugins.spec("parsers", "tflite").framework,
        what="the LiteRT process",
        source="the TFLite file",
        interpreter=interpreter(None),
        progress=lambda text: None,
    )


def declared(path: Path) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """A file's inputs and outputs, as its signature has them."""
    signature = signature_of(path)
    return signature["inputs"], signature["outputs"]


def signature_of(path: Path) -> dict[str, Any]:
    """The names, types, shapes and numbers of a file's inputs and outputs: its first signature's;
    of a file without one, the tensors' of its main graph; whether we wrote it (``ours``), and how
    many ``operators`` that graph has."""
    with path.open("rb") as file:
        # Mapped: the file may be larger than the memory, and only its tables are read.
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    model = unpack(content, path.name)
    tensors = model.subgraphs[0].tensors
    free = _Symbols(names_of_dimensions(model))
    found: dict[str, Any] = {"ours": "modelyard" in _text(model.description)}
    found["operators"] = len(model.subgraphs[0].operators or ())
    for kind, items in _borders(model).items():
        found[f"{kind}s"] = tuple(_spec(name, tensors[number], free) for name, number in items)
        found[f"{kind}_numbers"] = [{"name": name, "index": number} for name, number in items]
    return found


def _is_fixed(specs: Iterable[TensorSpec]) -> bool:
    """Whether no size is free and no type is text. LiteRT's compiled models crash where a size is
    another than the file's (2.3: double free, or a segmentation fault at the next run)."""
    fixed = all(isinstance(dim, int) for spec in specs for dim in spec.shape or ("rank",))
    return fixed and all(spec.dtype != "string" for spec in specs)


def _borders(model: Any) -> dict[str, list[tuple[str, int]]]:
    """Names and tensor numbers of the main graph's inputs and outputs."""
    graph = model.subgraphs[0]
    for signature in model.signatureDefs or ():
        if signature.subgraphIndex == 0:
            named = {"input": signature.inputs, "output": signature.outputs}
            return {
                kind: [(_text(item.name), int(item.tensorIndex)) for item in items]
                for kind, items in named.items()
            }
    numbers = {"input": graph.inputs, "output": graph.outputs}
    return {
        kind: [(_text(graph.tensors[number].name), int(number)) for number in items]
        for kind, items in numbers.items()
    }


def names_of_dimensions(model: Any) -> dict[str, list[int | str | None]]:
    """The shapes of inputs and outputs with the names that :func:`dimensions` stored."""
    for item in model.metadata or ():
        if _text(item.name) == DIMENSIONS:
            data = model.buffers[item.buffer].data
            found: dict[str, list[int | str | None]] = json.loads(bytes(data).decode())
            return found
    return {}


def dimensions(specs: Iterable[TensorSpec]) -> dict[str, bytes]:
    """Metadata with the shapes of inputs and outputs, where there are free dimensions to name."""
    shapes = {spec.name: list(spec.shape) for spec in specs if spec.shape is not None}
    if not any(isinstance(dim, str) for shape in shapes.values() for dim in shape):
        return {}
    return {DIMENSIONS: json.dumps(shapes, ensure_ascii=False).encode()}


class _Symbols:
    """Names for free dimensions: the file's metadata's, else numbered ones."""

    def __init__(self, names: Mapping[str, list[int | str | None]]) -> None:
        self._names = names
        self._count = 0

    def of(self, tensor: str, axis: int) -> str:
        """As in the model that the file was made of; else ``batch`` for the first axis, else a
        number."""
        shape = self._names.get(tensor, [])
        known = shape[axis] if axis < len(shape) else None
        if isinstance(known, str):
            return known
        if axis == 0:
            return "batch"
        self._count += 1
        return f"dim{self._count - 1}"


_TYPES = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 5: "string", 6: "bool",
    7: "int16", 8: "complex64", 9: "int8", 10: "float64", 12: "uint64", 15: "uint32", 16: "uint16",
    18: "bfloat16",
}  # fmt: skip


def _spec(name: str, tensor: Any, free: _Symbols) -> TensorSpec:
    shape = [int(dim) for dim in tensor.shape] if tensor.shape is not None else []
    signature = tensor.shapeSignature if tensor.shapeSignature is not None else shape
    dims = tuple(free.of(name, axis) if dim < 0 else int(dim) for axis, dim in enumerate(signature))
    quant = tensor.quantization
    scale = zero = None
    if quant is not None and quant.scale is not None and len(quant.scale) == 1:
        scale, zero = float(quant.scale[0]), int(quant.zeroPoint[0])
    return TensorSpec(name, _TYPES[tensor.type], dims, scale=scale, zero_point=zero)


def _text(name: bytes | str | None) -> str:
    return name.decode() if isinstance(name, bytes) else name or ""
