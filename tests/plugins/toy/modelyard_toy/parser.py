"""Toy files: JSON that holds layers, read here."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx_ir

from converter.errors import ModelError
from converter.files.signatures import Marks
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.parser import Identity
from converter.runtime.session import Progress
from modelyard_toy.child import layers
from modelyard_toy.request import ToyRequest
from modelyard_toy.session import LayersSession
from parsers.file_source import FileSource
from parsers.onnx.interface import Interface
from parsers.whole_file import model_name, refuse_class_options


class ToyParser:
    name = "toy"
    extra = None
    framework = None
    marks = Marks(suffixes=(".toy",))

    def sniff(self, source: str) -> bool:
        """Whether it begins as such a file does."""
        with suppress(OSError):
            return Path(source).is_file() and Path(source).open("rb").read(8) == b'{"toy": '
        return False

    def identify(self, request: Request) -> Identity:
        path = Path(request.source)
        refuse_class_options(request, path.name)
        return Identity(model_name(path.stem), self.name, {path.name: path}, {})

    def open(self, request: Request, workdir: Path, progress: Progress) -> ToySource:
        return ToySource(Path(request.source), request, progress)


class ToySource(FileSource):
    """A toy file; FileSource gives its model the interface that was asked for."""

    warnings = ()

    def parse(self) -> Model:
        """The layers as ONNX.

        Raises:
            ModelError: There is no layer.
        """
        asked = self._request.of(ToyRequest)
        found = [
            (np.float32(item["weights"]), np.float32(item["bias"]), item.get("relu", False))
            for item in json.loads(self.path.read_text())["layers"][: asked.toy_layers]
        ]
        if not found:
            raise ModelError(f"{self.path.name} holds no layer", hint="Give it one at least.")
        model = Model.wrap(onnx_ir.from_proto(layers.to_onnx(found)))
        self._session = LayersSession(found)
        self._interface = Interface.apply(model, self._wishes())
        model.source = {"format": "toy"}
        return model
