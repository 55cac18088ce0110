"""A package that runs: on a Mac in Core ML, elsewhere in ONNX Runtime, read back from the package.

Core ML itself runs on Apple's systems alone. Elsewhere the package is opened from disk by the
parser of Core ML's format, which shares nothing with what wrote it, and what it says is computed
by ONNX Runtime: that shows whether the file holds the right program. It doesn't show what Apple's
compiler makes of it, or how the Neural Engine rounds, and it measures no latency.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir

from converter import plugins
from converter.errors import DependencyError, ModelError, UsageError
from converter.ir.edit import constant_tensor, is_constant, is_op
from converter.ir.model import TensorSpec
from converter.ir.real import real_numbers
from converter.options.request import Request
from converter.precision.fp16.strict import HALVES, strict
from converter.runtime.ort import OrtSession
from converter.runtime.session import Timing
from emitters.coreml.declared import declared, read_description
from emitters.coreml.interface import KEY, Port, read
from emitters.lowering.folding import fill_in

if TYPE_CHECKING:
    from converter.ir.model import Model

_LARGE = 600_000_000
"""Bytes of weights from which a program isn't rewritten: in float32 it might not fit a protobuf."""

_STORED = 32 << 20
"""Bytes of weights from which those of fewer bits are widened by us."""

_MAPPED = 256 << 20
"""Bytes of weights from which those that are widened lie in a file."""

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]


def open_package(path: Path, request: Request, *, frugal: bool = False) -> PackageSession:
    """A session on a package: Core ML's own where that is.

    Args:
        path: The ``.mlpackage``.
        request: What was asked for: threads, compute units.
        frugal: Whether ONNX Runtime leaves weights as they are, which takes less memory and more
            time.

    Raises:
        ModelError: It can't be read, or holds an operation that the parser doesn't know.
        DependencyError: coremltools isn't there.
    """
    if sys.platform == "darwin":
        from emitters.coreml.mac import MacSession

        return MacSession(path, request)
    return ReadBackSession(path, request, frugal=frugal)


class PackageSession(ABC):
    """What both have in common: arrays as the model has them become those that the package takes.

    Args:
        path: The package.
        specs: Its own inputs and outputs, by name, of types that arrays have.
        description: Its ``ModelDescription`` (``Model.proto``).

    Attributes:
        inputs, outputs: As the model had them that the package was made of, where it says so.
    """

    def __init__(self, path: Path, specs: Mapping[str, list[TensorSpec]], description: Any) -> None:
        self._path = path
        self._declared = declared(description.input)
        ports = package_ports(path, specs, description)
        self._inputs, self._outputs = ports["inputs"], ports["outputs"]
        self.inputs = tuple(port.spec for port in self._inputs)
        self.outputs = tuple(port.spec for port in self._outputs)

    @property
    @abstractmethod
    def runtime(self) -> dict[str, Any]:
        """What really runs."""

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """Outputs by name, as the model has them; a batch one by one where the package takes one.

        Raises:
            UsageError: An integer doesn't fit into 32 bits, or the package takes no such shape.
        """
        parts = [self._call(given) for given in self._given(feeds)]
        found = parts[0]
        if len(parts) > 1:
            found = {name: np.concatenate([part[name] for part in parts]) for name in found}
        return {port.spec.name: _out(port, found[port.name]) for port in self._outputs}

    def time(self, feeds: Arrays, runs: int, concurrency: int = 1) -> Timing:
        """Runs them that often; where the package takes a batch one by one, that is one run."""
        return self._time(list(self._given(feeds)), runs, concurrency)

    @abstractmethod
    def close(self) -> None:
        """Gives the model's memory back."""

    @abstractmethod
    def _call(self, given: Arrays) -> dict[str, Array]:
        """The package's outputs, by its own names."""

    @abstractmethod
    def _time(self, given: list[Arrays], runs: int, concurrency: int) -> Timing:
        """Times of running all of ``given``."""

    def _given(self, feeds: Arrays) -> list[Arrays]:
        """What the package takes: once, or for each of a batch where it takes one at a time."""
        given = {port.name: taken(port, feeds[port.spec.name]) for port in self._inputs}
        single = [p for p in self._inputs if p.spec.has_batch and p.shape and p.shape[0] == 1]
        counts = {len(given[port.name]) for port in single}
        if counts - {1} and len(counts) == 1 and self._is_batched():
            parts: list[Arrays] = [
                {name: array[index : index + 1] for name, array in given.items()}
                for index in range(counts.pop())
            ]
        else:
            parts = [given]
        for part in parts:
            for name, array in part.items():
                if name in self._declared:
                    self._declared[name].require(name, array.shape)
        return parts

    def _is_batched(self) -> bool:
        return all(port.spec.has_batch for port in (*self._inputs, *self._outputs))


