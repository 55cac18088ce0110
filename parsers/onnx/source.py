"""An ONNX file that is open: its Model, and the original in ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import onnx_ir

from converter.errors import ModelError
from converter.ir.constant_size import require_modest_constants
from converter.ir.external import read_proto, read_small_tensors, read_sparse_data
from converter.ir.missing import places_of_missing
from converter.ir.model import Model
from converter.ir.randomness import fold_random, random_to_inputs
from converter.ir.symbols import name_inputs
from converter.options.request import Request
from converter.runtime.ort import OrtSession, failing_on, holds_halves
from converter.runtime.session import Progress
from parsers.file_source import FileSource
from parsers.onnx.graph import check, densify, rounds
from parsers.onnx.interface import Interface

NEWEST_FORMAT = 10
"""The file format's version from which on ONNX Runtime may be too old for it."""

LARGE = 256 << 20
"""Bytes of external weights above which they stay mapped while the original runs."""


class OnnxSource(FileSource):
    """An ONNX file as a source.

    Args:
        path: The file.
        request: Its ``inputs``, ``outputs`` and ``batch`` change the model's interface.
        progress: Told what is being done.

    Attributes:
        warnings: What was changed in a way that the user should know of.
    """

    def __init__(self, path: Path, request: Request, progress: Progress) -> None:
        super().__init__(path, request, progress)
        self.warnings: list[str] = []
        self._failing = ""

    def parse(self) -> Model:
        """The file's model, in the opset it has, with the interface that was asked for.

        Raises:
            UsageError: ``--input``, ``--output`` or ``--batch`` don't fit the file.
            ModelError: It can't be read, or ONNX Runtime can't load it.
            UnsupportedError: It holds what can't be taken; all of it.
        """
        self._progress(f"reading {self.path.name}")
        self.warnings = []
        proto = read_proto(self.path)
        check(proto, self.path.name)
        read_sparse_data(self.path, proto)
        densify(proto)
        _free_negative_dimensions(proto)
        proto.ClearField("training_info")
        producer = f"{proto.producer_name} {proto.producer_version}".strip()
        model = Model.from_proto(proto, self.path)
        changed = fold_random(model.graph)
        noise = self._take_noise(model) if self._request.random_as_input else {}
        changed |= read_small_tensors(model.graph) or bool(noise)
        require_modest_constants(model.graph)
        original = _readable(model, self.path, changed=changed)
        self._progress("loading it in ONNX Runtime")
        self._open_session(model, original)
        self._arithmetic = "int8" if rounds(model.graph) else ""
        model.graph.graph.sort()
        from_tensorflow = proto.producer_name == "tf2onnx"
        wishes = replace(self._wishes(readable=from_tensorflow), noise=frozenset(noise))
        self._interface = Interface.apply(model, wishes)
        self.warnings += self._interface.notes
        for name, places in places_of_missing(model.graph.graph).items():
            model.describe(name, missing=list(places))
        for value, meaning in noise.items():
            model.describe(value.name or "", meaning=meaning)
            self.warnings.append(f"{value.name} is an input now, {meaning}, which the file draws")
        facts = {"format": "onnx", "opset": model.opset, **_named("producer", producer)}
        facts |= _named("fails", self._failing)
        model.source = facts | ({"made_from": model.source} if model.source else {})
        if proto.metadata_props:
            from parsers.onnx.metadata import suggested

            metadata = {item.key: item.value for item in proto.metadata_props}
            model.source |= suggested(model, metadata).told()
        return model

    def _take_noise(self, model: Model) -> dict[onnx_ir.Value, str]:
        """Makes inputs of random numbers, for the original too: both get the same."""
        name_inputs(model.graph)
        return random_to_inputs(model.graph)

    def _open_session(self, model: Model, original: Path | onnx_ir.Model) -> None:
        if self._session is not None:
            return
        frugal = model.mapped_bytes() > LARGE and not self._request.bench
        halves = holds_halves(model.graph)
        try:
            self._session = OrtSession(original, plain=frugal, halves=halves)
        except ModelError as error:
            self._session = self._without_what_fails(original, halves, error)

    def _without_what_fails(
        self, original: Path | onnx_ir.Model, halves: bool, error: ModelError
    ) -> OrtSession:
        """The original without the optimization of ONNX Runtime's that fails on it.

        Raises:
            ModelError: It doesn't load without any.
        """
        self._progress("finding which optimization of ONNX Runtime's fails on it")
        found = failing_on(original, halves=halves)
        if found is None:
            raise ModelError(
                f"{self.path.name}: {error.message}",
                code="runtime-failed",
                hint="Modelyard can only compare with a model that runs unchanged.",
            ) from error
        self._failing = str(found)
        self.warnings.append(
            f"{found} fails on {self.path.name}, which was run without: {found.remedy}. "
            f"It says: {error.message}"
        )
        return OrtSession(original, halves=halves, level=found.below, without=found.left_out)


def _free_negative_dimensions(proto: onnx.ModelProto) -> None:
    """Some exporters write -1 for a dimension that is free, which ONNX writes by leaving it out."""
    graph = proto.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_value") and dim.dim_value < 0:
                dim.ClearField("dim_value")


def _readable(model: Model, path: Path, *, changed: bool) -> Path | onnx_ir.Model:
    """The file, unless reading it ``changed`` how it is written down; where its format is newer
    than ONNX Runtime reads, the same model in an older one.

    The format's version says how a model is written down, not what it computes.
    """
    if (model.graph.ir_version or 0) <= NEWEST_FORMAT:
        return model.graph if changed else path
    older = model.graph.clone()
    older.ir_version = NEWEST_FORMAT
    return older


def _named(key: str, text: str) -> dict[str, str]:
    return {key: text} if text and "/" not in text and "\\" not in text else {}
