"""Modelyard as an ONNX backend: an ONNX model becomes a target's file, and runs in its runtime.

The interface is ``onnx.backend.base``. ``MODELYARD_TARGET`` names the target (default: onnx). A
model is read as ``convert`` reads it, brought to Modelyard's opset, written for the target, and
opened again from disk. What Modelyard refuses counts as failed.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from converter import plugins
from converter.errors import UnsupportedError
from converter.ir.model import Model
from converter.options.recipe import make_request
from converter.passes.order import IMPORT_PASSES
from converter.protocols.emitter import Emitter
from converter.runtime.session import Session
from parsers.onnx.graph import check, densify

READ = ("normalize", *IMPORT_PASSES)
"""Passes that every model goes through."""


def read(proto: onnx.ModelProto, passes: Sequence[str] = READ) -> Model:
    """A Model as emitters get it.

    Args:
        proto: Is changed.
        passes: Names of passes, in order.

    Raises:
        ModelyardError: It isn't a valid model, or isn't supported.
    """
    check(proto, "model")
    densify(proto)
    model = Model.wrap(onnx_ir.from_proto(proto))
    model.graph.graph.sort()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in passes:
            model.graph = plugins.load("passes", name)(model.graph).model
    return model


def written(model: Model, target: str, folder: Path) -> Callable[[], Session]:
    """Writes a model's artifact for a target; gives what opens it from disk in its runtime.

    Args:
        model: As :func:`read` gives it.
        target: An emitter's name.
        folder: For the artifact; it isn't there yet.

    Raises:
        UnsupportedError: The target can't take the model; ``details`` say why.
    """
    emitter: Emitter = plugins.load("emitters", target)
    request = make_request({"source": "model.onnx", "to": [target], "threads": 1})
    if items := emitter.unsupported(model, request):
        raise UnsupportedError("the model holds what the target can't take", items)
    return partial(emitter.open, emitter.emit(model, folder, "fp32", request), request)


class ModelyardRep(BackendRep):
    """A converted model.

    Args:
        names: Of the source's inputs, in order.
        session: What runs it.
        folder: Where the artifact lies; it goes with this.
    """

    def __init__(
        self, names: Sequence[str], session: Session, folder: tempfile.TemporaryDirectory[str]
    ) -> None:
        self._names, self._session, self._folder = names, session, folder

    def run(self, inputs: Sequence[Any] | Mapping[str, Any] | np.ndarray, **_: Any) -> tuple[Any]:
        """The outputs, in order; inputs by their order or names."""
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if not isinstance(inputs, Mapping):
            inputs = dict(zip(self._names, inputs, strict=False))
        taken = {spec.name for spec in self._session.inputs}
        feeds = {n: _array(value) for n, value in inputs.items() if n in taken}
        return tuple(self._session.run(feeds).values())


def _array(value: Any) -> Any:
    """Numpy's scalars as arrays; sequences, and nothing, as they are."""
    return np.asarray(value) if isinstance(value, np.generic) else value


class ModelyardBackend(Backend):
    """See the module."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> ModelyardRep:
        """Converts a model."""
        proto = onnx.ModelProto()
        proto.CopyFrom(model)
        held = {tensor.name for tensor in proto.graph.initializer}
        names = [value.name for value in proto.graph.input if value.name not in held]
        folder = tempfile.TemporaryDirectory(prefix="modelyard-backend-")
        target = os.environ.get("MODELYARD_TARGET", "onnx")
        session = written(read(proto), target, Path(folder.name) / "artifact")()
        return ModelyardRep(names, session, folder)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """The CPU alone."""
        return bool(Device(device).type == DeviceType.CPU)


is_compatible = ModelyardBackend.is_compatible
prepare = ModelyardBackend.prepare
run_model = ModelyardBackend.run_model
run_node = ModelyardBackend.run_node
supports_device = ModelyardBackend.supports_device