class ReadBackSession(PackageSession):
    """A package's program in ONNX Runtime.

    float16, which its CPU provider mostly computes in float32, is computed in float32 with every
    tensor rounded: no less than what hardware does, so that what overflows there does here.

    Args:
        path: The ``.mlpackage``.
        request: What was asked for: threads.
        frugal: Whether ONNX Runtime leaves weights as they are, which takes less memory and more
            time.
    """

    def __init__(self, path: Path, request: Request, *, frugal: bool = False) -> None:
        model = read_back(path)
        specs = {"inputs": list(model.inputs), "outputs": list(model.outputs)}
        super().__init__(path, specs, read_description(path))
        if model.weight_bytes() > _STORED:
            _widen(model)
        self._rounded = _can_be_rounded(model)
        if self._rounded:
            fill_in(model.graph)  # what is rounded is known by its type
            model = strict(model)
        self._folder = TemporaryDirectory(prefix="modelyard-")
        if model.weight_bytes() > _MAPPED:
            model.write_converted(Path(self._folder.name) / "widened.data")
        self._session = OrtSession(
            model.graph, threads=request.threads, prepack=not frugal, exact=True
        )

    @property
    def runtime(self) -> dict[str, Any]:
        """ONNX Runtime, and that it stands for Core ML."""
        return {
            **self._session.runtime,
            "stands_for": self._path.name,
            "read_back": True,
            "runs": f"the program that was read back from {self._path.name}"
            + (", in float32 with every 16-bit tensor rounded," if self._rounded else ""),
            "not_run": (
                "Core ML only runs on Apple's systems. Apple's compiler and the Neural "
                "Engine's rounding aren't covered, and latency needs a Mac"
            ),
        }

    def close(self) -> None:
        """Closes ONNX Runtime's session."""
        self._session.close()
        self._folder.cleanup()

    def _call(self, given: Arrays) -> dict[str, Array]:
        return self._session.run(given)

    def _time(self, given: list[Arrays], runs: int, concurrency: int) -> Timing:
        raise DependencyError(
            f"{self._path.name} can't be measured here: Core ML only runs on Apple's systems",
            code="device-missing",
            hint="Run modelyard bench on a Mac.",
        )


def read_back(path: Path) -> Model:
    """A package's program, its free sizes called as in the model that it was made of.

    Raises:
        ModelError: It can't be read, or holds an operation that the parser doesn't know.
    """
    model: Model = plugins.load("parsers", "coreml").read(path)
    specs = {"inputs": list(model.inputs), "outputs": list(model.outputs)}
    _name_sizes(model, package_ports(path, specs, read_description(path))["inputs"])
    return model


def _widen(model: Model) -> None:
    """Weights that are stored in fewer bits become what they stand for, computed when it is asked
    for: ONNX Runtime would compute all of them and hold them."""
    for node in list(model.graph.graph):
        if not is_op(node, "DequantizeLinear") or not all(map(is_constant, node.inputs)):
            continue
        old, stored, scale = node.outputs[0], constant_tensor(node.inputs[0]), node.inputs[1]
        assert stored is not None and scale is not None and scale.dtype is not None
        shape = onnx_ir.Shape(stored.shape.numpy())
        new = onnx_ir.Value(
            name=f"{old.name}_widened", shape=shape, type=onnx_ir.TensorType(scale.dtype)
        )
        numbers = partial(_numbers, old, f"{new.name}")
        new.const_value = onnx_ir.LazyTensor(numbers, scale.dtype, shape, name=new.name)
        model.graph.graph.register_initializer(new)
        old.replace_all_uses_with(new)
        model.graph.graph.remove(node)


