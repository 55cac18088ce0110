"""A file in LiteRT whose packed weights lie in a file, for who has more time than memory.

XNNPACK copies weights into an order of its own. LiteRT's interpreter holds these copies beside the
file's own pages; its compiled models can have XNNPACK write each copy into a file, and map that.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from .litert import Entry, Runner

_REFUSES = (ImportError, TypeError, ValueError, RuntimeError, KeyError)
"""What says that a file, or this version of LiteRT, can't be run this way: the interpreter says
then what is wrong, or runs it."""


class CachedRunner(Runner):
    """As a compiled model where LiteRT can, else as any other runner.

    Args:
        entry: Of the first subgraph, whose sizes are all fixed.
        threads: Of a run.
    """

    def __init__(self, entry: Entry, threads: int) -> None:
        self._given = entry, threads
        self._model: Any = None
        try:
            self._model, self._key, self._names = self._opened()
            self._taken = self._model.create_input_buffers(0)
            self._made = self._model.create_output_buffers(0)
        except _REFUSES:
            self._leave()

    def _opened(self) -> tuple[Any, str, dict[str, list[str]]]:
        """The model, its one signature's key, and the names of inputs and outputs."""
        from ai_edge_litert.compiled_model import CompiledModel
        from ai_edge_litert.options import CpuOptions, Options

        entry, threads = self._given
        cache = str(Path(entry.packed) / "packed")
        cpu = CpuOptions(num_threads=threads, xnnpack_weight_cache_path=cache)
        model = CompiledModel.from_file(entry.file, options=Options(cpu_options=cpu))
        ((key, names),) = model.get_signature_list().items()
        if set(names["inputs"]) != set(entry.inputs) or set(names["outputs"]) != set(entry.outputs):
            raise ValueError("the signature is another than the main graph")
        return model, key, names

    def _leave(self) -> None:
        """Goes on with the interpreter."""
        self._model = None
        super().__init__(*self._given)

    def signatures(self) -> list[str]:
        return super().signatures() if self._model is None else [self._key]

    def operators(self) -> dict[str, Any]:
        """As the interpreter tells it; of a compiled model, whether it has operators left alone:
        {"whole": bool}."""
        if self._model is None:
            return super().operators()
        return {"whole": bool(self._model.is_fully_accelerated())}

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name, in order."""
        if self._model is not None and all(name in feeds for name in self._given[0].inputs):
            try:
                return self._run_compiled(feeds)
            except _REFUSES:
                self._leave()
        return super().run(feeds)

    def _run_compiled(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        import numpy as np

        taken = self._model.get_input_tensor_details(self._key)
        for name, buffer in zip(self._names["inputs"], self._taken):
            array = np.ascontiguousarray(feeds[name])
            if array.shape != tuple(taken[name]["shape"]):
                raise ValueError(f"{name} has other sizes than the file's")
            buffer.write(array.reshape(-1).view(np.int8))  # bytes: it has no name for all types
        self._model.run_by_index(0, self._taken, self._made)
        details = self._model.get_output_tensor_details(self._key)
        found = {}
        for name, buffer in zip(self._names["outputs"], self._made):
            kind, shape = np.dtype(details[name]["dtype"]), details[name]["shape"]
            content = buffer.read(prod(shape) * kind.itemsize, np.int8)
            found[name] = content.view(kind).reshape(shape)
        return {name: found[name] for name in self._given[0].outputs}