def _numbers(stored: onnx_ir.Value, name: str) -> onnx_ir.TensorProtocol:
    numbers = real_numbers(stored)
    assert numbers is not None
    return onnx_ir.tensor(numbers, name=name)


def package_ports(
    path: Path, specs: Mapping[str, list[TensorSpec]], description: Any
) -> dict[str, list[Port]]:
    """A package's inputs and outputs, as the model had them where it says so.

    Args:
        path: The ``.mlpackage``, for messages.
        specs: ``inputs`` and ``outputs``, as the package declares them.
        description: The package's ``ModelDescription``, which may hold the model's own.

    Returns:
        ``inputs`` and ``outputs``.

    Raises:
        ModelError: The description's own record doesn't go with the package's ports.
    """
    text = description.metadata.userDefined.get(KEY)
    by_name = {spec.name: spec for kind in specs.values() for spec in kind}
    try:
        ports = read(text, by_name) if text else {}
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{path.name}: its metadata under {KEY} doesn't fit its inputs and outputs",
            code="not-an-artifact",
        ) from error
    return {kind: ports.get(kind) or _as_they_are(own) for kind, own in specs.items()}


def _model_sizes(port: Port) -> tuple[int | str, ...]:
    """The model's shape of an input, in the package's order."""
    shape = port.spec.shape or ()
    if port.joined is not None:
        return (*shape[: port.joined[0]], prod(port.joined[1]))
    return shape if port.image is None else port.image.arranged(shape)


def _name_sizes(model: Model, ports: list[Port]) -> None:
    """Gives free sizes of inputs the names that the model had for them. The package has none, and
    ONNX Runtime shares memory among sizes that it reads the same names for."""
    shapes = {port.name: _model_sizes(port) for port in ports}
    for value in model.graph.graph.inputs:
        named, own = shapes.get(value.name or "", ()), value.shape
        if own is not None and len(own) == len(named):
            dims = zip(own, named, strict=True)
            value.shape = onnx_ir.Shape([d if isinstance(d, int) else name for d, name in dims])


def _can_be_rounded(model: Model) -> bool:
    """Whether it has 16-bit tensors, all of them inside, and is of a size to be rewritten."""
    border = (*model.graph.graph.inputs, *model.graph.graph.outputs)
    if any(value.dtype in HALVES for value in border) or model.weight_bytes() > _LARGE:
        return False
    constants = (value for graph in model.graph.graphs() for value in graph.initializers.values())
    return any(value.dtype in HALVES for value in constants)


def _as_they_are(specs: list[TensorSpec]) -> list[Port]:
    return [Port(replace(spec), spec.name, spec.dtype, spec.shape or ()) for spec in specs]


def taken(port: Port, array: Array) -> Array:
    """An array of the model's input as the package takes it."""
    if port.image is not None:
        return port.image.pixels(array)
    if port.dtype == "int32" and array.dtype != np.int32:
        info = np.iinfo(np.int32)
        if array.size and (int(array.min()) < info.min or int(array.max()) > info.max):
            raise UsageError(
                f"a sample of {port.spec.name} holds integers of more than 32 bits, and Core "
                "ML has no wider ones",
                code="samples-mismatch",
            )
        array = array.astype(np.int32)
    elif port.dtype == "float32":  # float16, which packages before iOS16 don't take
        array = array.astype(np.float32, copy=False)
    return array if port.joined is None else array.reshape(*array.shape[: port.joined[0]], -1)


def _out(port: Port, array: Array) -> Array:
    """An array of the package's output as the model gives it."""
    if port.joined is not None:
        first, sizes = port.joined
        array = array.reshape(array.shape[:first] + sizes)
    return array if array.dtype.name == port.spec.dtype else array.astype(port.spec.dtype)
